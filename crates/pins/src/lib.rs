//! Which run is a workflow's reference from now on: pinned by a person, and released by one.
//!
//! ```text
//! baselines/{workflow}/{number, 10 digits}.json   created once: a pin with its whole baseline, or a release
//! ```
//!
//! The entry with the highest number counts, and none before it is ever rewritten or removed: who decided what, when and
//! why stays there. Two who decide at once take two numbers.

mod entry;

use std::sync::Arc;

use ledger::{Creation, Store, StoreError};
use verdict::{Baseline, Pin, pin::Source};

pub use entry::{Change, Entry, History, Noted};

/// Where they lie.
const FOLDER: &str = "baselines/";
/// The version of entries that this program reads and writes.
const FORMAT: u32 = 1;
/// So many rivals at once are none: something is wrong with the store.
const RIVALS: u32 = 32;

/// Why a pin could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store did not answer: try again.
    #[error("the store did not answer")]
    Store(#[from] StoreError),
    /// An entry is not one: no repetition helps.
    #[error("{name} is no entry of a pin: {why}")]
    Damaged {
        /// The object.
        name: String,
        /// The problem.
        why: String,
    },
    /// Others write all the time.
    #[error("others change the pin of {0} at the same time; try again")]
    Busy(String),
}

/// The pins of all workflows in one bucket.
#[derive(Clone)]
pub struct Pins {
    store: Arc<dyn Store>,
}

/// A pin in force, with what it pins.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// Who decided what, when and why.
    pub pin: Pin,
    /// What runs are held against.
    pub baseline: Baseline,
}

impl Pins {
    /// In this bucket.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The workflow's pin; none where nothing is pinned, or not any more.
    ///
    /// # Errors
    /// When the store does not answer, or the newest entry cannot be read.
    pub async fn in_force(&self, workflow: &str) -> Result<Option<InForce>, Error> {
        let newest = self.numbers(workflow).await?.last().copied();
        let Some(newest) = newest else { return Ok(None) };
        let entry = self.entry(workflow, newest).await?;
        Ok(entry.in_force())
    }

    /// Everything that was decided about a workflow, oldest first; none where nothing ever was.
    ///
    /// # Errors
    /// When the store does not answer, or an entry cannot be read.
    pub async fn history(&self, workflow: &str) -> Result<Option<History>, Error> {
        let mut entries = Vec::new();
        for number in self.numbers(workflow).await? {
            entries.push(self.entry(workflow, number).await?.noted());
        }
        Ok((!entries.is_empty()).then(|| History::of(workflow, entries)))
    }

    /// The histories of every workflow of which something was ever pinned, by name.
    ///
    /// # Errors
    /// Those of [`Pins::history`].
    pub async fn all(&self) -> Result<Vec<History>, Error> {
        let mut histories = Vec::new();
        let mut workflows = self.store.children(FOLDER).await?;
        workflows.sort_unstable();
        for workflow in workflows {
            histories.extend(self.history(&workflow).await?);
        }
        Ok(histories)
    }

    /// Pins: from now on the workflow's runs are held against this. What is pinned already stays as it is.
    ///
    /// # Errors
    /// When the store does not answer, or the newest entry cannot be read.
    pub async fn pin(&self, workflow: &str, pinned: Pinned, who: Who) -> Result<Decided, Error> {
        let change = Change::Pinned {
            run: pinned.run.clone(),
            source: pinned.source,
            baseline: Box::new(pinned.baseline),
        };
        let same = |newest: Option<&Entry>| {
            newest.is_some_and(|entry| entry.pins(&pinned.run, pinned.source)).then_some(Decided::Before)
        };
        self.decide(workflow, change, who, same).await
    }

    /// Releases: from now on the workflow's runs are held against what is learned of them. Without a pin nothing is
    /// written.
    ///
    /// # Errors
    /// When the store does not answer, or the newest entry cannot be read.
    pub async fn release(&self, workflow: &str, who: Who) -> Result<Decided, Error> {
        let none = |newest: Option<&Entry>| match newest {
            None => Some(Decided::Never),
            Some(entry) if matches!(entry.change, Change::Released) => Some(Decided::Before),
            Some(_) => None,
        };
        self.decide(workflow, Change::Released, who, none).await
    }

    /// Appends an entry, unless the newest one makes it unnecessary.
    async fn decide(
        &self,
        workflow: &str,
        change: Change,
        Who { by, at, why }: Who,
        settled: impl Fn(Option<&Entry>) -> Option<Decided>,
    ) -> Result<Decided, Error> {
        for _ in 0..RIVALS {
            let newest = match self.numbers(workflow).await?.last() {
                Some(number) => Some(self.entry(workflow, *number).await?),
                None => None,
            };
            if let Some(decided) = settled(newest.as_ref()) {
                return Ok(decided);
            }
            let number = newest.map_or(1, |entry| entry.number + 1);
            let entry = Entry {
                format: FORMAT,
                number,
                by: by.clone(),
                at,
                why: why.clone(),
                change: change.clone(),
            };
            let name = object(workflow, number);
            let damaged =
                |error: serde_json::Error| Error::Damaged { name: name.clone(), why: error.to_string() };
            let body = serde_json::to_vec_pretty(&entry).map_err(damaged)?;
            // Whoever finds the number taken looks what it says: a lost answer of our own is settled there.
            if self.store.create(&name, body.into()).await? == Creation::Created {
                return Ok(Decided::Now);
            }
        }
        Err(Error::Busy(workflow.to_owned()))
    }

    /// Numbers of entries, in their order.
    async fn numbers(&self, workflow: &str) -> Result<Vec<u64>, Error> {
        // Commands of old did not say whose they are.
        if workflow.is_empty() {
            return Ok(Vec::new());
        }
        let folder = format!("{FOLDER}{workflow}/");
        let names = self.store.list(&folder).await?;
        let number = |name: &String| name.strip_prefix(&folder)?.strip_suffix(".json")?.parse::<u64>().ok();
        let mut numbers: Vec<_> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    async fn entry(&self, workflow: &str, number: u64) -> Result<Entry, Error> {
        let name = object(workflow, number);
        let body = self.store.read(&name).await?;
        let damaged = |why: String| Error::Damaged { name: name.clone(), why };
        let body = body.ok_or_else(|| damaged("it is gone".to_owned()))?;
        let entry: Entry = serde_json::from_slice(&body).map_err(|error| damaged(error.to_string()))?;
        if entry.format > FORMAT {
            return Err(damaged(format!("format {} is later than this program", entry.format)));
        }
        Ok(entry)
    }
}

/// What is to be pinned.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The run.
    pub run: model::RunId,
    /// What of it.
    pub source: Source,
    /// What runs are held against.
    pub baseline: Baseline,
}

/// Who decides, when and why.
#[derive(Clone, Debug)]
pub struct Who {
    /// Who.
    pub by: String,
    /// When.
    pub at: model::Timestamp,
    /// Why, for people.
    pub why: String,
}

/// What came of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It counts from now on.
    Now,
    /// It was decided before.
    Before,
    /// Nothing was ever pinned, so there is nothing to release.
    Never,
}

fn object(workflow: &str, number: u64) -> String {
    format!("{FOLDER}{workflow}/{number:010}.json")
}
