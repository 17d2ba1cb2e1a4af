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
mod search;
mod seeded;
mod slowness;
mod standout;
mod sweep;

pub use pairs::{Members, PairOptions, PairResult, from_pairs};
pub use plan::{
    GroupOutcome, PairOutcome, PlanOptions, TestPlan, from_groups, plan_groups, plan_pairs, tests_for,
};
pub use processes::from_processes;
pub use search::Search;
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
    /// Who is likely bad, but not with the confidence that a name needs, likeliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspected: Vec<Suspect>,
    /// Of a search by group tests: how far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Searched>,
}

/// How far a search by group tests is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Searched {
    /// It is over: the bad members are known, and known to be all.
    pub sure: bool,
    /// How likely it is that those named and those suspected are bad, and nobody else; from 0 to 1.
    pub confidence: f64,
    /// Who is bad with this chance at least is named, others are suspected.
    pub named_from: f64,
    /// Tests that were run.
    pub tests: usize,
    /// Tests that are allowed.
    pub most: usize,
    /// Tests that would still be wanted, about; 0 when none would help.
    pub more: usize,
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
            suspected: Vec::new(),
            search: None,
        }
    }
}

impl Searched {
    /// What is not decided, in words.
    fn told(&self, located: &Located) -> String {
        let who = if located.suspects.is_empty() && located.suspected.is_empty() {
            "nobody is bad"
        } else {
            "just these are bad"
        };
        let percent = (self.confidence * 100.0).floor();
        let used_up = if self.tests >= self.most { ", and the tests allowed are used up" } else { "" };
        match self.more {
            0 => format!("likely, {percent} %, that {who}; no test of a group would tell more"),
            1 => format!("likely, {percent} %, that {who}; one more test would be wanted{used_up}"),
            more => {
                format!("likely, {percent} %, that {who}; about {more} more tests would be wanted{used_up}")
            }
        }
    }
}
