//! Logs of the cases.
use std::{fs, path::Path};

use test_support::contract as fixtures;

/// A healthy run of four ranks.
pub fn four_gpus() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nccl/h200/healthy-1.log");
    fs::read(path).unwrap()
}

/// The log that the command of a case names. Cases about speed need more than one rank.
pub fn log_of(case: &str) -> Vec<u8> {
    match case {
        "fail" | "own-past" => four_gpus(),
        _ => fixtures::log(),
    }
}
