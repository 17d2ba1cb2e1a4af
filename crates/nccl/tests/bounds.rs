//! Bounds for any input: memory, time, no panic.
//!
//! Builds without optimization read less data; `cargo test --release -p nccl --test bounds` reads the full sizes.

#![expect(clippy::disallowed_methods, reason = "a test may read files and the clock")]

mod printer;

use flate2::{Compression, write::GzEncoder};
use peak_alloc::PeakAlloc;
use printer::{FORMATS, prefixed, run, sizes};
use std::fs;
use std::hint::black_box;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::measurement::{LogEnd, Reading};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const MIB: u64 = 1 << 20;
/// Maximum memory for reading a log, buffers included.
const MAX_BYTES: usize = 16 << 20;
const QUICK: bool = cfg!(debug_assertions);

const HEADER: &str = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
const ROW: &str = "8 2 float sum -1 46.48 22.56 33.84 0 44.46 23.58 35.38 0\n";
const AVERAGE: &str = "# Avg bus bandwidth    : 34.61 \n";

/// The allocator counts all threads, so tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a log; returns the peak growth of memory, bytes.
fn measured(input: impl Read) -> (Reading, usize) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let reading = nccl::read(input).unwrap();
    (reading, MEMORY.peak_usage().saturating_sub(before))
}

fn bounded(name: &str, input: impl Read) -> Reading {
    let (reading, peak) = measured(input);
    assert!(peak <= MAX_BYTES, "{name}: {peak} bytes");
    println!("{name:40} {:6.2} MiB", peak as f64 / MIB as f64);
    reading
}

/// Generated input: `unit` returns the next piece; `left` is the number of remaining bytes.
struct GeneratedReader<F> {
    unit: F,
    piece: Vec<u8>,
    at: usize,
    number: u64,
    left: u64,
}

fn generated_reader<F: FnMut(u64, &mut Vec<u8>)>(left: u64, unit: F) -> GeneratedReader<F> {
    GeneratedReader { unit, piece: Vec::new(), at: 0, number: 0, left }
}

/// Repeats `unit`.
fn endless(unit: &str, left: u64) -> impl Read {
    // Returns several units in one call: with one unit per call the calls would dominate the time.
    let piece = unit.repeat(4096 / unit.len() + 1).into_bytes();
    generated_reader(left, move |_, out| out.extend_from_slice(&piece))
}

impl<F: FnMut(u64, &mut Vec<u8>)> Read for GeneratedReader<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            self.piece.clear();
            self.at = 0;
            (self.unit)(self.number, &mut self.piece);
            self.number += 1;
        }
        let rest = &self.piece[self.at..];
        let count = buffer.len().min(rest.len()).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        self.left -= count as u64;
        Ok(count)
    }
}

fn gzip(mut input: impl Read) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    io::copy(&mut input, &mut gzip).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn plain_logs_of_any_length_fit_into_the_memory_limit() {
    let _alone = alone();
    let debug = "node-1:4001:4107 [1] NCCL INFO Channel 07/0 : 1[1] -> 2[2] via P2P/CUMEM/read\n";
    let log = HEADER.as_bytes().chain(endless(debug, if QUICK { 64 } else { 2048 } * MIB)).chain(&b"\n"[..]);
    let reading = bounded("debug", log.chain(ROW.as_bytes()).chain(AVERAGE.as_bytes()));
    assert_eq!((reading.tables[0].rows.len(), reading.ended), (1, LogEnd::Complete));
    assert_eq!(reading.first_error, None);

    let million = if QUICK { 50_000 } else { 1_000_000 };
    let rows = (HEADER.as_bytes()).chain(endless(ROW, million * ROW.len() as u64));
    let reading = bounded("a million rows", rows.chain(AVERAGE.as_bytes()));
    let kept = reading.tables[0].rows.len();
    println!("  {kept} rows");
    assert!(kept >= 20_000, "{kept} rows are kept");
    assert_eq!(reading.ended, LogEnd::Complete);
    assert_eq!(
        reading.first_error,
        Some(format!("the log exceeds the memory limit: kept {kept} rows of 1 tables"))
    );

    let row = r#"{"size":8,"count":2,"type":"float","redop":"sum","root":"-1",
        "out_of_place":{"time":46.48,"alg_bw":22.56,"bus_bw":33.84,"nwrong":0},
        "in_place":{"time":46.48,"alg_bw":22.56,"bus_bw":33.84,"nwrong":0}},"#;
    let begin: &[u8] = b"{\"version\":4,\"results\":[";
    let end: &[u8] = b"],\"average_bus_bandwidth\":{\"bandwidth\":34.61}}";
    let rows = endless(row, million * row.len() as u64);
    let reading = bounded("a million rows of JSON", begin.chain(rows).chain(end));
    assert!(reading.tables[0].rows.len() >= 20_000);
    assert!(reading.first_error.unwrap().contains("exceeds the memory limit"));
    assert_eq!(reading.ended, LogEnd::Complete);
}

