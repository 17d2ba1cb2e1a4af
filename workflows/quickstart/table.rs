//! Prints the header, the rows and the summary in nccl-tests' text format.

use std::{process, sync::atomic::Ordering};

use crate::{
    BLOCK, WRONG,
    collective::Collective,
    failure::{IN_ROW, SOURCE, host},
    options::ProgramOptions,
    ring::Ring,
};

pub fn print_head(ring: &mut Ring, options: &ProgramOptions) {
    let host = host();
    let mut block = [0; BLOCK];
    let name = &host.as_bytes()[..host.len().min(BLOCK - 8)];
    block[..4].copy_from_slice(&process::id().to_ne_bytes());
    block[8..8 + name.len()].copy_from_slice(name);
    let devices = ring.gather(block);
    if ring.rank > 0 {
        return;
    }
    let ProgramOptions { threads, gpus, min, max, warmup, iters, .. } = options;
    let step = match options.factor {
        1 => format!("{}(bytes)", options.step),
        factor => format!("{factor}(factor)"),
    };
    println!("# Burnin's CPU collectives: a ring over TCP (loopback, or the address in BURNIN_HOST).");
    println!("# This is not NCCL and measures no GPU: it replaces nccl-tests on a machine without one.");
    println!("# Collective test starting: {}", options.collective.name());
    println!(
        "# nThread {threads} nGpus {gpus} minBytes {min} maxBytes {max} step: {step} warmup iters: {warmup} \
         iters: {iters} agg iters: 1 validation: {} graph: 0 unalign: 0",
        u8::from(options.check)
    );
    println!("#\n# Using devices");
    let mut hosts: Vec<&[u8]> = Vec::new();
    for (rank, block) in devices.iter().enumerate() {
        let pid = u32::from_ne_bytes(block[..4].try_into().unwrap());
        let name = block[8..].split(|&byte| byte == 0).next().unwrap_or_default();
        let device = hosts.iter().filter(|&&host| host == name).count();
        hosts.push(name);
        let name = String::from_utf8_lossy(name);
        println!(
            "#  Rank {rank:2} Group  0 Pid {pid:6} on {name:>10} device {device:2} [cpu:{device:02}] CPU"
        );
    }
    println!("#\n#{:62}out-of-place{:23}in-place          ", "", "");
    let half = |first: &str, second: &str, third: &str, last: &str| {
        format!("  {first:>7}  {second:>6}  {third:>6}  {last:>6}")
    };
    let line = |left: [&str; 5], half: String| {
        let [size, count, kind, op, root] = left;
        println!("#{size:>11}  {count:>12}  {kind:>8}  {op:>6}  {root:>6}{half}{half} ");
    };
    line(["size", "count", "type", "redop", "root"], half("time", "algbw", "busbw", "#wrong"));
    line(["(B)", "(elements)", "", "", ""], half("(us)", "(GB/s)", "(GB/s)", ""));
}

/// Writes a part of a row; it becomes visible at the end of the line, as in nccl-tests.
pub fn print_row(ring: &Ring, text: &str) {
    if ring.rank == 0 {
        IN_ROW.store(true, Ordering::Relaxed);
        print!("{text}");
    }
}

pub fn end_row(ring: &Ring) {
    if ring.rank == 0 {
        println!();
        IN_ROW.store(false, Ordering::Relaxed);
    }
}

pub fn print_foot(ring: &mut Ring, collective: Collective, bad_halves: f64, average: f64) -> i32 {
    let code = if bad_halves > 0.0 { WRONG } else { 0 };
    if ring.rank == 0 {
        let word = if code == 0 { "OK" } else { "FAILED" };
        println!("# Out of bounds values : {} {word}", general(bad_halves));
        println!("# Avg bus bandwidth    : {} ", general(average));
        println!("#\n# Collective test concluded: {}\n#\n", collective.name());
        if code != 0 {
            println!(" .. {} pid {}: Test failure {SOURCE}:{}", host(), process::id(), line!());
        }
    }
    // A barrier: otherwise a rank could exit early, and its slower neighbor would report it as lost.
    ring.sum(0.0);
    code
}

/// A number with two decimals, or with as many decimals as fit the width, or with an exponent.
pub fn squeeze(value: f64, width: usize) -> String {
    let plain = (0..=2).rev().map(|decimals| format!("{value:.decimals$}")).find(|text| text.len() <= width);
    plain.unwrap_or_else(|| exponent(&format!("{value:.*e}", width.saturating_sub(6))))
}

/// A number as `%g` prints it: six digits, without trailing zeros.
pub fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "-nan".to_owned() };
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(5 - power) {
        Ok(decimals) if power >= -4 => trim(&format!("{value:.decimals$}")),
        _ => exponent(&format!("{}e{power}", trim(mantissa))),
    }
}

/// `1.5e7` as C writes it: `1.5e+07`.
fn exponent(text: &str) -> String {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.abs())
}
