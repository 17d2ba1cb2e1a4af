//! Maximum memory for any input.

#![expect(clippy::disallowed_methods, reason = "tests read files")]

use std::{
    fs,
    io::{self, Read},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use measure::{Declaration, FORMATS, Format};
use model::{
    measurement::{LogEnd, Reading},
    metric::{Better, Scope},
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const MIB: u64 = 1 << 20;
/// Maximum memory for reading a log, buffers included.
const MAX_BYTES: usize = 32 << 20;
/// Size of the generated logs, bytes. Only an optimized build reads the full 256 MiB: `cargo test --release -p measure --test bounds`.
const SIZE: u64 = if cfg!(debug_assertions) { 8 * MIB } else { 256 * MIB };

/// The allocator counts the memory of all threads, so only one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a log, and checks the peak growth of memory.
fn bounded(name: &str, read: impl FnOnce() -> io::Result<Reading>) -> Reading {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let reading = read().unwrap();
    let peak = MEMORY.peak_usage().saturating_sub(before);
    println!("{name:60} {:6.2} MiB, {} metrics", peak as f64 / MIB as f64, reading.metrics.len());
    assert!(peak <= MAX_BYTES, "{name}: {peak} bytes");
    reading
}

/// Generated input: `unit` appends the next piece.
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

/// One sample of each format and file extension.
fn samples() -> Vec<(&'static Format, Vec<u8>)> {
    let mut samples = Vec::new();
    for format in FORMATS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format.name);
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.dedup_by_key(|file| file.extension().map(ToOwned::to_owned));
        samples.extend(files.iter().map(|file| (format, fs::read(file).unwrap())));
    }
    samples
}

#[test]
fn logs_of_any_length_are_read_in_bounded_memory() {
    let _alone = alone();
    for (format, text) in samples() {
        let reading = bounded(format.name, || {
            measure::read_as(format, generated_reader(SIZE, |_, out| out.extend_from_slice(&text)))
        });
        // Values beyond the memory limit make the log incomplete.
        let said = reading.first_error.as_deref().unwrap_or_default();
        assert!(
            !said.contains("exceeds the memory limit") || reading.ended != LogEnd::Complete,
            "{}",
            format.name
        );
    }
}

#[test]
fn logs_of_many_processes_are_read_in_bounded_memory() {
    let _alone = alone();
    for (format, text) in samples() {
        let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
        bounded(&format!("{}, processes", format.name), || {
            // Every process is at the same line, so that all of them have an open document or table.
            let input = generated_reader(SIZE, |n, out| {
                let line = lines[(n / 2000) as usize % lines.len()];
                out.extend(format!("[1,{}]<stdout>:", n % 2000).bytes().chain(line.iter().copied()));
                out.push(b'\n');
            });
            measure::read_as(format, input)
        });
    }
}

#[test]
fn long_words_and_unique_names_are_read_in_bounded_memory() {
    let _alone = alone();
    for (format, text) in samples() {
        let text = String::from_utf8_lossy(&text).into_owned();
        bounded(&format!("{}, long", format.name), || {
            // Each number and word is unique and long.
            let input = generated_reader(SIZE, |n, out| {
                let long = format!("{n}{}", "7".repeat(30));
                out.extend(text.replace('0', &long).replace("NVIDIA", &"N".repeat(5000)).bytes());
            });
            measure::read_as(format, input)
        });
    }
}

#[test]
fn endless_lines_and_documents_are_read_in_bounded_memory() {
    let _alone = alone();
    let units = [
        "x",
        "1 ",
        "\0",
        " ",
        "[",
        "{\"a\":",
        "{\"a\":[1,",
        "\u{1b}[",
        "\"",
        "\r",
        "\n",
        "a=1,",
        "<a>",
        "[1,0]<stdout>:",
        "\u{3000}\n",
    ];
    for format in FORMATS {
        for unit in units {
            let piece = unit.repeat(4096 / unit.len());
            let size = SIZE / 8;
            let reading = bounded(&format!("{}, {}", format.name, unit.escape_debug()), || {
                measure::read_as(
                    format,
                    generated_reader(size, |_, out| out.extend_from_slice(piece.as_bytes())),
                )
            });
            assert_ne!(reading.ended, LogEnd::Complete, "{} of {unit:?}", format.name);
        }
    }
}

#[test]
fn declared_parsers_read_in_bounded_memory() {
    let _alone = alone();
    let declaration = Declaration {
        begin: None,
        end: Some("^end$".to_owned()),
        context: vec![r"^(?<a>\S+) (?<b>\S+) (?<gpu>\d+)".to_owned()],
        row: Some(r"(?<kind>\w+)=(?<value>\S+)".to_owned()),
        table: None,
        json: None,
        name: "x.y".to_owned(),
        unit: Some("us".to_owned()),
        better: Better::Lower,
        scope: Scope::Gpu,
        fail: vec!["bad".to_owned()],
        must_see: vec![],
        unmeasurable: vec!["skipped".to_owned()],
        exit: vec![0],
    };
    let declared = declaration.check(true).unwrap();
    let reading = bounded("declared", || {
        declared.read(generated_reader(SIZE / 4, |n, out| {
            out.extend(format!("{} {n} 3\n", "a".repeat(500)).bytes());
            out.extend(format!("k{n}=1.5e-05\nbad {n}\nskipped {n}\n").bytes());
        }))
    });
    assert_eq!(reading.ended, LogEnd::Failed);
    let (_, matches) = declared.explain(&b"k=1\n".repeat(5000)[..]).unwrap();
    assert_eq!(matches.len(), 1000);
}

#[test]
fn a_failing_reader_is_an_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    assert!(measure::read(Broken).is_err());
    for format in FORMATS {
        assert!(
            measure::read_as(format, (&b"Burning for 1 seconds.\n"[..]).chain(Broken)).is_err(),
            "{}",
            format.name
        );
    }
}
