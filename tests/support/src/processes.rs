//! Uses the test binary as the program that supervises builds and serves as a node.

use std::path::Path;

use supervisor::OwnProgram;

/// Starts this test binary with its test `name`, which must call [`host`].
pub fn program(name: &str) -> OwnProgram {
    let this = std::env::current_exe().unwrap();
    let arguments = ["--exact", name, "--nocapture", "--test-threads=1"];
    OwnProgram([this.into()].into_iter().chain(arguments.map(Into::into)).collect())
}

/// Runs as supervisor or node if the arguments request it. Has no effect in an ordinary test run.
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
