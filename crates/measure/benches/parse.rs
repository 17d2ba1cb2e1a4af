//! Speed of each format: `cargo bench -p measure`, or of selected formats:
//! `cargo bench -p measure --bench parse -- smi`.
//!
//! Each sample is repeated to a log of 256 KiB, all of whose metrics are kept, and to one of 64 MiB, whose metrics exceed the memory limit:
//! most of them are parsed and counted, but not kept. The best of several passes is reported, because other load only makes a pass slower.
//!
//! The goal is 300 MB/s of one core. On one shared virtual machine with two cores (AMD EPYC) the slowest short logs are: `key-value` with
//! a repetition and a finding in every other line at 312 to 315 MB/s (12.8 million metrics per second, each with its own label), without
//! findings at 410 MB/s; JSON of `perftest` 4.5 with latencies at 327 MB/s, with bandwidths at 377 MB/s; `elbencho` at 318 MB/s;
//! `dcgm-diag` at 340 MB/s. Every long log reaches at least 330 MB/s beside other builds, 438 MB/s alone. A metric that is kept takes about
//! 200 bytes; names, units and labels are shared with earlier metrics. The map of a label with a number is created at its first read, which
//! is not measured. The time does not include freeing the result.
//!
//! Python reads the same logs as test suites do, if `python3` exists: JSON with `json.loads`, XML with `xml.etree`, and text with
//! a regular expression for each line, which finds names and numbers.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock and files, and starts Python")]

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use measure::{FORMATS, Format};

/// Number of rounds over all logs: load of other machines on the same processor lasts for seconds.
const ROUNDS: usize = 5;
/// Time for the passes over one log in a round.
const TIME: Duration = Duration::from_millis(50);
/// Minimum number of passes over one log in a round.
const PASSES: usize = 2;
const SIZES: [(&str, usize); 2] = [("256 KiB", 256 << 10), ("64 MiB", 64 << 20)];

struct Sample {
    format: &'static Format,
    file: PathBuf,
    text: Vec<u8>,
    /// Speed of the best pass for each of [`SIZES`], MB/s.
    speeds: [f64; 2],
    /// Metrics of the short log, millions per second.
    metrics: f64,
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let mut samples = samples(&wanted);
    for _ in 0..ROUNDS {
        for sample in &mut samples {
            for (which, (_, size)) in SIZES.iter().enumerate() {
                let (speed, metrics) = best(sample.format, &sample.text, *size);
                sample.speeds[which] = sample.speeds[which].max(speed);
                if which == 0 {
                    sample.metrics = sample.metrics.max(metrics);
                }
            }
        }
    }
    println!("{:65} {:>10} {:>13} {:>10} {:>12}", "", SIZES[0].0, "", SIZES[1].0, "Python");
    for Sample { file, speeds: [short, long], metrics, .. } in &samples {
        let peer = python(file).map_or_else(String::new, |speed| format!("{speed:>7.0} MB/s"));
        println!("{:65} {short:>5.0} MB/s {metrics:>5.2} M metrics/s {long:>5.0} MB/s {peer}", name(file));
    }
    for (which, (size, _)) in SIZES.iter().enumerate() {
        samples.sort_by(|one, other| f64::total_cmp(&one.speeds[which], &other.speeds[which]));
        println!("\nlowest of {size}:");
        for sample in samples.iter().take(5) {
            println!("{:65} {:>5.0} MB/s", name(&sample.file), sample.speeds[which]);
        }
    }
}

/// Samples of the formats with `wanted` in their name.
fn samples(wanted: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    for format in FORMATS.iter().filter(|format| format.name.contains(wanted)) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format.name);
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        samples.extend(files.into_iter().map(|file| {
            let text = fs::read(&file).expect("a sample");
            Sample { format, file, text, speeds: [0.0; 2], metrics: 0.0 }
        }));
    }
    samples
}

/// Format and file name of a sample.
fn name(file: &Path) -> String {
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    format!("{:24} {}", part(file.parent().and_then(Path::file_name)), part(file.file_name()))
}

/// Megabytes and millions of metrics per second of the best pass over a log of this size.
fn best(format: &Format, sample: &[u8], size: usize) -> (f64, f64) {
    let log = sample.repeat(size / sample.len());
    let (mut shortest, mut metrics) = (Duration::MAX, 0);
    let begin = Instant::now();
    let mut passes = 0;
    while passes < PASSES || begin.elapsed() < TIME {
        let start = Instant::now();
        let reading = black_box(measure::read_as(format, &log[..]).expect("a slice cannot fail"));
        shortest = shortest.min(start.elapsed());
        metrics = reading.metrics.len();
        passes += 1;
    }
    let seconds = shortest.as_secs_f64();
    (log.len() as f64 / 1e6 / seconds, metrics as f64 / 1e6 / seconds)
}

/// Throughput of the Python parser, MB/s.
fn python(file: &Path) -> Option<f64> {
    let output = Command::new("python3").args(["-c", include_str!("peer.py")]).arg(file).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
