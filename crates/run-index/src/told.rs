//! A run with everything its report needs.

use ledger::Artefacts;
use lifecycle::RunState;
use model::{
    Record, RunId, Stage,
    measurement::{Ended, Reading},
};
use report::{Log, Places, Run, Story};
use verdict::{Judgement, Standard, Stored};

use crate::{Folded, View, ViewError};

/// Where people find what lies outside of the bucket.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    /// The warehouse with the measurements.
    pub warehouse: String,
    /// The HTML page of the run.
    pub report: Option<String>,
}

/// A run as far as it is known.
pub struct Told {
    /// Its ledger.
    pub records: Vec<Record>,
    /// Its state.
    pub state: RunState,
    pub(crate) reading: Option<Reading>,
    judged: Option<Judged>,
    places: Places,
}

/// What the judge stored, as far as it can be read.
enum Judged {
    /// With what it was reached from.
    Whole(Box<Stored>),
    /// The judgement alone: what came with it was written by another version.
    Alone(Box<Judgement>),
}

impl Judged {
    fn read(body: &[u8]) -> Option<Self> {
        let whole = serde_json::from_slice(body).map(|stored| Self::Whole(Box::new(stored)));
        whole.or_else(|_| serde_json::from_slice(body).map(|judgement| Self::Alone(Box::new(judgement)))).ok()
    }

    const fn judgement(&self) -> &Judgement {
        match self {
            Self::Whole(stored) => &stored.judgement,
            Self::Alone(judgement) => judgement,
        }
    }
}

impl View {
    /// A run with its measurements and its verdict; none when nobody asked for it.
    ///
    /// # Errors
    /// When its ledger or its artefacts cannot be read.
    pub async fn told(&self, run: &RunId, elsewhere: Elsewhere) -> Result<Option<Told>, ViewError> {
        let Some(Folded { records, state }) = self.folded(run).await? else { return Ok(None) };
        let artefacts = Artefacts::new(self.store.clone());
        let reading = match state.logs() {
            Some(logs) => {
                let job = state.attempt(Stage::Job);
                let read = artefacts.logs(logs, job, |body| nccl::read(body)).await;
                let logs = read.map_err(|source| ViewError::Artefact { run: run.clone(), source })?;
                together(logs.into_iter().map(|(_, reading)| reading))
            }
            None => None,
        };
        let judged = match state.verdict() {
            Some(reached) => self.store.read(&reached.object).await?.and_then(|body| Judged::read(&body)),
            None => None,
        };
        let places = Places {
            ledger: artefacts.locate(&format!("ledger/{run}")),
            artefacts: artefacts.locate(&format!("artefacts/{run}")),
            logs: state.logs().map(|logs| artefacts.locate(logs.manifest.trim_end_matches("/manifest.json"))),
            warehouse: elsewhere.warehouse,
            report: elsewhere.report,
        };
        Ok(Some(Told { records, state, reading, judged, places }))
    }
}

impl Told {
    /// The baseline that it was judged by, where there was one.
    pub(crate) fn judged_by(&self) -> Option<&verdict::Baseline> {
        match &self.judged {
            Some(Judged::Whole(stored)) => stored.judged_by.as_ref(),
            _ => None,
        }
    }

    /// What is reported.
    pub fn story(&self) -> Story<'_> {
        let benchmark = self.state.workflow.benchmark.as_ref();
        let mut standard =
            Standard { criteria: benchmark.map(|benchmark| &benchmark.criteria), ..Standard::default() };
        if let Some(Judged::Whole(stored)) = &self.judged {
            (standard.baseline, standard.earlier) = (stored.judged_by.as_ref(), &stored.earlier);
            standard.pin = stored.pin.as_ref();
        }
        let judgement = self.judged.as_ref().map(Judged::judgement);
        let name = self.state.run.as_str();
        Story {
            run: Some(Run { state: &self.state, records: &self.records, places: &self.places }),
            logs: self.reading.iter().map(|reading| Log { name, reading, judgement }).collect(),
            judgement,
            standard,
            series: false,
        }
    }
}

/// What the logs of a run say together, as the judge hears it: one of them has the table.
pub(crate) fn together(readings: impl Iterator<Item = Reading>) -> Option<Reading> {
    let mut whole: Option<Reading> = None;
    for reading in readings.filter(|reading| reading.ended != Ended::Empty) {
        let Some(whole) = &mut whole else {
            whole = Some(reading);
            continue;
        };
        if !reading.tables.is_empty() {
            whole.ended = reading.ended;
        }
        whole.first_error = whole.first_error.take().or(reading.first_error);
        whole.tables.extend(reading.tables);
    }
    whole
}
