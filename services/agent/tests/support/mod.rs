//! This very test binary as the program that nodes are made of.

use std::path::Path;

use supervisor::Program;

/// Starts this binary again, as a node.
pub fn program() -> Program {
    let this = std::env::current_exe().unwrap();
    let arguments = ["--exact", "support::be_host", "--nocapture", "--test-threads=1"];
    Program([this.into()].into_iter().chain(arguments.map(Into::into)).collect())
}

/// Does nothing as a test; with these arguments it is the body of a node.
#[test]
fn be_host() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [.., verb, folder, name] = &arguments[..]
        && verb == "node"
    {
        supervisor::serve(Path::new(folder), name).unwrap();
    }
}
