//! Speed of reading logs, compared with `grep -c` on the same file: `cargo bench -p nccl`, or for selected logs
//! `cargo bench -p nccl --bench parse -- rows`.
//!
//! The logs are generated, 64 MiB each. Each log is read several times and the shortest time is reported, because other load on the machine
//! only adds time.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SIZE: usize = 64 << 20;
const PASSES: usize = 5;

const BANNER: &str = "\
# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1616 on     node-1 device  0 [0000:00:06] NVIDIA H200
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
";
const SUMMARY: &str = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 187.866 \n#\n";

/// Writes a log of 64 MiB; `line` returns the line with the given number.
fn generate(folder: &Path, name: &str, mut line: impl FnMut(usize) -> String) -> PathBuf {
    let path = folder.join(name);
    let mut log = BufWriter::new(File::create(&path).expect("a temporary file"));
    let mut written = 0;
    let mut put = |text: &str| {
        written += text.len();
        log.write_all(text.as_bytes()).expect("room for 64 MiB");
        written
    };
    put(BANNER);
    for number in 0.. {
        if put(&line(number)) >= SIZE {
            break;
        }
    }
    put(SUMMARY);
    path
}

fn row(number: usize) -> String {
    let size = 1u64 << (3 + number % 30);
    let time = 20.0 + size as f64 / 350_000.0 + (number % 97) as f64 / 100.0;
    let algbw = size as f64 / time / 1000.0;
    let (count, busbw) = (size / 4, algbw * 1.75);
    format!(
        "{size:12}  {count:12}  {:>8}  {:>6}  {:6}  {time:7.2}  {algbw:6.2}  {busbw:6.2}  {:6}  {time:7.2}  {algbw:6.2}  {busbw:6.2}  {:6}\n",
        "float", "sum", -1, 0, 0
    )
}

fn debug(number: usize) -> String {
    let (rank, peer, channel) = (number % 8, (number + 1) % 8, number % 32);
    let message = match number % 4 {
        0 => format!("Channel {channel:02}/0 : {rank}[{rank}] -> {peer}[{peer}] via P2P/CUMEM/read"),
        1 => format!("Trees [0] {peer}/-1/-1->{rank}->-1 [1] -1/-1/-1->{rank}->{peer}"),
        2 => format!(
            "ncclCommInitRankConfig comm 0x55d224ec7bc0 rank {rank} nranks 8 cudaDev {rank} nvmlDev {rank} busId 60 - Init COMPLETE"
        ),
        _ => format!("Channel {channel:02}/32 :    0   1   2   3   4   5   6   7"),
    };
    format!("node-{}:{}:{} [{rank}] NCCL INFO {message}\n", number % 16, 4000 + rank, 4100 + number % 64)
}

/// Creates the line with this number.
type LineWriter = fn(usize) -> String;

/// Name of each generated log, and the function that creates one of its lines.
const LOGS: [(&str, LineWriter); 10] = [
    ("debug", |number| if number.is_multiple_of(2000) { row(number / 2000) } else { debug(number) }),
    ("debug, tagged", |number| format!("[1,{}]<stdout>:{}", number % 8, debug(number))),
    ("debug, srun labels", |number| format!("{}: {}", number % 8, debug(number))),
    ("debug, timestamps", |number| format!("2026-01-05T12:00:07.123456789Z {}", debug(number))),
    ("debug, pods", |number| {
        format!("[pod/nccl-test-{}/main] 2026-01-05T12:00:07.123456789Z {}", number % 8, debug(number))
    }),
    ("rows", row),
    ("rows, tagged", |number| format!("[1,0]<stdout>:{}", row(number))),
    ("rows, srun labels", |number| format!("0: {}", row(number))),
    ("rows, timestamps", |number| format!("2026-01-05T12:00:07.123456789Z {}", row(number))),
    ("other text", |number| {
        format!("+ export UCX_TLS_{number}='rc,cuda_copy' # of step {number}, ignored by all\n")
    }),
];

fn best(mut pass: impl FnMut()) -> f64 {
    let shortest = (0..PASSES).map(|_| {
        let start = Instant::now();
        pass();
        start.elapsed()
    });
    SIZE as f64 / 1e6 / shortest.min().unwrap_or(Duration::MAX).as_secs_f64()
}

fn main() {
    let folder = std::env::temp_dir().join(format!("nccl-parse-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    println!("{:24} {:>12} {:>12}", "64 MiB of", "nccl", "grep -c");
    for (name, line) in LOGS.iter().filter(|(name, _)| name.contains(&wanted)) {
        let path = generate(&folder, name, line);
        let parse = best(|| {
            let log = File::open(&path).expect("the generated log");
            black_box(nccl::read(log).expect("a readable file"));
        });
        let grep = best(|| {
            // The output is not /dev/null, because grep would then stop at the first match.
            let mut grep = Command::new("grep");
            grep.args(["-c", "float"]).arg(&path).stdout(Stdio::piped());
            black_box(grep.output().expect("grep"));
        });
        println!("{name:24} {parse:>7.0} MB/s {grep:>7.0} MB/s");
    }
    fs::remove_dir_all(&folder).expect("the temporary folder");
}
