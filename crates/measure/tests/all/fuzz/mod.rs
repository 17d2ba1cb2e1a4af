//! Random damage to the samples of every format, with fixed seeds. `cargo +nightly fuzz run read` in `crates/measure/fuzz` checks the
//! same property indefinitely, guided by code coverage.

#![expect(clippy::disallowed_methods, reason = "tests read files and a variable")]

mod property;

use std::{fs, path::PathBuf};

use measure::FORMATS;
use model::SplitMix64;

/// Number of damaged logs of each format; `BURNIN_FUZZ_CASES` overrides it.
const CASES: u64 = 200;
/// Maximum length of a damaged log, bytes: short logs reach more states in the same time.
const LONGEST: usize = 8 * 1024;
/// Texts that parsers of numbers, documents, tables and prefixes treat in a special way.
const TEXTS: [&str; 40] = [
    "\n",
    "\r",
    "\r\n",
    " ",
    "\t",
    "\0",
    "\u{e9}",
    "\u{3000}",
    "\u{feff}",
    "\x1b[0m",
    "\"",
    "\\",
    "\\u",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "=",
    "<",
    "</",
    "-",
    "(",
    "%",
    "NaN",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "9.5e-05",
    "-0",
    "0x1p3",
    "99999999999999999999",
    "N/A",
    "[1,0]<stdout>:",
    "3: ",
    "{\"log\":\"",
    "\n\n{\n",
    "burnin evidence: n1 before end complete\n",
];

/// Samples of a format.
fn corpus(format: &str) -> Vec<Vec<u8>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = match format {
        "nccl-tests" => root.join("../../tests/data/nccl/ours"),
        other => root.join("tests/samples").join(other),
    };
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// A part of a sample that starts at a line, damaged in one to eight places.
fn damaged(samples: &[Vec<u8>], others: &[Vec<u8>], random: &mut SplitMix64) -> Vec<u8> {
    let sample = &samples[random.below(samples.len())];
    let mut start = 0;
    if sample.len() > LONGEST && random.below(2) == 0 {
        start = random.below(sample.len() - LONGEST);
        start += sample[start..].iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    }
    let mut log = sample[start..sample.len().min(start + LONGEST)].to_vec();
    for _ in 0..=random.below(8) {
        let from = random.below(log.len() + 1);
        let to = (from + random.below(40)).min(log.len());
        match random.below(7) {
            0 => log.truncate(from),
            1 => drop(log.drain(from..to)),
            2 => _ = log.splice(from..to, TEXTS[random.below(TEXTS.len())].bytes()),
            3 => _ = log.splice(from..from, TEXTS[random.below(TEXTS.len())].bytes()),
            4 => {
                let part = log[from..to].repeat(1 + random.below(5));
                log.splice(from..to, part);
            }
            5 => {
                // Inserts a line of this or another format.
                let other = if random.below(2) == 0 { samples } else { others };
                let other = &other[random.below(other.len())];
                let lines: Vec<_> = other.split_inclusive(|byte| *byte == b'\n').collect();
                log.splice(from..from, lines[random.below(lines.len())].iter().copied());
            }
            _ => {
                if let Some(byte) = log.get_mut(from) {
                    *byte = random.number() as u8;
                }
            }
        }
    }
    log
}

#[test]
fn any_damage_to_a_log_leaves_a_valid_reading() {
    let cases = std::env::var("BURNIN_FUZZ_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let corpora: Vec<_> = FORMATS.iter().map(|format| corpus(format.name)).collect();
    for (number, (format, samples)) in (0_u8..).zip(FORMATS.iter().zip(&corpora)) {
        assert!(!samples.is_empty(), "{}", format.name);
        for case in 0..cases {
            let mut random = SplitMix64(u64::from(number) << 32 | case);
            let others = &corpora[random.below(corpora.len())];
            // One in eight logs is read with detection of its format.
            let selected = if random.below(8) == 0 { u8::MAX } else { number };
            let mut input = vec![selected, random.number() as u8];
            input.extend(damaged(samples, others, &mut random));
            let result = std::panic::catch_unwind(|| property::holds(&input));
            assert!(
                result.is_ok(),
                "{}, case {case}: parsing panicked, see above; the input is {:?}",
                format.name,
                String::from_utf8_lossy(&input)
            );
        }
    }
}
