//! Where the fault is: the slow rank, GPU or node, named from measurements.
//!
//! Three kinds of evidence lead to a [`Located`]:
//!
//! - [`from_processes`]: the per-process times of one run, with healthy runs beside it where there are any;
//! - [`from_pairs`]: any set of two-member runs;
//! - [`from_tried`]: the same, of a sweep over a cluster; [`next_pairs`] chooses the pairs to run next;
//! - [`from_groups`]: collectives over chosen subsets of a cluster; [`plan_groups`] chooses the next one to run, and
//!   [`plan_pairs`] the pairs that confirm what was found.
//!
//! A wrong name sends people to the wrong machine, so a name needs evidence: what the measurements do not decide is
//! said in [`Located::undecided`] and never guessed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod belief;
mod choose;
mod evidence;
mod halves;
mod odds;
mod pairs;
mod plan;
mod processes;
mod sampler;
mod seeded;
mod slowness;
mod standout;
mod sweep;

pub use pairs::{Members, PairOptions, PairResult, from_pairs};
pub use plan::{
    GroupOutcome, PairOutcome, PlanOptions, Search, TestPlan, from_groups, plan_groups, plan_pairs,
};
pub use processes::from_processes;
pub use sweep::{Outcome, Tried, best_of, from_tried, next_pairs};

/// What the measurements say of the place of a fault. This is the document `burnin/locate/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Located {
    /// `burnin/locate/v1`.
    pub schema: String,
    /// The evidence suffices, and nothing is bad.
    pub healthy: bool,
    /// Who is bad, surest first.
    pub suspects: Vec<Suspect>,
    /// Links that are bad between two members that are good with everybody else, surest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SuspectLink>,
    /// Why it could not be told, or not all of it.
    pub undecided: Option<String>,
}

/// One rank, GPU or node held to be bad.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suspect {
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// PCI bus id of its GPU, as printed.
    pub bus_id: Option<String>,
    /// Host it runs on.
    pub host: Option<String>,
    /// From 0 to 1.
    pub confidence: f64,
}

/// One link held to be bad.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuspectLink {
    /// One end, as the pair named it.
    pub a: String,
    /// The other end.
    pub b: String,
    /// From 0 to 1.
    pub confidence: f64,
}

impl Located {
    /// Nothing is bad.
    fn healthy() -> Self {
        Self { healthy: true, ..Self::named(Vec::new()) }
    }

    /// It could not be told.
    fn open(why: impl Into<String>) -> Self {
        Self { undecided: Some(why.into()), ..Self::named(Vec::new()) }
    }

    /// These are bad.
    fn named(mut suspects: Vec<Suspect>) -> Self {
        suspects.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        Self {
            schema: "burnin/locate/v1".to_owned(),
            healthy: false,
            suspects,
            links: Vec::new(),
            undecided: None,
        }
    }
}
