//! Stored and displayed forms of a pin decision.

use model::{RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use verdict::{Baseline, Fingerprint, Pin, pin::PinSource};

use crate::ActivePin;

/// Content of an entry in the bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PinEntry {
    pub format: u32,
    /// Sequence number in the workflow's history, starting at 1.
    pub number: u64,
    /// Person who made the decision.
    pub by: String,
    /// Time of the decision.
    pub at: Timestamp,
    /// Reason, for display.
    pub why: String,
    /// A pin or a release.
    #[serde(flatten)]
    pub change: PinChange,
}

/// The content of a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum PinChange {
    /// Pins a run as the reference.
    Pinned {
        run: RunId,
        /// Part of the run that is the reference.
        source: PinSource,
        /// Baseline for other runs.
        baseline: Box<Baseline>,
    },
    /// Releases the pin: runs are compared with the learned baseline.
    Released,
}

impl PinEntry {
    /// Whether the entry pins this run with this baseline source.
    pub(crate) fn pins(&self, wanted: &RunId, of: PinSource) -> bool {
        matches!(&self.change, PinChange::Pinned { run, source, .. } if run == wanted && *source == of)
    }

    /// The pin, unless this is a release.
    pub(crate) fn into_active_pin(self) -> Option<ActivePin> {
        let Self { number, by, at, why, change, .. } = self;
        match change {
            PinChange::Pinned { run, source, baseline } => {
                Some(ActivePin { pin: Pin { number, run, source, by, at, why }, baseline: *baseline })
            }
            PinChange::Released => None,
        }
    }

    /// The displayed form.
    pub(crate) fn noted(self) -> PinNote {
        let Self { number, by, at, why, change, .. } = self;
        let (change, run, source, fingerprint, runs) = match change {
            PinChange::Pinned { run, source, baseline } => {
                ("pinned", Some(run), Some(source), Some(baseline.fingerprint), Some(baseline.runs))
            }
            PinChange::Released => ("released", None, None, None, None),
        };
        PinNote { number, change: change.to_owned(), by, at, why, run, source, fingerprint, runs }
    }
}

/// Displayed form of a decision, without the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinNote {
    /// Sequence number in the workflow's history, starting at 1.
    pub number: u64,
    /// `pinned` or `released`.
    pub change: String,
    /// Person who made the decision.
    pub by: String,
    /// Time of the decision.
    pub at: Timestamp,
    /// Reason, for display.
    pub why: String,
    /// The pinned run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Part of the run that is the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<PinSource>,
    /// Environment of its measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Number of runs that the baseline was learned from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
}

/// All decisions about a workflow. This is the document `burnin/pins/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PinHistory {
    /// `burnin/pins/v1`.
    pub schema: String,
    /// Name of the workflow.
    pub workflow: String,
    /// Current pin; null without one.
    pub pin: Option<PinNote>,
    /// All decisions, oldest first.
    pub history: Vec<PinNote>,
}

impl PinHistory {
    pub(crate) fn of(workflow: &str, history: Vec<PinNote>) -> Self {
        let pin = history.last().filter(|newest| newest.run.is_some()).cloned();
        Self { schema: "burnin/pins/v1".to_owned(), workflow: workflow.to_owned(), pin, history }
    }
}
