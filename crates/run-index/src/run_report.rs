//! A run with all data of its report.

use ledger::Artefacts;
use lifecycle::RunState;
use measurements::ParsedLog;
use model::{
    CheckIndex, Record, RunId, Stage,
    measurement::{LogEnd, Reading},
};
use report::{ReportInput, ReportedLog, ReportedRun, RoundValues, RunLocations};
use verdict::{Judgement, Standard, Stored};

use crate::{FoldedRun, RunIndex, RunIndexError};

/// Addresses outside the bucket, for display.
#[derive(Clone, Debug, Default)]
pub struct ExternalAddresses {
    pub warehouse: String,
    /// HTML page of the run.
    pub report: Option<String>,
}

pub struct RunReport {
    /// Complete ledger, in order.
    pub records: Vec<Record>,
    /// State after the last record.
    pub state: RunState,
    check: Option<CheckIndex>,
    pub(crate) reading: Option<Reading>,
    logs: Vec<ParsedLog>,
    judged: Option<StoredVerdict>,
    locations: RunLocations,
    rounds: Vec<RoundValues>,
}

/// Maximum number of rounds of a soak in a report, in addition to the last.
const ROUNDS: usize = 40;

/// The stored verdict, if readable.
pub(crate) enum StoredVerdict {
    /// The judgement with its inputs.
    Whole(Box<Stored>),
    /// Only the judgement: its inputs were written by an incompatible version.
    Alone(Box<Judgement>),
}

impl StoredVerdict {
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let whole = serde_json::from_slice(body).map(|stored| Self::Whole(Box::new(stored)));
        whole.or_else(|_| serde_json::from_slice(body).map(|judgement| Self::Alone(Box::new(judgement)))).ok()
    }

    pub(crate) const fn judgement(&self) -> &Judgement {
        match self {
            Self::Whole(stored) => &stored.judgement,
            Self::Alone(judgement) => judgement,
        }
    }
}

impl RunIndex {
    /// A run with its measurements and its verdict; `None` if unknown.
    ///
    /// # Errors
    /// Returns an error if its ledger or its artefacts cannot be read.
    pub async fn report(
        &self,
        run: &RunId,
        addresses: ExternalAddresses,
    ) -> Result<Option<RunReport>, RunIndexError> {
        self.report_of(run, None, addresses).await
    }

    /// Like [`Self::report`], for one check; `None` reports the run with its most severe check.
    ///
    /// # Errors
    /// Returns an error if its ledger or its artefacts cannot be read.
    pub async fn report_of(
        &self,
        run: &RunId,
        requested_check: Option<CheckIndex>,
        addresses: ExternalAddresses,
    ) -> Result<Option<RunReport>, RunIndexError> {
        let Some(FoldedRun { records, state }) = self.folded(run).await? else { return Ok(None) };
        let artefacts = Artefacts::new(self.store.clone());
        let check = requested_check.unwrap_or_else(|| state.shown_check());
        let logs = match state.logs_of(check) {
            Some(logs) => {
                let logs = (logs, state.attempt(Stage::Job.of(check)));
                let read = measurements::read(&artefacts, run, logs, state.verdict_of(check)).await;
                read.map_err(|source| RunIndexError::Artefact { run: run.clone(), source })?
            }
            None => Vec::new(),
        };
        let reading = together(logs.iter().map(|log| log.reading.clone()));
        let judged = match state.verdict_of(check) {
            Some(reached) => {
                self.store.read(&reached.object).await?.and_then(|body| StoredVerdict::read(&body))
            }
            None => None,
        };
        let locations = RunLocations {
            // In the cloud the ledger has a separate bucket.
            ledger: self.ledger.store().locate(&format!("ledger/{run}")),
            artefacts: artefacts.locate(&format!("artefacts/{run}")),
            logs: state
                .logs_of(check)
                .map(|logs| artefacts.locate(logs.manifest.trim_end_matches("/manifest.json"))),
            warehouse: addresses.warehouse,
            report: addresses.report,
        };
        let rounds = self.rounds(&artefacts, &state, check).await?;
        Ok(Some(RunReport {
            records,
            state,
            check: requested_check,
            reading,
            logs,
            judged,
            locations,
            rounds,
        }))
    }

