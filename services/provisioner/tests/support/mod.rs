//! This very test binary as the program that nodes and supervisors are made of.

use std::path::Path;

use supervisor::Program;

/// Starts this binary again, as one of them.
pub fn program() -> Program {
    let this = std::env::current_exe().unwrap();
    let arguments = ["--exact", "support::be_host", "--nocapture", "--test-threads=1"];
    Program([this.into()].into_iter().chain(arguments.map(Into::into)).collect())
}

/// Does nothing as a test; with these arguments it is the body of a supervisor or node.
#[test]
fn be_host() {
    let arguments: Vec<String> = std::env::args().collect();
    match &arguments[..] {
        [.., verb, folder, name] if verb == "node" => supervisor::serve(Path::new(folder), name).unwrap(),
        [.., verb, folder] if verb == "build" => {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(supervisor::supervise(Path::new(folder))).unwrap();
        }
        _ => {}
    }
}
