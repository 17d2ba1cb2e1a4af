//! The description of a format. The module of each benchmark has one, and the registry lists them.

use crate::lines::Lines;

pub use crate::metric_definition::MetricDefinition;

/// Format of the logs of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name in `read:` of a check and in [`Reading::format`](model::measurement::Reading::format).
    pub name: &'static str,
    /// The programs and their supported output.
    pub programs: &'static str,
    /// The end mark: without it a log is not complete.
    pub end: &'static str,
    /// Numbers of the output that are not read.
    pub unread: &'static str,
    /// The metrics that logs of this format contain.
    pub metrics: &'static [MetricDefinition],
    /// Codes of findings, and their meaning.
    pub findings: &'static [(&'static str, &'static str)],
    /// A log has the format if its beginning contains all phrases of one entry.
    pub(crate) marks: &'static [&'static [&'static str]],
    pub(crate) reader: Reader,
}

impl Format {
    /// Whether a log of this format is recognized by its content.
    #[must_use]
    pub fn is_detected(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Whether the prefixes of lines, such as a time, are part of the format; then no prefix of a launcher is removed.
    #[must_use]
    pub fn has_prefixes_of_its_own(&self) -> bool {
        matches!(self.reader, Reader::Raw(_))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    /// The crate `nccl` reads the log.
    Nccl,
    /// The log is read line by line, with a reader for each process.
    Lines(fn() -> Box<dyn Lines>),
    /// The log is read line by line, with the prefixes of lines, which are part of the format.
    Raw(fn() -> Box<dyn Lines>),
}
