//! What is reported.

use lifecycle::RunState;
use model::{Cluster, Record, Verdict, Workload, measurement::Reading};
use verdict::{Baseline, Judgement, Standard};

use crate::text;

/// Where everything of a run lies, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The ledger.
    pub ledger: String,
    /// The files that the stages committed.
    pub artefacts: String,
    /// The benchmark's output, once it is safe.
    pub logs: Option<String>,
    /// The warehouse with the measurements.
    pub warehouse: String,
    /// The HTML page, where one is written.
    pub report: Option<String>,
}

/// What a run has besides its measurements.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What is known of it.
    pub state: &'a RunState,
    /// Its whole ledger, in order.
    pub records: &'a [Record],
    /// Where everything lies.
    pub places: &'a Places,
}

/// A log, or the logs of a run together, and what they come to.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    /// As it was named.
    pub name: &'a str,
    /// What it says.
    pub reading: &'a Reading,
    /// The verdict on it alone.
    pub judgement: Option<&'a Judgement>,
}

/// What is reported: a run, or logs on their own.
#[derive(Clone, Debug, Default)]
pub struct Story<'a> {
    /// The run around the measurements; none where logs are judged on their own.
    pub run: Option<Run<'a>>,
    /// What was measured, in order; nothing until the logs were read.
    pub logs: Vec<Log<'a>>,
    /// The verdict on all logs together, once there is one.
    pub judgement: Option<&'a Judgement>,
    /// Standard of the first log. In a series, the history of each later log has the logs before it.
    pub standard: Standard<'a>,
    /// Several logs are a series in time, oldest first; otherwise each is judged on its own.
    pub series: bool,
}

impl<'a> Story<'a> {
    /// What it is called: the run, the log, or how many logs.
    pub(crate) fn title(&self) -> String {
        match (self.run, self.logs.as_slice()) {
            (Some(run), _) => run.state.run.to_string(),
            (None, [one]) => text::line(one.name),
            (None, many) => text::count(many.len() as u64, "log"),
        }
    }

    /// The ledger's verdict counts; a judgement that was only fetched stands in until the ledger has it.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let recorded = self.run.and_then(|run| run.state.verdict()).map(|reached| reached.verdict);
        recorded.or_else(|| self.judgement.map(|judgement| judgement.verdict))
    }

    /// The judgement behind that verdict, where it was fetched.
    pub(crate) fn whole(&self) -> Option<&'a Judgement> {
        self.judgement.filter(|judgement| Some(judgement.verdict) == self.verdict())
    }

    /// What a run was asked for, and what it ran on.
    pub(crate) fn asked(&self) -> (Option<&'a Workload>, Option<&'a Cluster>) {
        let state = self.run.map(|run| run.state);
        let benchmark = state.and_then(|state| state.workflow.benchmark.as_ref());
        (benchmark.map(|benchmark| &benchmark.workload), state.and_then(RunState::cluster))
    }

    /// The baseline, where this log is of the same thing: other curves are not compared.
    pub(crate) fn baseline(&self, log: &Log<'_>) -> Option<&'a Baseline> {
        let baseline = self.standard.baseline?;
        let judgement = log.judgement.or(self.judgement)?;
        let mut changed = baseline.fingerprint.differences(&judgement.fingerprint);
        (!changed.any(|difference| difference.is_identity())).then_some(baseline)
    }
}
