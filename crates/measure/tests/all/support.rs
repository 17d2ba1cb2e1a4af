//! Helpers that load, read and print the samples.

#![expect(clippy::disallowed_methods, reason = "tests read files")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use measure::{FORMATS, Format};
use model::{measurement::Reading, metric::Metric};

pub(crate) struct Sample {
    pub(crate) format: &'static Format,
    pub(crate) name: String,
    pub(crate) text: Vec<u8>,
}

/// The samples of all formats.
pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for format in FORMATS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format.name);
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let name = format!("{}/{}", format.name, file.file_name().unwrap().to_string_lossy());
            samples.push(Sample { format, name, text: fs::read(&file).unwrap() });
        }
    }
    samples
}

pub(crate) fn read(format: &Format, text: &[u8]) -> Reading {
    measure::read_as(format, text).unwrap()
}

/// Reads a log with detection of its format, if the format can be detected.
pub(crate) fn automatic(format: &Format, text: &[u8]) -> Reading {
    if format.is_detected() { measure::read(text).unwrap() } else { read(format, text) }
}

/// A reading in one line per metric, finding and GPU.
pub(crate) fn shown(reading: &Reading) -> String {
    let mut text = format!("{:?}, version {:?}\n", reading.ended, reading.version);
    if let Some(error) = &reading.first_error {
        _ = writeln!(text, "error {error}");
    }
    for metric in &reading.metrics {
        let Metric { name, unit, better, scope, subject, labels, value, resolution, unmeasurable, line } =
            metric;
        let value = value
            .map_or_else(|| format!("none: {}", unmeasurable.as_deref().unwrap()), |value| value.to_string());
        let step = resolution.map_or_else(String::new, |step| format!(" ±{step}"));
        _ = writeln!(
            text,
            "{line}: {name} {labels:?} {value}{step} {unit} | {scope:?} {better:?} | {subject}"
        );
    }
    for finding in &reading.findings {
        let severity = finding.severity;
        _ = writeln!(
            text,
            "{}: {} {severity:?} | {} | {}",
            finding.line, finding.code, finding.subject, finding.text
        );
    }
    for gpu in &reading.gpus {
        _ = writeln!(text, "gpu {} {:?}", gpu.subject, gpu.name);
    }
    text
}
