//! Speed of each format: `cargo bench -p measure`, or some of them with `cargo bench -p measure --bench parse -- smi`.
//!
//! Each sample is repeated to 64 MiB. The best of several passes counts, because other load only makes a pass slower.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock and files")]

use std::{
    fs,
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};

use measure::FORMATS;

const SIZE: usize = 64 << 20;
const PASSES: usize = 3;

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for format in FORMATS.iter().filter(|format| format.name.contains(&wanted)) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format.name);
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        for file in files {
            let text = fs::read(&file).expect("a sample");
            let log = text.repeat(SIZE / text.len());
            let shortest = (0..PASSES).map(|_| {
                let start = Instant::now();
                black_box(measure::read_as(format, &log[..]).expect("a slice cannot fail"));
                start.elapsed()
            });
            let speed = log.len() as f64 / 1e6 / shortest.min().unwrap_or(Duration::MAX).as_secs_f64();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            println!("{:24} {name:40} {speed:>7.0} MB/s", format.name);
        }
    }
}
