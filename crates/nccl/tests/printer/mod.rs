//! Prints logs by the rules of each version, with their expected numbers.
#![allow(dead_code, reason = "each test binary uses its part")]

use model::measurement::{Half, Iterations, Row};
use std::fmt::Write as _;

/// A version of the text format and the options that change it.
#[derive(Clone, Copy, Debug)]
pub struct PrintedFormat {
    pub name: &'static str,
    pub milliseconds: bool,
    pub redop: Redop,
    pub root: bool,
    pub halves: u8,
    pub last: Last,
    pub copybw: bool,
    pub iterations: bool,
    pub cpu_time: bool,
    pub timestamp: bool,
    pub squeezed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Redop {
    NoColumn,
    Blank,
    Word(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Last {
    Error,
    Count,
    NotChecked,
}

const BASE: PrintedFormat = PrintedFormat {
    name: "2022",
    milliseconds: false,
    redop: Redop::Word("sum"),
    root: true,
    halves: 2,
    last: Last::Count,
    copybw: false,
    iterations: false,
    cpu_time: false,
    timestamp: false,
    squeezed: false,
};

const NEW: PrintedFormat = PrintedFormat { name: "2025", squeezed: true, ..BASE };

pub const FORMATS: [PrintedFormat; 17] = [
    PrintedFormat { name: "2017 all_reduce", milliseconds: true, last: Last::Error, ..BASE },
    PrintedFormat {
        name: "2017 broadcast",
        milliseconds: true,
        redop: Redop::NoColumn,
        halves: 1,
        last: Last::Error,
        ..BASE
    },
    PrintedFormat {
        name: "2017 all_gather",
        milliseconds: true,
        redop: Redop::NoColumn,
        root: false,
        last: Last::Error,
        ..BASE
    },
    PrintedFormat { name: "2017 unchecked", milliseconds: true, last: Last::NotChecked, ..BASE },
    PrintedFormat { name: "2019 all_reduce", root: false, last: Last::Error, ..BASE },
    PrintedFormat { name: "2019 all_gather", redop: Redop::NoColumn, root: false, last: Last::Error, ..BASE },
    PrintedFormat { name: "2019 broadcast", redop: Redop::NoColumn, last: Last::NotChecked, ..BASE },
    PrintedFormat { name: "2020 alltoall", redop: Redop::Blank, root: false, last: Last::Error, ..BASE },
    BASE,
    PrintedFormat { name: "2022 blank", redop: Redop::Blank, ..BASE },
    PrintedFormat { name: "2022 none", redop: Redop::Word("none"), last: Last::NotChecked, ..BASE },
    PrintedFormat { name: "2022 cputime", cpu_time: true, ..BASE },
    PrintedFormat { name: "2024 side work", copybw: true, ..BASE },
    NEW,
    PrintedFormat { name: "2026 timestamps", timestamp: true, ..NEW },
    PrintedFormat { name: "2026 iterations", iterations: true, ..NEW },
    PrintedFormat {
        name: "2026 everything",
        iterations: true,
        timestamp: true,
        last: Last::NotChecked,
        ..NEW
    },
];

pub fn header(format: &PrintedFormat) -> String {
    let mut half = String::new();
    half += if format.milliseconds {
        "    time  algbw  busbw"
    } else if format.cpu_time {
        "  cputime   algbw   busbw"
    } else {
        "     time   algbw   busbw"
    };
    if format.copybw {
        half += "  copybw";
    }
    half += match (format.milliseconds, format.squeezed, format.last) {
        (true, ..) => "      res",
        (_, true, _) => "  #wrong",
        (_, _, Last::Error) => "  error",
        _ if format.root && format.redop != Redop::NoColumn => " #wrong",
        _ => "  error",
    };
    if format.iterations {
        half += "    i_min    i_max    i_p99    i_cv%";
    }
    let mut line = if format.milliseconds {
        "#      bytes             N    type".to_owned()
    } else {
        "#       size         count      type".to_owned()
    };
    if format.redop != Redop::NoColumn {
        line += if format.milliseconds { "      op" } else { "   redop" };
    }
    if format.root {
        line += "    root";
    }
    for _ in 0..format.halves {
        line += &half;
    }
    if format.timestamp {
        line += "            timestamp";
    }
    let above = if format.halves == 1 {
        "#                out-of-place\n"
    } else {
        "#                out-of-place       in-place\n"
    };
    format!("{above}{line} \n")
}

/// The pieces in which one row is printed, without its newline, and the numbers of the row.
pub fn row(format: &PrintedFormat, size: u64, seed: u64) -> ([String; 3], Row) {
    let count = size / 4;
    let mut left = format!("{size:12}  {count:12}  {:>8}", "float");
    match format.redop {
        Redop::NoColumn => {}
        Redop::Blank => left += "        ",
        Redop::Word(word) => left += &format!("  {word:>6}"),
    }
    if format.root {
        left += &format!("  {:6}", -1);
    }
    let mut row = Row {
        size_bytes: size,
        count,
        dtype: "float".to_owned(),
        redop: match format.redop {
            Redop::Word(word) => Some(word.to_owned()),
            _ => None,
        },
        root: format.root.then_some(-1),
        ..Row::default()
    };
    let (first, out_of_place) = half(format, size, seed);
    row.out_of_place = Some(out_of_place);
    let mut pieces = [left, first, String::new()];
    if format.halves == 2 {
        let (second, in_place) = half(format, size, seed + 7);
        (pieces[2], row.in_place) = (second, Some(in_place));
    }
    if format.timestamp {
        pieces[2] += "  2026-01-05 12:00:07";
        row.timestamp = Some("2026-01-05 12:00:07".to_owned());
    }
    (pieces, row)
}

/// Appends a printed number, and returns its value with the printed precision.
fn number(out: &mut String, text: String, width: usize) -> f64 {
    *out += &format!("  {text:>width$}");
    text.parse().unwrap()
}

fn squeezed(value: f64, width: usize) -> String {
    (0..=2)
        .rev()
        .map(|decimals| format!("{value:.decimals$}"))
        .find(|text| text.len() <= width)
        .unwrap_or_else(|| format!("{value:.0}"))
}

fn half(format: &PrintedFormat, size: u64, seed: u64) -> (String, Half) {
    let time = 20.0 + size as f64 / (180_000.0 + seed as f64 * 931.0);
    let algbw = size as f64 / time / 1000.0;
    let mut out = String::new();
    let mut half = Half::default();
    if format.milliseconds {
        let text = format!("{:.3}", time / 1000.0);
        // The text has three decimals, so its digits are whole microseconds.
        half.time_us = text.replace('.', "").parse().unwrap();
        out += &format!("  {text:>7}");
    } else {
        let text = match time {
            _ if format.squeezed => squeezed(time, 7),
            ..100.0 => format!("{time:.2}"),
            ..10000.0 => format!("{time:.1}"),
            _ => format!("{time:.0}"),
        };
        half.time_us = number(&mut out, text, 7);
    }
    let width = if format.milliseconds { 5 } else { 6 };
    let bandwidth = |value: f64| if format.squeezed { squeezed(value, 6) } else { format!("{value:.2}") };
    half.algbw = number(&mut out, bandwidth(algbw), width);
    half.busbw = number(&mut out, bandwidth(algbw * 1.75), width);
    if format.copybw {
        half.copybw = Some(number(&mut out, bandwidth(algbw * 0.3), 6));
    }
    let width = if format.squeezed { 6 } else { 5 };
    match format.last {
        Last::NotChecked if format.milliseconds => out += "  \tN/A",
        Last::NotChecked => out += &format!("  {:>width$}", "N/A"),
        Last::Error => {
            half.error = Some(number(&mut out, "5e-07".to_owned(), if format.milliseconds { 7 } else { 5 }))
        }
        Last::Count => {
            let wrong = if seed.is_multiple_of(5) { seed } else { 0 };
            out += &format!("  {wrong:>width$}");
            half.wrong = Some(wrong);
        }
    }
    if format.iterations {
        let spread = [time * 0.9, time * 1.3, time * 1.2];
        let [min_us, max_us, p99_us] = spread.map(|value| number(&mut out, squeezed(value, 7), 7));
        let cv_pct = number(&mut out, "0.63".to_owned(), 7);
        half.iterations = Some(Iterations { min_us, max_us, p99_us, cv_pct });
    }
    (out, half)
}

/// The lines of a whole run of 8 ranks, each without its newline, and the rows of the run.
pub fn run(format: &PrintedFormat, sizes: impl Iterator<Item = u64>) -> (Vec<String>, Vec<Row>) {
    let mut lines = vec![
        "# Collective test starting: all_reduce_perf".to_owned(),
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 8388608 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0".to_owned(),
        "#".to_owned(),
        "# Using devices".to_owned(),
    ];
    for rank in 0..8 {
        lines.push(format!(
            "#  Rank {rank:2} Group  0 Pid   4000 on     node-1 device {rank:2} [0000:1{rank}:00] NVIDIA H100 80GB HBM3"
        ));
    }
    lines.push("#".to_owned());
    lines.extend(header(format).lines().map(str::to_owned));
    let mut rows = Vec::new();
    for (at, size) in sizes.enumerate() {
        let (pieces, row) = row(format, size, at as u64);
        lines.push(pieces.concat());
        rows.push(row);
    }
    lines.push("# Out of bounds values : 0 OK".to_owned());
    lines.push("# Avg bus bandwidth    : 187.866 ".to_owned());
    lines.push("#".to_owned());
    (lines, rows)
}

/// Sizes from 8 bytes to 8 GiB, each the previous one times a factor.
pub fn sizes() -> impl Iterator<Item = u64> {
    (3..=33).map(|power| 1u64 << power)
}

/// Puts a prefix before every line; `{}` in it is the number of the line, for timestamps.
pub fn prefixed(lines: &[String], prefix: &str) -> Vec<String> {
    let number = |at: usize| format!("{:02}", at % 60);
    lines.iter().enumerate().map(|(at, line)| prefix.replace("{}", &number(at)) + line).collect()
}

/// Prefixes of launchers and collectors.
pub const PREFIXES: [&str; 20] = [
    "0: ",
    " 0: ",
    "[1,0]<stdout>:",
    "[1,0]<stdout>: ",
    "[prterun-node-1-4242@1,0]<stdout>: ",
    "[0] ",
    "2026-01-05T12:00:{}.123456789Z ",
    "2026-01-05T12:00:{}.123456789Z stdout F ",
    "2026-01-05T12:00:{}.123456789+01:00 stdout F ",
    "2026-01-05T12:00:{}.1234567Z ",
    "Jan  5 12:00:{} node-1 slurmd[812]: ",
    "Jan 05 12:00:{} ",
    "[2026-01-05 12:00:{}] ",
    "nccl-1  | ",
    "[pod/nccl-test-0/main] ",
    "[pod/nccl-test-0/main] 2026-01-05T12:00:{}.12Z ",
    "node-1: ",
    "[STAT]:",
    "\u{1b}[36mnccl-1  | \u{1b}[0m",
    "    ",
];

/// Rows with debug output of the same process between their pieces.
pub fn interleaved(format: &PrintedFormat, host: &str, call: &str, hosts_known: bool) -> (String, Vec<Row>) {
    let mut log =
        "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 64\n# Using devices\n"
            .to_owned();
    if hosts_known {
        writeln!(log, "#  Rank  0 Group  0 Pid   1505 on {host} device  0 [0000:06:00] NVIDIA H100").unwrap();
    }
    log += &header(format);
    let mut rows = Vec::new();
    for (at, size) in (10..20).map(|power| 1u64 << power).enumerate() {
        let (pieces, row) = row(format, size, at as u64);
        let debug = format!(
            "{host}:1505:1505 {call}\n{host}:1505:1506 [0] NCCL INFO Channel 00/02 :    0   1   2   3\n"
        );
        writeln!(log, "{}{debug}{debug}{}{debug}{}", pieces[0], pieces[1], pieces[2]).unwrap();
        rows.push(row);
    }
    log += "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 187.866 \n";
    (log, rows)
}
