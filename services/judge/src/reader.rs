//! Readers for the logs of each kind of program.

use std::{collections::BTreeSet, io, io::Read};

use measure::{Declaration, Declared, Format, evidence::EvidenceFilter};
use model::{
    Class, Cluster, CommandLine, Every, Failure, JobEnd, OutputFormat, Program,
    measurement::{LogEnd, Reading},
};
use service::PortError;
use verdict::{ClueReader, Clues, StatedGpus};

use crate::pairs;

#[derive(Clone, Debug)]
pub struct LogReader {
    format: LogSource,
    /// Part of the cluster on which the program is started once.
    every: Every,
    /// Maximum number of rounds of pairs.
    rounds: Option<u32>,
    /// Exit statuses of a valid measurement, in addition to 0.
    exit: Vec<i32>,
}

#[derive(Clone, Debug)]
enum LogSource {
    /// nccl-tests, or the format detected from the start of the log.
    Detected,
    /// A format of the registry.
    Known(&'static Format),
    /// A declared parser of the workflow.
    Declared(Declared),
}

impl LogReader {
    /// The reader for this program.
    ///
    /// # Errors
    /// Returns a permanent error if this version does not support the format, or if the declaration is invalid.
    pub fn of(program: &Program) -> Result<Self, PortError> {
        let Program::Command(CommandLine { every, rounds, read, .. }) = program else {
            return Ok(Self::detecting());
        };
        let refused = |why: String| PortError::Permanent(Failure::new(Class::Input, "UNKNOWN_FORMAT", why));
        let (format, exit) = match read {
            OutputFormat::Format(name) => {
                let format = measure::format(name).ok_or_else(|| {
                    refused(format!("`{name}` is not a format of this version of the judge; upgrade it"))
                })?;
                (LogSource::Known(format), Vec::new())
            }
            OutputFormat::Declared(rules) => {
                let declaration: Declaration = serde_json::from_value(rules.clone())
                    .map_err(|error| refused(format!("read: {error}")))?;
                let declaration = match every {
                    Every::Pair => declaration.of_pairs(),
                    Every::Node | Every::Rank => declaration,
                };
                let declared = declaration.check(false).map_err(|problems| {
                    let first = problems
                        .first()
                        .map_or_else(String::new, |it| format!("{}: {}", it.field, it.message));
                    refused(format!("read.{first}"))
                })?;
                (LogSource::Declared(declared), declaration.exit)
            }
        };
        Ok(Self { format, every: *every, rounds: *rounds, exit })
    }

    /// The reader for logs of unknown format.
    #[must_use]
    pub const fn detecting() -> Self {
        Self { format: LogSource::Detected, every: Every::Rank, rounds: None, exit: Vec::new() }
    }

    /// The reader for logs of this format.
    #[must_use]
    pub const fn of_format(format: &'static Format) -> Self {
        Self { format: LogSource::Known(format), every: Every::Rank, rounds: None, exit: Vec::new() }
    }

    /// The reader for a declared format.
    #[must_use]
    pub const fn declared(declared: Declared) -> Self {
        Self { format: LogSource::Declared(declared), every: Every::Rank, rounds: None, exit: Vec::new() }
    }

    /// Returns this reader for the log of a program that ran on pairs of nodes; the log has a section for each pair.
    #[must_use]
    pub fn of_pairs(self) -> Self {
        Self { every: Every::Pair, ..self }
    }

    /// A reading without measurements, in the program's format if it is known.
    pub(crate) fn empty(&self) -> Reading {
        let format = match &self.format {
            LogSource::Detected => None,
            LogSource::Known(format) => Some(format.name.to_owned()),
            LogSource::Declared(_) => Some("declared".to_owned()),
        };
        Reading { format, ..Reading::default() }
    }

    /// Reads the measurements and the clues of a log in one pass.
    ///
    /// # Errors
    /// Returns an error if reading fails. A damaged archive is a finding, not an error.
    pub fn read_with_clues(&self, log: impl Read) -> io::Result<(Reading, Clues)> {
        let mut log = EvidenceFilter::unpacked(log);
        let mut clue_reader = ClueReader::new(&mut log);
        let mut reading = match self.every {
            Every::Pair => {
                let rules = pairs::PairRules { rounds: self.rounds, exit: &self.exit };
                pairs::read(&mut clue_reader, rules, self.empty(), |section| self.read(section))?
            }
            Every::Node | Every::Rank => self.read(&mut clue_reader)?,
        };
        let mut clues = clue_reader.finish();
        clues.nodes_of_hosts = log.take_hosts();
        reading.evidence = log.finish();
        Ok((reading, clues))
    }

