//! A run with everything its report needs.

use std::{fs, io::IsTerminal, path::Path};

use ledger::Artefacts;
use machine::RunState;
use report::{Log, Places, Run, Story, Style};
use terms::{
    Record, RunId, Stage,
    measurement::{Ended, Reading},
};
use verdict::{Judgement, Standard};

use crate::{
    exit::Error,
    local::{self, Data},
};

/// A run as far as it is known.
pub struct Told {
    /// Its ledger.
    pub records: Vec<Record>,
    /// Its state.
    pub state: RunState,
    reading: Option<Reading>,
    judged: Option<Judged>,
    places: Places,
}

/// What the judge stored, as far as it can be read.
enum Judged {
    /// With what it was reached from.
    Whole(Box<judge::Stored>),
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

impl Told {
    /// Reads ledger and artefacts.
    pub async fn gather(data: &Data, run: &RunId) -> Result<Self, Error> {
        let (records, state) = data.state(run).await?;
        let artefacts = Artefacts::new(data.store.clone());
        let reading = match state.logs() {
            Some(logs) => {
                let job = state.attempt(Stage::Job);
                let logs = artefacts
                    .logs(logs, job, |body| nccl::read(body))
                    .await
                    .map_err(Error::infrastructure)?;
                together(logs.into_iter().map(|(_, reading)| reading))
            }
            None => None,
        };
        let judged = match state.verdict() {
            Some(reached) => {
                let body = data.store.read(&reached.object).await.map_err(Error::infrastructure)?;
                body.and_then(|body| Judged::read(&body))
            }
            None => None,
        };
        let report = data.report(run);
        let places = Places {
            ledger: artefacts.locate(&format!("ledger/{run}")),
            artefacts: artefacts.locate(&format!("artefacts/{run}")),
            logs: state.logs().map(|logs| artefacts.locate(logs.manifest.trim_end_matches("/manifest.json"))),
            warehouse: local::table(data),
            report: Some(report.display().to_string()),
        };
        Ok(Self { records, state, reading, judged, places })
    }

    /// What is reported.
    pub fn story(&self) -> Story<'_> {
        let benchmark = self.state.workflow.benchmark.as_ref();
        let mut standard =
            Standard { criteria: benchmark.map(|benchmark| &benchmark.criteria), ..Standard::default() };
        if let Some(Judged::Whole(stored)) = &self.judged {
            (standard.baseline, standard.earlier) = (stored.judged_by.as_ref(), &stored.earlier);
        }
        let judgement = self.judged.as_ref().map(Judged::judgement);
        let name = self.state.run.as_str();
        Story {
            run: Some(Run { state: &self.state, records: &self.records, places: &self.places }),
            logs: self.reading.iter().map(|reading| Log { name, reading, judgement }).collect(),
            judgement,
            standard,
        }
    }

    /// The report for standard output.
    pub fn terminal(&self) -> String {
        report::terminal(&self.story(), style())
    }

    /// Writes the page, whole or not at all.
    pub fn write_page(&self, path: &Path) -> Result<(), Error> {
        let draft = path.with_extension("draft");
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&draft, report::html(&self.story())))
            .and_then(|()| fs::rename(&draft, path))
            .map_err(Error::infrastructure)
    }
}

/// What standard output can show.
pub fn style() -> Style {
    let plain = !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
    if plain { Style::Plain } else { Style::Colour }
}

/// What the logs of a run say together, as the judge hears it: one of them has the table.
fn together(readings: impl Iterator<Item = Reading>) -> Option<Reading> {
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
