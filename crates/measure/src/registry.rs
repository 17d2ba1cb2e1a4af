//! The formats: adding a benchmark is one module and one line in [`FORMATS`].

use memchr::memmem;
use model::metric::{Better, Scope};

use crate::lines::Lines;

/// A metric of a format.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Name; a part in angle brackets stands for any text, such as the name of a test.
    pub name: &'static str,
    /// Unit; `printed` if the program prints it or its scale varies.
    pub unit: &'static str,
    /// Direction of improvement.
    pub better: Better,
    /// Kind of subject.
    pub scope: Scope,
    /// Meaning, in one sentence.
    pub meaning: &'static str,
}

impl Known {
    pub(crate) const fn new(
        name: &'static str,
        unit: &'static str,
        better: Better,
        scope: Scope,
        meaning: &'static str,
    ) -> Self {
        Self { name, unit, better, scope, meaning }
    }

    /// Whether a metric of this name is described by this entry.
    #[must_use]
    pub fn describes(&self, name: &str) -> bool {
        fn matches(pattern: &str, name: &str) -> bool {
            let Some((before, rest)) = pattern.split_once('<') else { return pattern == name };
            let after = rest.split_once('>').map_or("", |(_, after)| after);
            let Some(name) = name.strip_prefix(before) else { return false };
            // A placeholder stands for at least one character.
            name.char_indices()
                .skip(1)
                .map(|(at, _)| at)
                .chain([name.len()])
                .any(|at| at > 0 && matches(after, &name[at..]))
        }
        matches(self.name, name)
    }
}

/// A format of logs.
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
    /// Metrics of the format.
    pub metrics: &'static [Known],
    /// Codes of findings, and their meaning.
    pub findings: &'static [(&'static str, &'static str)],
    /// A log has the format if its beginning contains all phrases of one entry.
    pub(crate) marks: &'static [&'static [&'static str]],
    pub(crate) reader: Reader,
}

impl Format {
    /// A log of this format is recognized by its content.
    #[must_use]
    pub fn is_detected(&self) -> bool {
        !self.marks.is_empty()
    }

    /// The prefixes of lines, such as a time, are part of the format; no prefix of a launcher is removed.
    #[must_use]
    pub fn has_prefixes_of_its_own(&self) -> bool {
        matches!(self.reader, Reader::Raw(_))
    }
}

/// Reader of a format.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    /// Read by the crate `nccl`.
    Nccl,
    /// Read line by line, with a reader for each process of the log.
    Lines(fn() -> Box<dyn Lines>),
    /// Read line by line, with prefixes, which are part of the format.
    Raw(fn() -> Box<dyn Lines>),
}

/// All formats. The first one whose marks occur at the beginning of a log is chosen; formats that other programs include
/// in their own output are last.
pub static FORMATS: &[Format] = &[
    crate::nccl_tests::FORMAT,
    crate::nvbandwidth::FORMAT,
    crate::dcgm::FORMAT,
    crate::perftest::FORMAT,
    crate::gpu_fryer::FORMAT,
    crate::gpu_burn::FORMAT,
    crate::gemm::FORMAT,
    crate::hpl::FORMAT,
    crate::hpcg::FORMAT,
    crate::osu::FORMAT,
    crate::fio::FORMAT,
    crate::ior::IOR,
    crate::ior::MDTEST,
    crate::elbencho::FORMAT,
    crate::training::FORMAT,
    crate::nvidia_smi::FORMAT,
    crate::kernel_log::FORMAT,
    crate::imports::OPENMETRICS,
    crate::imports::BMF,
    crate::imports::GITHUB,
    crate::imports::KEY_VALUE,
];

/// The format of this name.
#[must_use]
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The format of a log with this beginning; `None` for an unknown one, and for a failed job of nccl-tests.
pub(crate) fn detect(head: &[u8]) -> Option<&'static Format> {
    let has = |phrase: &&str| memmem::find(head, phrase.as_bytes()).is_some();
    let found = FORMATS.iter().find(|format| format.marks.iter().any(|mark| mark.iter().all(has)))?;
    // A job of nccl-tests that failed before its table may include the state of the node.
    let included = matches!(found.name, "nvidia-smi" | "kernel-log" | "openmetrics");
    (!included || !has(&"NCCL INFO ") && !has(&"NCCL WARN ")).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_the_node_does_not_hide_a_failed_job() {
        let name = |log: &str| detect(log.as_bytes()).map(|format| format.name);
        let kernel = "[1.5] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n";
        assert_eq!(name(kernel), Some("kernel-log"));
        assert_eq!(name(&format!("{kernel}n1:1:1 [0] NCCL WARN Cuda failure\n")), None);
        assert_eq!(name(&format!("{kernel}# nThread 1 nGpus 1\n")), Some("nccl-tests"));
        assert_eq!(name("lm loss: 1\n"), None);
    }

    #[test]
    fn placeholders_stand_for_text() {
        let known = Known::new("a.<x>.b.<y>", "1", Better::None, Scope::World, "M");
        for (name, described) in
            [("a.1.b.2", true), ("a.1.2.b.3", true), ("a..b.2", false), ("a.1.b.", false), ("b.1.b.2", false)]
        {
            assert_eq!(known.describes(name), described, "{name}");
        }
        assert!(format("hpl").is_some() && format("none").is_none());
    }
}
