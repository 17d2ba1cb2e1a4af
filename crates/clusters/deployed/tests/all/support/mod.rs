//! Uses this test binary as the program of nodes and supervisors.

use supervisor::OwnProgram;

/// Starts this binary as a node or a supervisor.
pub fn program() -> OwnProgram {
    test_support::processes::program("support::be_host")
}

/// Has no effect as a test; with the arguments of a supervisor or node it runs as one.
#[test]
fn be_host() {
    test_support::processes::host();
}
