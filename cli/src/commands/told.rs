//! A run with everything its report needs.

use std::{fs, io::IsTerminal, path::Path};

use ledger::Artefacts;
use machine::RunState;
use report::{Places, Story, Style};
use terms::{
    Record, RunId, Stage,
    measurement::{Ended, Reading},
};
use verdict::Judgement;

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
    judgement: Option<Judgement>,
    places: Places,
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
                logs.into_iter().map(|(_, reading)| reading).find(|reading| reading.ended != Ended::Empty)
            }
            None => None,
        };
        let judgement = match state.verdict() {
            Some(reached) => {
                let body = data.store.read(&reached.object).await.map_err(Error::infrastructure)?;
                body.and_then(|body| serde_json::from_slice(&body).ok())
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
        Ok(Self { records, state, reading, judgement, places })
    }

    fn story(&self) -> Story<'_> {
        Story {
            state: &self.state,
            records: &self.records,
            reading: self.reading.as_ref(),
            judgement: self.judgement.as_ref(),
            places: &self.places,
        }
    }

    /// The report for standard output.
    pub fn terminal(&self) -> String {
        let plain = !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
        report::terminal(&self.story(), if plain { Style::Plain } else { Style::Colour })
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
