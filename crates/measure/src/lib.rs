//! Reads the output of benchmarks and health checks into [metrics and findings](model::metric).
//!
//! [`FORMATS`] lists the formats; `docs/METRICS.md` describes their metrics. These guarantees hold for any input, including damaged input:
//!
//! - A number is returned exactly as printed, or not at all. Text such as `N/A` becomes a metric without value.
//! - A log is [`Complete`](model::measurement::LogEnd::Complete) only if the program's own end mark was read, and no data was omitted.
//! - A unit is kept as printed. The names of known units are normalized only where they are exact synonyms.
//! - Memory is limited to 32 MiB for any input, and time is linear in its size. A JSON document is evaluated up to 6 MiB, a
//!   line up to 1 MiB.
//!
//! ```
//! let log = "GPU 0: NVIDIA H100 (UUID: GPU-1)\nTested 1 GPUs:\n\tGPU 0: FAULTY\n";
//! let reading = measure::read(log.as_bytes()).unwrap();
//! assert_eq!(reading.format.as_deref(), Some("gpu-burn"));
//! assert_eq!(reading.findings[0].code, "GPU_FAULTY");
//! ```

#![deny(missing_docs)]

mod dcgm;
mod declared;
mod elbencho;
pub mod evidence;
mod fio;
mod format;
mod gemm;
mod gpu_burn;
mod gpu_fryer;
mod hpcg;
mod hpl;
mod imports;
mod input;
mod ior;
mod json;
mod kernel_log;
mod lines;
mod metric_definition;
mod nccl_tests;
mod number;
mod nvbandwidth;
mod nvidia_smi;
mod osu;
mod perftest;
mod prefix;
mod reading_builder;
mod recent;
mod registry;
mod repetitions;
mod text;
mod training;
mod xid;

use std::io::{self, Cursor, Read};

use model::measurement::Reading;

pub use declared::{Declaration, Declared, JsonRule, Matched, Problem, TableRule};
pub use format::{Format, MetricDefinition};
pub use registry::{FORMATS, format, with_units};

use crate::{format::Reader, prefix::LogPrefixes};

/// Reads a log to its end. Its format is detected from its first MiB; a log of unknown format is read as nccl-tests.
///
/// # Errors
///
/// Returns an error if the reader fails. Any input yields a [`Reading`]; damaged gzip data is reported as its
/// `first_error`.
pub fn read(mut input: impl io::Read) -> io::Result<Reading> {
    let (head, mut input) = input::beginning(&mut input)?;
    let format = registry::detect(&head).unwrap_or(&nccl_tests::FORMAT);
    all(format, head, &mut input)
}

/// Reads a log as the given format.
///
/// # Errors
///
/// Returns an error if the reader fails.
pub fn read_as(format: &Format, mut input: impl io::Read) -> io::Result<Reading> {
    let (head, mut input) = input::beginning(&mut input)?;
    all(format, head, &mut input)
}

/// The type of the input is not a parameter, so that the parsers are compiled once and not in each caller.
fn all(format: &Format, head: Vec<u8>, input: &mut dyn Read) -> io::Result<Reading> {
    let (labels, new) = match format.reader {
        Reader::Nccl => return nccl::read(Cursor::new(head).chain(input)),
        Reader::Lines(new) => (LogPrefixes::of(&head), new),
        Reader::Raw(new) => (LogPrefixes::RAW, new),
    };
    input::read(format.name, labels, &new, head, input)
}