#[test]
fn an_endless_line_is_not_a_table() {
    let _alone = alone();
    let size = if QUICK { 8 } else { 128 } * MIB;
    let json = ["{\"version\":[", "{\"version\":\"x", "{\"version\":{\"a\":[", "{\"version\":1,"];
    let tag = "[1,0]<stdout>:";
    for unit in
        ["x", "1048576 ", "\0", " ", "[", "\u{1b}[", "\"", "\r", "8 2 float sum -1 ", tag].iter().chain(&json)
    {
        let reading = bounded(unit.escape_debug().to_string().as_str(), endless(unit, size));
        assert!(reading.tables.iter().all(|table| table.rows.is_empty()), "{unit:?}");
        assert_ne!(reading.ended, LogEnd::Complete);
    }
    bounded("a line", endless("x", if QUICK { 64 } else { 1024 } * MIB));
    for (begin, unit) in [("{\"version\":\"", "x"), ("{\"args\":[\"", "\\u0000"), ("{\"errors\":", "[")] {
        bounded(begin, begin.as_bytes().chain(endless(unit, size)));
    }
}

#[test]
fn gzip_bombs_fit_into_the_memory_limit() {
    let _alone = alone();
    for unit in ["\0", "x\n", ROW, "{\"version\":4},", "\x1f\u{8b}"] {
        let bomb = gzip(HEADER.as_bytes().chain(endless(unit, if QUICK { 1 } else { 256 } * MIB)));
        bounded("gzip", &bomb[..]);
        bounded("gzip, cut", &bomb[..bomb.len() - 100]);
        bounded("gzip in gzip", &gzip(&bomb[..])[..]);
    }
    let members = gzip(ROW.as_bytes()).repeat(10_000);
    bounded("gzip of many members", &members[..]);
}

/// Creates the line with this number.
type LineWriter = fn(u64) -> String;

