//! What is kept of a decision, and what is shown of it.

use model::{RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use verdict::{Baseline, Fingerprint, Pin, pin::Source};

use crate::InForce;

/// A decision, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of this document.
    pub format: u32,
    /// Its number in the workflow's history, from 1.
    pub number: u64,
    /// Who decided.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why, for people.
    pub why: String,
    /// What.
    #[serde(flatten)]
    pub change: Change,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// Runs are held against this one.
    Pinned {
        /// The run.
        run: RunId,
        /// What of it.
        source: Source,
        /// What runs are held against.
        baseline: Box<Baseline>,
    },
    /// Runs are held against what is learned of them.
    Released,
}

impl Entry {
    /// Whether it pins just that.
    pub(crate) fn pins(&self, wanted: &RunId, of: Source) -> bool {
        matches!(&self.change, Change::Pinned { run, source, .. } if run == wanted && *source == of)
    }

    /// The pin, if it is one.
    pub(crate) fn in_force(self) -> Option<InForce> {
        let Self { number, by, at, why, change, .. } = self;
        match change {
            Change::Pinned { run, source, baseline } => {
                Some(InForce { pin: Pin { number, run, source, by, at, why }, baseline: *baseline })
            }
            Change::Released => None,
        }
    }

    /// What is shown of it.
    pub(crate) fn noted(self) -> Noted {
        let Self { number, by, at, why, change, .. } = self;
        let (change, run, source, fingerprint, runs) = match change {
            Change::Pinned { run, source, baseline } => {
                ("pinned", Some(run), Some(source), Some(baseline.fingerprint), Some(baseline.runs))
            }
            Change::Released => ("released", None, None, None, None),
        };
        Noted { number, change: change.to_owned(), by, at, why, run, source, fingerprint, runs }
    }
}

/// A decision, as it is shown: without the curve.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Noted {
    /// Its number in the workflow's history, from 1.
    pub number: u64,
    /// `pinned` or `released`.
    pub change: String,
    /// Who decided.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why, for people.
    pub why: String,
    /// The run that was pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// What it was measured on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Number of runs that the baseline was learned from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
}

/// What was decided about a workflow. This is the document `burnin/pins/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct History {
    /// `burnin/pins/v1`.
    pub schema: String,
    /// The workflow.
    pub workflow: String,
    /// What runs are held against now; null when nothing is pinned any more.
    pub pin: Option<Noted>,
    /// Every decision, oldest first.
    pub history: Vec<Noted>,
}

impl History {
    pub(crate) fn of(workflow: &str, history: Vec<Noted>) -> Self {
        let pin = history.last().filter(|newest| newest.run.is_some()).cloned();
        Self { schema: "burnin/pins/v1".to_owned(), workflow: workflow.to_owned(), pin, history }
    }
}
