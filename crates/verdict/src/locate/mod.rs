//! Locates faults: the slow rank, GPU or node, from measurements.
//!
//! Four kinds of evidence lead to a [`Located`]:
//!
//! - [`from_processes`]: the per-process times of one run, optionally with healthy reference runs;
//! - [`from_pairs`]: any set of two-member runs;
//! - [`from_tried`]: a sweep of two-member runs over a cluster; [`next_pairs`] chooses the next pairs;
//! - [`from_groups`]: collectives over chosen subsets of a cluster; [`plan_groups`] chooses the next one, and
//!   [`plan_pairs`] the pairs that confirm the result.
//!
//! A false suspect causes wrong repairs, so a suspect requires evidence: undecided cases are reported in
//! [`Located::undecided`] and never guessed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod belief;
mod choose;
mod evidence;
mod odds;
mod pairs;
mod plan;
mod processes;
mod sampler;
mod search;
mod slowness;
mod standout;
mod sweep;
mod timing_matrix;

pub(crate) use pairs::plateau;
pub use pairs::{Members, PairOptions, PairResult, from_pairs};
pub use plan::{GroupOutcome, PairOutcome, PlanOptions, TestPlan, plan_pairs, tests_for};
pub use processes::from_processes;
pub use search::{GroupSearch, from_groups, plan_groups};
pub use sweep::{SweepOutcome, Tried, best_of, from_tried, next_pairs};

/// Location of a fault. This is the document `burnin/locate/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Located {
    /// Schema of the document: always `burnin/locate/v1`.
    pub schema: String,
    /// The evidence suffices, and no member is bad.
    pub healthy: bool,
    /// Bad members, highest confidence first.
    pub suspects: Vec<Suspect>,
    /// Bad links between two members that work with all others, highest confidence first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<SuspectLink>,
    /// Reason why the evidence gives no result, or only a partial one.
    pub undecided: Option<String>,
    /// Probably bad members below the confidence required for a suspect, most likely first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspected: Vec<Suspect>,
    /// Progress of a search by group tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Searched>,
}

/// Progress of a search by group tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Searched {
    /// The search is complete: all bad members are known.
    pub sure: bool,
    /// Probability that exactly the named and suspected members are bad, 0 to 1.
    pub confidence: f64,
    /// Minimum probability at which a member is named; below it a member is only suspected.
    pub named_from: f64,
    /// Number of tests run.
    pub tests: usize,
    /// Maximum number of tests.
    pub most: usize,
    /// Estimated number of further tests; 0 if no further test would help.
    pub more: usize,
}

/// One suspected rank, GPU or node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suspect {
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// PCI bus id of its GPU, as printed.
    pub bus_id: Option<String>,
    /// Host of the rank.
    pub host: Option<String>,
    /// Index of the GPU on its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// Port or NVLink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Serial number or UUID of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Names of the metrics and codes of the findings that identify this member as bad.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Confidence that the member is bad, 0 to 1.
    pub confidence: f64,
}

/// A link that is probably bad between two good members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuspectLink {
    /// First member of the pair.
    pub a: String,
    /// Second member of the pair.
    pub b: String,
    /// Confidence that the link is bad, 0 to 1.
    pub confidence: f64,
}

impl Located {
    /// Result without bad members.
    fn healthy() -> Self {
        Self { healthy: true, ..Self::named(Vec::new()) }
    }

    /// Undecided result.
    fn open(why: impl Into<String>) -> Self {
        Self { undecided: Some(why.into()), ..Self::named(Vec::new()) }
    }

    /// Result with these suspects.
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
    /// Describes the state of the search: the probability of its result, and the number of further tests.
    fn text(&self, located: &Located) -> String {
        let who = if located.suspects.is_empty() && located.suspected.is_empty() {
            "no member is bad"
        } else {
            "exactly these are bad"
        };
        let percent = (self.confidence * 100.0).floor();
        let used_up =
            if self.tests >= self.most { ", and the maximum number of tests is reached" } else { "" };
        match self.more {
            0 => format!("{who}, with a probability of {percent} %; no further group test would help"),
            1 => format!("{who}, with a probability of {percent} %; one more test is needed{used_up}"),
            more => {
                format!(
                    "{who}, with a probability of {percent} %; about {more} more tests are needed{used_up}"
                )
            }
        }
    }
}
