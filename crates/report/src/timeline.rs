//! Start and end of each attempt of each stage.

use lifecycle::{AttemptEnd, LeaseState, RunState, StageState, evolve, fold};
use model::{Attempt, Conclusion, Fact, Record, RecordEntry, Stage, Step, Timestamp};

use crate::{fact_texts, text};

/// One attempt of a stage, or the release of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageLine {
    pub stage: Stage,
    /// Name of the stage's check, if the workflow has several checks.
    pub check: Option<String>,
    pub attempt: Attempt,
    /// Whether this line is the release of the attempt's cluster rather than the attempt itself.
    pub teardown: bool,
    /// Start of the attempt.
    pub began: Timestamp,
    /// End of the attempt; `None` while it runs.
    pub ended: Option<Timestamp>,
    /// Result for display: one sanitized line.
    pub outcome: String,
}

impl StageLine {
    /// The stage's name, or `teardown`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        if self.teardown { "teardown" } else { self.stage.as_str() }
    }

    pub(crate) const fn step(&self) -> Step {
        self.stage.of(self.attempt.check)
    }

    /// The name, with the attempt number if it is not the first, and the check.
    pub(crate) fn title(&self) -> String {
        let mut title = self.name().to_owned();
        if self.attempt.number > 1 {
            title += &format!(" {}", self.attempt.number);
        }
        if let Some(check) = &self.check {
            title += &format!(" · {check}");
        }
        title
    }

    /// The result, after the name of the check.
    #[must_use]
    pub fn checked_outcome(&self) -> String {
        match &self.check {
            Some(check) => format!("{check}: {}", self.outcome),
            None => self.outcome.clone(),
        }
    }

    fn end(&mut self, at: Timestamp, outcome: &str) {
        self.ended = Some(at);
        self.outcome = text::single_line(outcome);
    }
}

/// All started attempts of all stages and all releases of clusters, in order of their start.
///
/// The ledger is the only clock: an attempt starts with the record that made it current, and ends with the
/// record that ended it.
#[must_use]
pub fn timeline(records: &[Record]) -> Vec<StageLine> {
    let mut lines = Vec::new();
    let Ok(mut state) = fold(records.first()) else { return lines };
    for record in records {
        if record.seq > state.seq {
            state = evolve(state, record);
        }
        attempts(&mut lines, &state);
        leases(&mut lines, &state, record);
        if let RecordEntry::AttemptOpened { because, .. } = &record.entry {
            let replaced = |line: &&mut StageLine| line.attempt < state.attempt(line.step());
            open(&mut lines)
                .filter(replaced)
                .for_each(|line| line.end(state.recorded_at, &fact_texts::one_line(because)));
        }
        if let RecordEntry::Closed { conclusion } = &record.entry {
            let outcome = match conclusion {
                Conclusion::Cancelled { by } => format!("cancelled by {by}"),
                _ => "abandoned without a further fact".to_owned(),
            };
            open(&mut lines).for_each(|line| line.end(state.recorded_at, &outcome));
        }
    }
    lines
}

fn open(lines: &mut [StageLine]) -> impl Iterator<Item = &mut StageLine> {
    lines.iter_mut().filter(|line| !line.teardown && line.ended.is_none())
}

fn attempts(lines: &mut Vec<StageLine>, state: &RunState) {
    let at = state.recorded_at;
    for (&step, now) in &state.stages {
        if now.since.is_none() && now.handle.is_none() && now.end.is_none() {
            continue;
        }
        let known = |line: &StageLine| !line.teardown && line.step() == step && line.attempt == now.attempt;
        let index = lines.iter().position(known).unwrap_or_else(|| {
            lines.push(StageLine {
                stage: step.stage,
                check: fact_texts::check_of(&state.workflow, step),
                attempt: now.attempt,
                teardown: false,
                began: now.since.unwrap_or(at),
                ended: None,
                outcome: String::new(),
            });
            lines.len() - 1
        });
        let line = &mut lines[index];
        match &now.end {
            _ if line.ended.is_some() => {}
            Some(AttemptEnd::Succeeded(fact)) => line.end(at, &fact_texts::fact(fact)),
            Some(AttemptEnd::Failed(failure)) => line.end(at, &fact_texts::one_line(failure)),
            Some(AttemptEnd::TimedOut) => {
                line.end(at, &format!("no response within its limit of {}", state.limit(step)));
            }
            None => line.outcome = underway(now),
        }
    }
}

fn underway(now: &StageState) -> String {
    match (&now.handle, now.overdue) {
        (_, Some(_)) => "limit exceeded; its state is being polled".to_owned(),
        (Some(handle), None) => text::single_line(&format!("in progress as {handle}")),
        (None, None) => "requested".to_owned(),
    }
}

/// A teardown starts when the run no longer needs the cluster, and ends with the provider's confirmation.
fn leases(lines: &mut Vec<StageLine>, state: &RunState, record: &Record) {
    let at = state.recorded_at;
    for (&attempt, lease) in &state.leases {
        let returned = lease.state == LeaseState::Returned;
        let last = lines.iter().rposition(|line| line.teardown && line.attempt == attempt);
        let index = match last {
            Some(index) if returned || lines[index].ended.is_none() => index,
            // No teardown has started, or a cluster reported as deleted exists again.
            _ if returned || !state.needs_lease(attempt) => {
                lines.push(StageLine {
                    stage: Stage::Cluster,
                    check: None,
                    attempt,
                    teardown: true,
                    began: at,
                    ended: None,
                    outcome: "being released".to_owned(),
                });
                lines.len() - 1
            }
            _ => continue,
        };
        if returned && lines[index].ended.is_none() {
            lines[index].end(at, &evidence(record));
        }
    }
}

fn evidence(record: &Record) -> String {
    match &record.entry {
        RecordEntry::Accepted { fact, .. } => match &**fact {
            Fact::ClusterDeleted(deleted) => format!("gone: {}", deleted.evidence),
            _ => "gone".to_owned(),
        },
        _ => "gone".to_owned(),
    }
}