/// Lines that fill each of the reader's collections.
const COLLECTION_FILLING_LINES: [(&str, LineWriter); 12] = [
    ("rows with long words", |n| {
        let names = "abcdefghijklmnop 9999999";
        let head = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong timestamp\n";
        let head = if n.is_multiple_of(1000) { head } else { "" };
        format!("{head}8 2 abcdefghijklmnop {names} 1.0 1.0 1.0 0 1.0 1.0 1.0 0 2026-01-05 12:00:07\n")
    }),
    ("rows of all columns", |n| {
        let half = "time algbw busbw copybw #wrong i_min i_max i_p99 i_cv%";
        let head = if n.is_multiple_of(5000) {
            format!("# size count type redop root {half} {half}\n")
        } else {
            String::new()
        };
        format!("{head}8 2 float sum -1{}\n", " 1.0 1.0 1.0 1.0 0 1.0 1.0 1.0 1.0".repeat(2))
    }),
    ("tables", |n| format!("[1,{n}]<stdout>:{HEADER}[1,{n}]<stdout>:{ROW}")),
    ("complete tables", |_| format!("{HEADER}{ROW}{AVERAGE}")),
    ("versions", |n| format!("{n}: # nccl-tests version {} nccl-library=22809\n", "9".repeat(64))),
    ("failures", |n| {
        format!(
            "{n}: {HEADER}{n}: Test failure {}\n{n}: NCCL WARN {}\n",
            "\u{1}".repeat(2000),
            "x".repeat(2000)
        )
    }),
    ("wide headers", |n| format!("{n}: # size count type root time algbw busbw{}\n", " x".repeat(500))),
    ("Rank lines", |n| {
        format!(
            "#  Rank  {n} Group  0 Pid   1616 on host{n:0>250} device  0 [{}] {}\n",
            "0".repeat(60),
            "H".repeat(120)
        )
    }),
    ("short Rank lines", |n| {
        format!("#  Rank  {n} Group  0 Pid   1616 on node-{} device  0 [0000:00:06] NVIDIA H200\n", n / 8)
    }),
    ("halves begun", |n| format!("{n}: {HEADER}{n}: 8 2 float sum -1 1.0 1.0 1.0 0\n")),
    ("terminal colours", |n| format!("\u{1b}[1m{}{n}\u{1b}[0m\n", "x".repeat(200_000))),
    ("tags", |n| format!("{}\n", format!("[1,{n}]<stdout>:x[1,{}]<stdout>:yyyyyyyy", n + 1).repeat(6000))),
];

