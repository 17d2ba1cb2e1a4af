//! This very test binary as the program that nodes and supervisors are made of.

use supervisor::Program;

/// Starts this binary again, as one of them.
pub fn program() -> Program {
    test_support::processes::program("support::be_host")
}

/// Does nothing as a test; with these arguments it is the body of a supervisor or node.
#[test]
fn be_host() {
    test_support::processes::host();
}
