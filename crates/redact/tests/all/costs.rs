//! Throughput: `cargo test --release -p redact costs:: -- --nocapture` prints it.

use std::{sync::Arc, time::Instant};

use redact::{Redactor, Rules};

fn speed(rules: &Arc<Rules>, block: &str) -> f64 {
    let size = if cfg!(debug_assertions) { 1 << 20 } else { 256 << 20 };
    let block = block.repeat((1 << 20) / block.len());
    let mut best: f64 = 0.0;
    for _ in 0..3 {
        let (mut redactor, mut out, mut stored) = (Redactor::new(Arc::clone(rules)), Vec::new(), 0);
        let started = Instant::now();
        for _ in 0..size / block.len().max(1) {
            for chunk in block.as_bytes().chunks(128 << 10) {
                out.clear();
                redactor.push(chunk, &mut out);
                stored += out.len();
            }
        }
        out.clear();
        redactor.finish(&mut out);
        stored += out.len();
        assert!(stored > 0 && out.capacity() < 1 << 20);
        best = best.max(size as f64 / 1e6 / started.elapsed().as_secs_f64());
    }
    best
}

#[test]
fn redaction_has_a_minimum_throughput() {
    let debug = "node-3:4711:4833 [5] NCCL INFO Channel 07/0 : 5[5] -> 6[6] via P2P/CUMEM/read comm 0x55d0c1f2e3a0 nRanks 16\n";
    let row = "       65536         16384     float     sum      -1    57.03    1.15    2.15      0    51.59    1.27    2.38      0\n";
    let text = "2026-11-20T17:59:43Z the token was refused because a key of the password store at https://host/path is missing\n";
    let none = Arc::new(Rules::new([""; 0]).unwrap());
    let started = Instant::now();
    let many = (0..30).map(|number| {
        format!("{:x}-{}", 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number + 1), "secret/value+")
    });
    let many = Arc::new(Rules::new(many).unwrap());
    println!("30 known values are prepared in {:?}", started.elapsed());
    for (name, block) in [("debug output", debug), ("rows", row), ("text about secrets", text)] {
        for (rules, known) in [(&none, 0), (&many, 30)] {
            println!("{name}, {known} known values: {:.0} MB/s", speed(rules, block));
        }
    }
}
