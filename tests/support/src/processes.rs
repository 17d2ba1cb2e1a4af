//! A test binary as the program that supervises builds and serves as a node, without a second binary to build.

use std::path::Path;

use supervisor::Program;

/// Starts this test binary again, in its test `name`, which has to call [`host`].
pub fn program(name: &str) -> Program {
    let this = std::env::current_exe().unwrap();
    let arguments = ["--exact", name, "--nocapture", "--test-threads=1"];
    Program([this.into()].into_iter().chain(arguments.map(Into::into)).collect())
}

/// The body of a supervisor or node, as the arguments say. Does nothing in an ordinary test run.
pub fn host() {
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