    /// Values of the rounds of a check, evenly spaced, with the last one; empty without a soak.
    async fn rounds(
        &self,
        artefacts: &Artefacts,
        state: &RunState,
        check: CheckIndex,
    ) -> Result<Vec<RoundValues>, RunIndexError> {
        let mut rounds = Vec::new();
        if state.soak.is_none() {
            return Ok(rounds);
        }
        let count = state.workflow.check_count().max(1);
        let judged = (check.0 % count..).step_by(count.into()).map(CheckIndex);
        let judged = judged.map_while(|check| Some((check, state.verdict_of(check)?)));
        let judged: Vec<_> = judged.collect();
        let step = judged.len().div_ceil(ROUNDS).max(1);
        let last = judged.len().saturating_sub(1);
        for (at, (check, reached)) in judged.into_iter().enumerate() {
            let Some(file) = reached.measurements.as_ref().filter(|_| at % step == 0 || at == last) else {
                continue;
            };
            let stored = measurements::read_stored(artefacts, file).await;
            let stored =
                stored.map_err(|source| RunIndexError::Artefact { run: state.run.clone(), source })?;
            let ended = state.job_of(check).and_then(|job| job.ended_at);
            let readings = stored.logs.iter().map(|log| &log.reading);
            rounds.push(RoundValues::of(
                state.workflow.round_of(check) + 1,
                ended,
                reached.verdict,
                readings,
            ));
        }
        Ok(rounds)
    }
}

impl RunReport {
    /// Baseline with which the run was judged; `None` if the verdict is absent or unreadable, or had no baseline.
    pub(crate) fn judged_by(&self) -> Option<&verdict::Baseline> {
        match &self.judged {
            Some(StoredVerdict::Whole(stored)) => stored.judged_by.as_ref(),
            _ => None,
        }
    }

    /// The requested check; without a request, the check that the state selects.
    pub fn shown_check(&self) -> CheckIndex {
        self.check.unwrap_or_else(|| self.state.shown_check())
    }

    /// The requested check; `None` if the request names no check.
    pub(crate) fn requested_check(&self) -> Option<CheckIndex> {
        self.check
    }

    /// The verdict as stored, if readable.
    pub fn judgement(&self) -> Option<&Judgement> {
        self.judged.as_ref().map(StoredVerdict::judgement)
    }

    pub fn input(&self) -> ReportInput<'_> {
        let check = self.shown_check();
        let benchmark = self.state.workflow.benchmark_of(check);
        let mut standard =
            Standard { criteria: benchmark.map(|benchmark| &benchmark.criteria), ..Standard::default() };
        if let Some(StoredVerdict::Whole(stored)) = &self.judged {
            (standard.baseline, standard.earlier) = (stored.judged_by.as_ref(), &stored.earlier);
            standard.earlier_metrics = &stored.earlier_metrics;
            standard.pin = stored.pin.as_ref();
        }
        let judgement = self.judgement();
        let name = self.state.run.as_str();
        ReportInput {
            run: Some(ReportedRun {
                state: &self.state,
                records: &self.records,
                locations: &self.locations,
                rounds: &self.rounds,
                check: self.check,
            }),
            parts: self.logs.iter().map(|log| (log.log.as_str(), &log.reading)).collect(),
            logs: self.reading.iter().map(|reading| ReportedLog { name, reading, judgement }).collect(),
            judgement,
            standard,
            series: false,
        }
    }
}

/// Merges the logs of a run, in the same way as the judge: either one log has the table, or each log has metrics.
pub(crate) fn together(readings: impl Iterator<Item = Reading>) -> Option<Reading> {
    let mut whole: Option<Reading> = None;
    for reading in readings.filter(|reading| reading.ended != LogEnd::Empty) {
        let Some(whole) = &mut whole else {
            whole = Some(reading);
            continue;
        };
        if !reading.tables.is_empty() {
            whole.ended = reading.ended;
        } else if reading.format.is_some() && whole.tables.is_empty() {
            // The program runs on each node: one incomplete log makes the merged reading incomplete.
            whole.ended = whole.ended.worse(reading.ended);
        }
        whole.append(reading);
    }
    whole
}
