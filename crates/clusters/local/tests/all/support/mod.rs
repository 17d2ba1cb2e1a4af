//! Uses this test binary as the program of nodes.

use supervisor::OwnProgram;

/// Starts this binary as a node.
pub fn program() -> OwnProgram {
    test_support::processes::program("support::be_host")
}

/// Does nothing as a test; with the arguments of a node, this binary runs as the node.
#[test]
fn be_host() {
    test_support::processes::host();
}
