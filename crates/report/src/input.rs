//! Input of a report.

use lifecycle::RunState;
use model::{CheckIndex, Cluster, Record, Verdict, VerdictReached, Workload, measurement::Reading};
use verdict::{Baseline, Judgement, Standard};

use crate::{round_values::RoundValues, text};

/// Storage locations of a run, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLocations {
    /// Address of the run's ledger.
    pub ledger: String,
    /// Location of the run's committed artefacts.
    pub artefacts: String,
    /// Address of the benchmark's output, once collected.
    pub logs: Option<String>,
    pub warehouse: String,
    /// Address of the HTML page, if the page is written.
    pub report: Option<String>,
}

/// Data of a run other than its measurements.
#[derive(Clone, Copy, Debug)]
pub struct ReportedRun<'a> {
    /// State after the whole ledger.
    pub state: &'a RunState,
    /// Complete ledger, in order.
    pub records: &'a [Record],
    /// Storage locations.
    pub locations: &'a RunLocations,
    /// Rounds of the shown check, if it is part of a soak: a selection of evenly spaced ones.
    pub rounds: &'a [RoundValues],
    /// The check to report; `None` for the whole run, with the measurements of the check with the most severe verdict.
    pub check: Option<CheckIndex>,
}

impl<'a> ReportedRun<'a> {
    /// The check whose measurements are shown.
    pub(crate) fn shown_check(&self) -> CheckIndex {
        self.check.unwrap_or_else(|| self.state.shown_check())
    }

    /// The recorded verdict of the check or the run.
    pub(crate) fn recorded_verdict(self) -> Option<&'a VerdictReached> {
        match self.check {
            Some(check) => self.state.verdict_of(check),
            None => self.state.verdict(),
        }
    }
}

/// A log, or the logs of a run together, with the verdict.
#[derive(Clone, Copy, Debug)]
pub struct ReportedLog<'a> {
    pub name: &'a str,
    /// Parsed content.
    pub reading: &'a Reading,
    /// Verdict on only this log.
    pub judgement: Option<&'a Judgement>,
}

/// Input of a report: a run, or separate logs.
#[derive(Clone, Debug, Default)]
pub struct ReportInput<'a> {
    /// The run of the measurements; `None` for separate logs.
    pub run: Option<ReportedRun<'a>>,
    /// Measurements, in order; empty before the logs are read.
    pub logs: Vec<ReportedLog<'a>>,
    /// The logs of a run one by one, each with its name; empty for separate logs.
    pub parts: Vec<(&'a str, &'a Reading)>,
    /// Verdict on all logs together, if any.
    pub judgement: Option<&'a Judgement>,
    /// Standard of the first log. In a series, the history of each later log includes the logs before it.
    pub standard: Standard<'a>,
    /// Whether several logs are a series in time, oldest first; otherwise each is judged on its own.
    pub series: bool,
}

impl<'a> ReportInput<'a> {
    /// Whether measurements or a verdict exist.
    pub(crate) fn has_results(&self) -> bool {
        !self.logs.is_empty() || self.judgement.is_some()
    }

    /// Title of the report: the run, the log, or the number of logs.
    pub(crate) fn title(&self) -> String {
        match (self.run, self.logs.as_slice()) {
            (Some(run), _) => run.state.run.to_string(),
            (None, [one]) => text::single_line(one.name),
            (None, many) => text::count(many.len() as u64, "log"),
        }
    }

    /// The ledger's verdict has priority; until the verdict is recorded, the fetched judgement is used.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let recorded = self.run.and_then(ReportedRun::recorded_verdict).map(|reached| reached.verdict);
        recorded.or_else(|| self.judgement.map(|judgement| judgement.verdict))
    }

    /// The judgement with the reported verdict, if fetched.
    pub(crate) fn reported_judgement(&self) -> Option<&'a Judgement> {
        self.judgement.filter(|judgement| Some(judgement.verdict) == self.verdict())
    }

    /// Requested benchmark and cluster of a run.
    pub(crate) fn requested(&self) -> (Option<&'a Workload>, Option<&'a Cluster>) {
        let state = self.run.map(|run| run.state);
        let benchmark = self.run.and_then(|run| run.state.workflow.benchmark_of(run.shown_check()));
        (benchmark.and_then(|benchmark| benchmark.program.workload()), state.and_then(RunState::cluster))
    }

    /// The baseline, if comparable with this log.
    pub(crate) fn baseline(&self, log: &ReportedLog<'_>) -> Option<&'a Baseline> {
        let baseline = self.standard.baseline?;
        let judgement = log.judgement.or(self.judgement)?;
        let mut changed = baseline.fingerprint.differences(&judgement.fingerprint);
        (!changed.any(|difference| difference.is_identity())).then_some(baseline)
    }
}