/// Members of a run in JSON that fill each of the reader's collections.
const COLLECTION_FILLING_MEMBERS: [(&str, LineWriter); 8] = [
    ("devices", |n| {
        let text = "\\u0001é".repeat(3000);
        format!(
            r#""config":{{"devices":[{{"rank":{n},"hostname":"{text}","device_hex":"{text}","device_info":"{text}"}}]}},"#
        )
    }),
    ("errors", |_| format!(r#""errors":["{}"]}}{{"version":4,"#, "é".repeat(4096))),
    ("rows of long words", |n| {
        format!(
            r#""results":[{{"size":{n},"count":2,"type":"{0}","redop":"{0}","out_of_place":{{"time":1,"alg_bw":1,"bus_bw":1}}}}],"#,
            "é".repeat(4096)
        )
    }),
    ("times", |n| {
        let times = format!("[{}],", "1.5,".repeat(50)).repeat(20);
        format!(
            r#""results":[{{"size":{n},"count":2,"type":"float","out_of_place":{{"time":1,"alg_bw":1,"bus_bw":1}},
            "out_of_place_per_iter":{{"per_process_max_times_us":[{times}]}},
            "in_place_per_iter":{{"per_process_max_times_us":[{times}]}}}}],"#
        )
    }),
    ("no times", |n| {
        format!(
            r#""results":[{{"size":{n},"out_of_place_per_iter":{{"per_process_max_times_us":[{}]}}}}],"#,
            "[],".repeat(1000)
        )
    }),
    ("runs", |_| "\"x\":1}{\"version\":4,".to_owned()),
    ("runs with rows", |_| {
        r#""results":[{"size":8,"count":2,"type":"float","in_place":{"time":1,"alg_bw":1,"bus_bw":1}}]}{"version":4,"#.to_owned()
    }),
    ("names", |_| format!(r#""{}":[[[{{"a":"{}"}}]]],"#, "n".repeat(9000), "v".repeat(9000))),
];

#[test]
fn logs_that_fill_every_collection_stay_within_the_memory_limit() {
    let _alone = alone();
    let size = if QUICK { 2 } else { 96 } * MIB;
    for (name, line) in COLLECTION_FILLING_LINES {
        let reading = bounded(name, generated_reader(size, |n, out| out.extend(line(n).bytes())));
        if !QUICK {
            bounded(
                "the same in gzip",
                &gzip(generated_reader(size / 4, |n, out| out.extend(line(n).bytes())))[..],
            );
        }
        let kept = reading.tables.iter().map(|table| table.rows.len()).sum::<usize>();
        let devices = reading.tables.iter().map(|table| table.devices.len()).sum::<usize>();
        println!("  {} tables, {kept} rows, {devices} Rank lines", reading.tables.len());
    }
    for (name, member) in COLLECTION_FILLING_MEMBERS {
        let begin: &[u8] = b"{\"version\":4,";
        bounded(name, begin.chain(generated_reader(size, |n, out| out.extend(member(n).bytes()))));
    }
    // Lines of all kinds alternate, after 1, 300 or 20,000 lines of one kind.
    for stretch in [1, 300, 20_000] {
        let line =
            |n: u64| COLLECTION_FILLING_LINES[(n / stretch) as usize % COLLECTION_FILLING_LINES.len()].1(n);
        bounded("all kinds alternately", generated_reader(size, |n, out| out.extend(line(n).bytes())));
        let member = |n: u64| {
            COLLECTION_FILLING_MEMBERS[(n / stretch) as usize % COLLECTION_FILLING_MEMBERS.len()].1(n)
        };
        let begin: &[u8] = b"{\"version\":4,";
        bounded(
            "all kinds alternately, JSON",
            begin.chain(generated_reader(size, |n, out| out.extend(member(n).bytes()))),
        );
    }
}

#[test]
fn important_data_is_kept_at_the_memory_limit() {
    let _alone = alone();
    let ranks = generated_reader(if QUICK { 8 } else { 64 } * MIB, |n, out| {
        out.extend(COLLECTION_FILLING_LINES[7].1(n).bytes())
    });
    let log =
        ranks.chain("\n".as_bytes()).chain(HEADER.as_bytes()).chain(ROW.as_bytes()).chain(AVERAGE.as_bytes());
    let reading = bounded("Rank lines before a row", log);
    assert_eq!((reading.tables.len(), reading.tables[0].rows.len(), reading.ended), (1, 1, LogEnd::Complete));
    assert_eq!(reading.tables[0].ranks, None, "the number of ranks is unknown");
    assert!(reading.first_error.unwrap().contains("exceeds the memory limit"));

    let rows = HEADER.as_bytes().chain(endless(ROW, 40_000 * ROW.len() as u64));
    let reading = bounded(
        "a failure after more rows than are kept",
        rows.chain(&b"\nTest failure common.cu:401\n"[..]),
    );
    assert_eq!(reading.ended, LogEnd::Failed);
    let error = reading.first_error.unwrap();
    assert!(
        error.contains("Test failure common.cu:401") && error.contains("exceeds the memory limit"),
        "{error}"
    );

    // A truncated run beyond the maximum number of runs makes the log `Truncated`.
    let tables = format!("{HEADER}{ROW}{AVERAGE}").repeat(4_100) + HEADER + ROW;
    let reading = bounded("a truncated run beyond the maximum number of runs", tables.as_bytes());
    assert_eq!((reading.tables.len(), reading.ended), (4_096, LogEnd::Truncated));
}

/// A deterministic pseudo-random number generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }

    fn range(&mut self, length: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(length);
        start..(start + self.below(longest)).min(length)
    }
}

/// Text that an intact log does not contain at this position.
const FOREIGN: [&[u8]; 27] = [
    b"\n",
    b"\0",
    b"\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x1b[",
    b"\x1b[31m",
    b"\x1b]0;",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\r\n",
    b"-1",
    b"1e400",
    b"1e-400",
    b"-0",
    b"N/A",
    b"nan",
    b"inf",
    b"99999999999999999999999999",
    b"18446744073709551615",
    b"[1,0]<stdout>:",
    b"host:1:2 [0] NCCL INFO ",
    b"Rank 4294967295 on",
    b"{\"log\":\"",
    b"\"nan\"",
    b"BenchTime(), common.cu:533, ",
    b"(), a.cu:",
    b"  8  2 float sum -1 46.48 22.56 33.84 0 44.46 23.58 35.38 0\n",
];