    /// Reads one process's output with the declared, known or detected format.
    fn read(&self, output: &mut dyn Read) -> io::Result<Reading> {
        match &self.format {
            LogSource::Detected => measure::read(output),
            LogSource::Known(format) => measure::read_as(format, output),
            LogSource::Declared(declared) => declared.read(output),
        }
    }

    /// Sets the node of all subjects of the log of a node: programs name the same host differently, or not at all.
    pub fn complete(&self, reading: &mut Reading, clues: &Clues) {
        let Some(node) = clues.node.as_deref().filter(|_| self.every == Every::Node) else { return };
        reading.name_node(node);
        if let Some(error) = &mut reading.first_error {
            *error = format!("{node}: {error}");
        }
    }

    /// Whether the log has measurements to judge.
    fn is_judged(&self, reading: &Reading, clues: &Clues) -> bool {
        match self.format {
            LogSource::Detected => !reading.tables.is_empty() || reading.format.is_some(),
            _ => reading.ended != LogEnd::Empty && (self.every != Every::Node || clues.node.is_some()),
        }
    }

    /// Nodes of the cluster without measurements. `measured`: nodes with measurements.
    pub(crate) fn missing(&self, cluster: &Cluster, measured: &BTreeSet<String>) -> Vec<String> {
        if self.every == Every::Rank {
            return Vec::new();
        }
        let all: BTreeSet<_> = cluster.nodes.iter().map(|node| node.name.clone()).collect();
        match all.len().saturating_sub(measured.len()) {
            _ if measured.is_subset(&all) => all.difference(measured).cloned().collect(),
            // Some kinds of cluster choose the nodes when the job starts.
            0 => Vec::new(),
            missing => vec![format!("{missing} of {} nodes", all.len())],
        }
    }

    /// GPUs that the check must measure, as the cluster's settings state them.
    pub(crate) fn stated_gpus(&self, cluster: &Cluster) -> Option<StatedGpus> {
        StatedGpus::of(cluster, self.every)
    }

    /// The end of the job; the job is completed if the declaration lists its exit status.
    pub(crate) fn job(&self, end: &JobEnd) -> JobEnd {
        match end.exit_code {
            Some(code) if end.state == "FAILED" && self.exit.contains(&code) => {
                JobEnd { state: "COMPLETED".to_owned(), exit_code: None, ..end.clone() }
            }
            _ => end.clone(),
        }
    }
}

/// The measurements and clues of all logs of a job.
#[derive(Debug)]
pub struct CombinedLogs {
    /// Merged measurements of all logs.
    pub reading: Reading,
    pub clues: Clues,
    /// SHA-256 of the last log with measurements, hex.
    pub log_sha256: Option<String>,
    pub nodes: BTreeSet<String>,
}

impl CombinedLogs {
    /// A reading without logs, in the reader's format if it is known.
    #[must_use]
    pub fn of(reader: &LogReader) -> Self {
        Self { reading: reader.empty(), clues: Clues::default(), log_sha256: None, nodes: BTreeSet::new() }
    }

    /// Adds a log with its name and SHA-256, after [`LogReader::complete`].
    pub fn add(
        &mut self,
        reader: &LogReader,
        (name, sha256): (&str, String),
        reading: Reading,
        clues: Clues,
    ) {
        let whole = &mut self.reading;
        if reader.is_judged(&reading, &clues) {
            self.log_sha256 = Some(sha256);
            match reader.every {
                Every::Pair => {
                    let subjects = reading.metrics.iter().map(|metric| &metric.subject);
                    let names = subjects.flat_map(|subject| [&subject.node, &subject.peer]).flatten();
                    self.nodes.extend(names.map(ToString::to_string));
                }
                Every::Node | Every::Rank => self.nodes.extend(clues.node.clone()),
            }
            whole.ended = whole.ended.worse(reading.ended);
            whole.append(reading);
        } else {
            // On Kubernetes each pod has a log: only the log of the first rank has measurements, and each log has evidence of the
            // pod's node.
            whole.evidence.extend(reading.evidence);
            whole.first_error = whole.first_error.take().or(reading.first_error);
        }
        self.clues.add(name, clues);
    }
}

/// Reads the measurements and the clues of a log in one pass; its format is detected.
///
/// # Errors
/// Returns an error if reading fails. A damaged archive is a finding, not an error.
pub fn read_with_clues(log: impl Read) -> io::Result<(Reading, Clues)> {
    LogReader::detecting().read_with_clues(log)
}
