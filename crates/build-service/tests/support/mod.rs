//! This very test binary as the program that supervises builds.

use std::path::Path;

use supervisor::Program;

/// Starts this binary again, as a supervisor.
pub fn program() -> Program {
    let this = std::env::current_exe().unwrap();
    let arguments = ["--exact", "support::be_host", "--nocapture", "--test-threads=1"];
    Program([this.into()].into_iter().chain(arguments.map(Into::into)).collect())
}

/// Does nothing as a test; with these arguments it is the body of a supervisor.
#[test]
fn be_host() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [.., verb, folder] = &arguments[..]
        && verb == "build"
    {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(supervisor::supervise(Path::new(folder))).unwrap();
    }
}

/// Ends the supervisor of the build in this folder, as a machine that runs out of memory would.
#[allow(dead_code, reason = "not every test file kills")]
pub fn kill_supervisor(folder: &Path) {
    let wanted = [b"build\0", folder.as_os_str().as_encoded_bytes(), b"\0"].concat();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter(|process| {
        std::fs::read(process.path().join("cmdline")).is_ok_and(|line| line.ends_with(&wanted))
    });
    let pids: Vec<_> = pids.map(|process| process.file_name()).collect();
    let [pid] = &pids[..] else { panic!("one supervisor, not {pids:?}") };
    assert!(std::process::Command::new("kill").arg("-KILL").arg(pid).status().unwrap().success());
}