/// Damages a log in one way.
fn mutate(log: &mut Vec<u8>, others: &[Vec<u8>], numbers: &mut Numbers) {
    let at = numbers.below(log.len());
    match numbers.below(9) {
        0 => log[at] = numbers.below(256) as u8,
        1 => log[at] ^= 1 << numbers.below(8),
        2 => drop(log.drain(numbers.range(log.len(), 80))),
        3 | 4 => drop(log.splice(at..at, FOREIGN[numbers.below(FOREIGN.len())].iter().copied())),
        5 => {
            let copy = log[numbers.range(log.len(), 400)].to_vec();
            let to = numbers.below(log.len());
            drop(log.splice(to..to, copy));
        }
        6 => {
            let other = &others[numbers.below(others.len())];
            let part = other[numbers.range(other.len(), 2000)].to_vec();
            drop(log.splice(at..at, part));
        }
        7 => {
            let mut lines: Vec<&[u8]> = log.split_inclusive(|&byte| byte == b'\n').collect();
            for _ in 0..4 {
                let (one, two) = (numbers.below(lines.len()), numbers.below(lines.len()));
                lines.swap(one, two);
            }
            *log = lines.concat();
        }
        _ => log.truncate(at.max(1)),
    }
}

/// Returns a log in chunks of these lengths, repeated cyclically.
struct Pieces<'a> {
    log: &'a [u8],
    lengths: [usize; 3],
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.lengths.rotate_left(1);
        let count = self.lengths[0].min(buffer.len()).min(self.log.len());
        let (piece, rest) = self.log.split_at(count);
        buffer[..count].copy_from_slice(piece);
        self.log = rest;
        Ok(count)
    }
}

/// Real logs, and a printed log of each format, some of them with source positions.
fn samples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nccl/ours");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    let real = paths.iter().map(|path| fs::read(path).unwrap());
    let printed =
        FORMATS.iter().map(|format| (run(format, sizes().step_by(4)).0.join("\n") + "\n").into_bytes());
    let positioned = |format| {
        let lines = run(format, sizes().step_by(4)).0;
        (prefixed(&lines, "run(), common.cu:967, ").join("\n") + "\n").into_bytes()
    };
    real.chain(printed).chain(FORMATS.iter().step_by(4).map(positioned)).collect()
}

/// Invariants of a reading.
fn assert_invariants(reading: &Reading) {
    for table in &reading.tables {
        assert!(table.average_busbw.is_none_or(f64::is_finite));
        for row in &table.rows {
            assert!(row.out_of_place.is_some() || row.in_place.is_some());
            for half in [row.out_of_place, row.in_place].into_iter().flatten() {
                let values = [half.time_us, half.algbw, half.busbw];
                assert!(values.iter().all(|value| value.is_finite() && *value >= 0.0));
            }
        }
    }
    assert_eq!(reading.ended == LogEnd::Empty, reading.tables.is_empty() && reading.ended != LogEnd::Failed);
}

#[test]
fn readings_of_mutated_logs_keep_their_invariants() {
    let _alone = alone();
    let samples = samples();
    let mut numbers = Numbers(7);
    for round in 0..10_000 {
        let mut log = samples[numbers.below(samples.len())].clone();
        for _ in 0..=numbers.below(6) {
            mutate(&mut log, &samples, &mut numbers);
            if log.is_empty() {
                break;
            }
        }
        let (reading, peak) = measured(&log[..]);
        assert_invariants(&reading);
        // The log is small, so buffers use nearly all of this memory.
        assert!(peak <= 2 << 20, "round {round}: {peak} bytes");
        // The reading depends neither on chunks nor on decompression.
        let length = 1 + numbers.below(300);
        let pieces = |lengths| Pieces { log: &log, lengths };
        assert_eq!(nccl::read(pieces([length, 1, 4096])).unwrap(), reading, "round {round}");
        assert_eq!(nccl::read(nccl::unpacked(&log[..]).unwrap()).unwrap(), reading, "round {round}");
        if round % 10 == 0 {
            assert_eq!(nccl::read(pieces([1; 3])).unwrap(), reading, "round {round}");
            if !log.starts_with(b"\xff\xfe") {
                assert_eq!(nccl::read_bytes(&gzip(&log[..])), reading, "round {round}");
            }
        }
    }
}

