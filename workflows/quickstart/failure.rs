//! Prints failure messages and exits as a failed nccl-tests process does.

use std::{
    env, fs, process,
    sync::atomic::{AtomicBool, Ordering},
};

/// Source file that failure messages name, as in nccl-tests.
pub const SOURCE: &str = "collective_perf.rs";

/// Whether a row of the table is incomplete.
pub static IN_ROW: AtomicBool = AtomicBool::new(false);

/// Ends this process as nccl-tests does after a failure.
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
