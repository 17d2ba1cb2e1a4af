//! Manually pinned reference runs of workflows.
//!
//! ```text
//! baselines/{workflow}/{number, 10 digits}.json   created once: a pin with its whole baseline, or a release
//! ```
//!
//! The entry with the highest number is in force. Entries are never rewritten or removed, so the person, time
//! and reason of each decision are kept. Concurrent decisions get different numbers.

mod entry;

use std::sync::Arc;

use ledger::{Creation, Store, StoreError};
use verdict::{Baseline, Pin, pin::PinSource};

pub use entry::{PinChange, PinEntry, PinHistory, PinNote};

/// Prefix of the entries' object names.
const FOLDER: &str = "baselines/";
/// Format version of entries.
const FORMAT: u32 = 1;
/// Maximum number of attempts: more conflicts indicate a faulty store.
const RIVALS: u32 = 32;

#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The store request failed: retry.
    #[error("the store request failed")]
    Store(#[from] StoreError),
    /// An entry is invalid: permanent.
    #[error("{name} is not a valid pin entry: {why}")]
    Damaged {
        /// Object name of the entry.
        name: String,
        why: String,
    },
    /// Each of `RIVALS` attempts conflicted with a concurrent change: retry.
    #[error("the pin of {0} was changed concurrently {max} times; retry", max = RIVALS)]
    Busy(String),
}

/// The pins of all workflows in one bucket.
#[derive(Clone)]
pub struct Pins {
    store: Arc<dyn Store>,
}

/// A pin in force, with its baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivePin {
    /// Run, person, time and reason.
    pub pin: Pin,
    /// Baseline for the workflow's runs.
    pub baseline: Baseline,
}

impl Pins {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The workflow's pin; `None` without one.
    ///
    /// # Errors
    /// Returns an error if the store request fails, or the newest entry is invalid.
    pub async fn active_pin(&self, workflow: &str) -> Result<Option<ActivePin>, PinError> {
        let newest = self.numbers(workflow).await?.last().copied();
        let Some(newest) = newest else { return Ok(None) };
        let entry = self.entry(workflow, newest).await?;
        Ok(entry.into_active_pin())
    }

    /// All decisions about a workflow, oldest first; `None` without a decision.
    ///
    /// # Errors
    /// Returns an error if the store request fails, or an entry is invalid.
    pub async fn history(&self, workflow: &str) -> Result<Option<PinHistory>, PinError> {
        let mut entries = Vec::new();
        for number in self.numbers(workflow).await? {
            entries.push(self.entry(workflow, number).await?.noted());
        }
        Ok((!entries.is_empty()).then(|| PinHistory::of(workflow, entries)))
    }

    /// The histories of all workflows with decisions, by name.
    ///
    /// # Errors
    /// Returns an error if the store request fails, or an entry is invalid.
    pub async fn all(&self) -> Result<Vec<PinHistory>, PinError> {
        let mut histories = Vec::new();
        let mut workflows = self.store.children(FOLDER).await?;
        workflows.sort_unstable();
        for workflow in workflows {
            histories.extend(self.history(&workflow).await?);
        }
        Ok(histories)
    }

    /// Pins a reference for the workflow's runs. Pinning the same reference again has no effect.
    ///
    /// # Errors
    /// Returns an error if the store request fails, or the newest entry is invalid.
    pub async fn pin(&self, workflow: &str, pinned: NewPin, who: DecidedBy) -> Result<PinOutcome, PinError> {
        let change = PinChange::Pinned {
            run: pinned.run.clone(),
            source: pinned.source,
            baseline: Box::new(pinned.baseline),
        };
        let same = |newest: Option<&PinEntry>| {
            newest.is_some_and(|entry| entry.pins(&pinned.run, pinned.source)).then_some(PinOutcome::Before)
        };
        self.decide(workflow, change, who, same).await
    }

    /// Releases the pin: the workflow's runs are compared with the learned baseline. Without a pin no entry is written.
    ///
    /// # Errors
    /// Returns an error if the store request fails, or the newest entry is invalid.
    pub async fn release(&self, workflow: &str, who: DecidedBy) -> Result<PinOutcome, PinError> {
        let none = |newest: Option<&PinEntry>| match newest {
            None => Some(PinOutcome::Never),
            Some(entry) if matches!(entry.change, PinChange::Released) => Some(PinOutcome::Before),
            Some(_) => None,
        };
        self.decide(workflow, PinChange::Released, who, none).await
    }

    /// Appends an entry, unless the newest entry already has the same effect.
    async fn decide(
        &self,
        workflow: &str,
        change: PinChange,
        DecidedBy { by, at, why }: DecidedBy,
        settled: impl Fn(Option<&PinEntry>) -> Option<PinOutcome>,
    ) -> Result<PinOutcome, PinError> {
        for _ in 0..RIVALS {
            let newest = match self.numbers(workflow).await?.last() {
                Some(number) => Some(self.entry(workflow, *number).await?),
                None => None,
            };
            if let Some(decided) = settled(newest.as_ref()) {
                return Ok(decided);
            }
            let number = newest.map_or(1, |entry| entry.number + 1);
            let entry = PinEntry {
                format: FORMAT,
                number,
                by: by.clone(),
                at,
                why: why.clone(),
                change: change.clone(),
            };
            let name = object(workflow, number);
            // If the number is taken, the next iteration reads the entry: this call may have written it and lost the
            // response.
            if self.store.create_json(&name, &entry).await? == Creation::Created {
                return Ok(PinOutcome::Now);
            }
        }
        Err(PinError::Busy(workflow.to_owned()))
    }

    /// Numbers of entries, ascending.
    async fn numbers(&self, workflow: &str) -> Result<Vec<u64>, PinError> {
        // Commands of older versions have no workflow name.
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

    async fn entry(&self, workflow: &str, number: u64) -> Result<PinEntry, PinError> {
        let name = object(workflow, number);
        let body = self.store.read(&name).await?;
        let damaged = |why: String| PinError::Damaged { name: name.clone(), why };
        let body =
            body.ok_or_else(|| damaged("the object was deleted; restore it from a backup".to_owned()))?;
        let entry: PinEntry = serde_json::from_slice(&body).map_err(|error| damaged(error.to_string()))?;
        if entry.format > FORMAT {
            return Err(damaged(format!(
                "format {} is newer than {FORMAT}, the newest that this program supports; update the program",
                entry.format
            )));
        }
        Ok(entry)
    }
}

#[derive(Clone, Debug)]
pub struct NewPin {
    /// Run whose measurements or baseline are pinned.
    pub run: model::RunId,
    /// Part of the run that is the reference.
    pub source: PinSource,
    /// Baseline for other runs.
    pub baseline: Baseline,
}

/// Person, time and reason of a decision.
#[derive(Clone, Debug)]
pub struct DecidedBy {
    /// Person who makes the decision.
    pub by: String,
    /// Time of the decision.
    pub at: model::Timestamp,
    /// Reason, for display.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinOutcome {
    /// The decision is in force from now on.
    Now,
    /// The decision was already in force.
    Before,
    /// No pin was in force, so no release was recorded.
    Never,
}

fn object(workflow: &str, number: u64) -> String {
    format!("{FOLDER}{workflow}/{number:010}.json")
}
