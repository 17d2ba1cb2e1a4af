//! Clusters that others offer.

use glob::Pattern;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which offered clusters start a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnCluster {
    /// Who offers it: the event's `source`, exactly.
    pub source: String,
    /// What kind of cluster it has to be.
    pub system: Kind,
    /// The cluster's name, as a pattern: `*` is anything.
    #[serde(default = "any")]
    pub name: String,
}

/// A kind of cluster that can be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A Slurm that is there.
    Slurm,
    /// A Kubernetes that is there.
    Kubernetes,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Slurm => "slurm",
            Self::Kubernetes => "kubernetes",
        })
    }
}

/// What is known of an offered cluster before anything else of it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// The event's `source`.
    pub source: &'a str,
    /// The kind of cluster, as the offer spells it.
    pub system: &'a str,
    /// The cluster's name.
    pub name: &'a str,
}

fn any() -> String {
    "*".to_owned()
}

impl OnCluster {
    /// The offer starts a run.
    pub fn wants(&self, offer: Offer<'_>) -> bool {
        let named = Pattern::new(&self.name).is_ok_and(|pattern| pattern.matches(offer.name));
        self.source == offer.source && self.system.to_string() == offer.system && named
    }

    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if self.source.is_empty() {
            problems.push(("source", "must not be empty".to_owned()));
        }
        if let Err(error) = Pattern::new(&self.name) {
            problems.push(("name", format!("`{}` is not a pattern: {}", self.name, error.msg)));
        }
        problems
    }
}
