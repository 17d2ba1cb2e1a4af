//! Uses this test binary as the program that supervises builds.

use std::path::Path;

use supervisor::OwnProgram;

/// Starts this binary as a supervisor.
pub fn program() -> OwnProgram {
    test_support::processes::program("support::be_host")
}

/// Has no effect as a test; with the arguments of a supervisor it runs as a supervisor.
#[test]
fn be_host() {
    test_support::processes::host();
}

/// Kills the supervisor of the build in this folder, as the kernel's OOM killer does.
#[allow(dead_code, reason = "only some tests kill a supervisor")]
pub fn kill_supervisor(folder: &Path) {
    let wanted = [b"build\0", folder.as_os_str().as_encoded_bytes(), b"\0"].concat();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter(|process| {
        std::fs::read(process.path().join("cmdline")).is_ok_and(|line| line.ends_with(&wanted))
    });
    let pids: Vec<_> = pids.map(|process| process.file_name()).collect();
    let [pid] = &pids[..] else { panic!("expected one supervisor, found {pids:?}") };
    assert!(std::process::Command::new("kill").arg("-KILL").arg(pid).status().unwrap().success());
}