#[test]
fn concatenated_logs_are_read_like_separate_ones() {
    let _alone = alone();
    let whole: Vec<(Vec<u8>, Reading)> = samples()
        .into_iter()
        .map(|log| (nccl::read_bytes(&log), log))
        .filter(|(reading, log)| reading.ended == LogEnd::Complete && !log.starts_with(b"{"))
        .map(|(reading, log)| (log, reading))
        .collect();
    assert!(whole.len() >= 20, "{}", whole.len());
    for (one, first) in &whole {
        for (two, second) in &whole {
            let both = nccl::read_bytes(&[&one[..], b"\n", two].concat());
            let rows = |reading: &Reading| {
                reading.tables.iter().map(|table| (table.rows.clone(), table.ended)).collect::<Vec<_>>()
            };
            assert_eq!(rows(&both), [rows(first), rows(second)].concat());
        }
    }
}

/// Texts that could cause repeated work, each repeated within one line and over many lines.
const QUADRATIC_CANDIDATES: [&str; 24] = [
    "[1,{}]<stdout>:x",
    "in-place ",
    "# # # # in-place",
    "nThread ",
    "Rank ",
    "nccl-tests version ",
    "NCCL version : ",
    "algbw busbw ",
    "size time algbw ",
    "_perf",
    "Avg bus bandwidth : ",
    "Out of bounds values : 1 OK ",
    "Collective test starting: ",
    "Test failure ",
    "8 2 float sum -1 ",
    "8 2 float sum -1 1.0 1.0 1.0 0h{}:1:2 ",
    "1.0 1.0 1.0 0 ",
    "\u{1b}[0m",
    "{\"log\":\"",
    "                                ",
    "999999999999999999999999",
    "host-{}: [0] ",
    "f(), a.cu:1, ",
    "x(), ",
];

/// Maximum factor of the time for four times the input: caches raise the factor above 4, quadratic work to 16.
const TIMES: f64 = 9.0;

/// CPU seconds of this thread.
fn thread_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[test]
fn parsing_time_is_linear() {
    let _alone = alone();
    let header = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
    let ranks: String =
        (0..300).map(|n| format!("#  Rank  {n} Group  0 Pid 1 on {n}h{n} device  0 [0] x\n")).collect();
    let of = |unit: &str, line: usize, size: usize| {
        let mut log = ranks.clone() + header;
        let (mut from, mut n) = (log.len(), 0);
        while log.len() < size {
            n += 1;
            log += &unit.replace("{}", &n.to_string());
            if log.len() - from >= line {
                log.push('\n');
                from = log.len();
            }
        }
        log
    };
    let time = |log: &str| {
        let start = thread_cpu_seconds();
        black_box(nccl::read_bytes(log.as_bytes()));
        thread_cpu_seconds() - start
    };
    let many = if QUICK { 150_000 } else { 1_000_000 };
    for unit in QUADRATIC_CANDIDATES {
        for (what, line, size) in
            [("one line", usize::MAX, 120_000), ("short lines", 100, many), ("long lines", 10_000, many)]
        {
            let logs = [of(unit, line, size / 2), of(unit, line, 2 * size)];
            // The minimum of two measurements, or of up to 20 while it exceeds the limit: other load only adds time.
            let mut best = [f64::INFINITY; 2];
            for attempt in 0..20 {
                best = [0, 1].map(|at| best[at].min(time(&logs[at])));
                if attempt >= 1 && best[1] <= TIMES * best[0] {
                    break;
                }
            }
            let [small, large] = best;
            println!("{unit:40?} {what:12} {:7.1} MB/s", 2.0 * size as f64 / 1e6 / large);
            assert!(
                large <= TIMES * small,
                "{unit:?} in {what}: {small} s, and {large} s for four times the input"
            );
        }
    }
}
