//! The end of a failed process.

use std::{
    env, fs, process,
    sync::atomic::{AtomicBool, Ordering},
};

/// Named in failures, as nccl-tests names its own source.
pub const SOURCE: &str = "collective_perf.rs";

/// Whether a row of the table has been begun and not ended.
pub static IN_ROW: AtomicBool = AtomicBool::new(false);

/// Ends this process as the real one ends on a failure.
pub fn fail(line: u32, code: i32, text: &str) -> ! {
    if IN_ROW.swap(false, Ordering::Relaxed) {
        println!();
    }
    let host = host();
    println!("{host}: Test failure {SOURCE}:{line} '{text}'");
    println!(" .. {host} pid {}: Test failure {SOURCE}:{}", process::id(), line!());
    process::exit(code)
}

pub fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| env::var("HOSTNAME").ok());
    let name = name.unwrap_or_default();
    name.trim().split('.').next().filter(|name| !name.is_empty()).unwrap_or("localhost").to_owned()
}
