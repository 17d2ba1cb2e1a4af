//! Selects offered clusters, and limits the settings that an offer may choose.

use std::collections::BTreeMap;

use glob::{MatchOptions, Pattern};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Filter for offered clusters that start a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnCluster {
    /// Source of the offer: the event's `source`, exactly.
    pub source: String,
    /// Kind of the cluster.
    pub system: OfferedKind,
    /// Cluster name, as a pattern: `*` matches any text.
    #[serde(default = "any")]
    pub name: String,
    /// Settings that an offer may choose in addition to size and queue, each with patterns for its values:
    /// `shared_folder`, `profile`, `programs`, `namespace`, `image`, ... For `environment` and `annotations`
    /// the patterns apply to names. Values equal to the workflow's own cluster need no pattern.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allow: BTreeMap<String, Vec<String>>,
}

/// A kind of cluster that can be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OfferedKind {
    /// An existing Slurm cluster.
    Slurm,
    /// An existing Kubernetes cluster.
    Kubernetes,
}

/// Settings that any offer may choose: size, placement and queueing of the job. All others determine
/// programs, permissions or file locations.
const FREE_SLURM: [&str; 13] = [
    "nodes",
    "ranks_per_node",
    "partition",
    "account",
    "qos",
    "reservation",
    "constraint",
    "node_list",
    "gpus_per_node",
    "memory_mib",
    "exclusive",
    "mpi",
    "nccl_debug",
];
const FREE_KUBERNETES: [&str; 16] = [
    "queue",
    "priority_class",
    "topology",
    "nodes",
    "ranks_per_node",
    "gpus_per_node",
    "cpu_millis",
    "memory_mib",
    "node_selector",
    "only_nodes",
    "tolerate",
    "launch",
    "rank_port",
    "nccl_debug",
    "autoscaled",
    "begin_within",
];
/// Settings that are maps: permitted by name, with any value.
const MAPS: [&str; 2] = ["environment", "annotations"];

impl std::fmt::Display for OfferedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Slurm => "slurm",
            Self::Kubernetes => "kubernetes",
        })
    }
}

impl OfferedKind {
    fn is_free(self, field: &str) -> bool {
        match self {
            Self::Slurm => FREE_SLURM.contains(&field),
            Self::Kubernetes => FREE_KUBERNETES.contains(&field),
        }
    }
}

/// Properties of an offered cluster that select the workflows it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedCluster<'a> {
    /// The event's `source`.
    pub source: &'a str,
    /// Kind of cluster, as spelled in the offer.
    pub system: &'a str,
    pub name: &'a str,
}

fn any() -> String {
    "*".to_owned()
}

impl OnCluster {
    /// Whether the offer starts a run.
    pub fn wants(&self, offer: OfferedCluster<'_>) -> bool {
        let named = Pattern::new(&self.name).is_ok_and(|pattern| pattern.matches(offer.name));
        self.source == offer.source && self.system.to_string() == offer.system && named
    }

    /// Settings of an offer that this workflow does not permit, each with the value and the permitted
    /// patterns. `offered` are the cluster's settings as JSON, `own` those of the workflow's own cluster if
    /// it has the same kind, and `usual` the defaults.
    pub fn refuses(&self, offered: &Value, own: Option<&Value>, usual: &Value) -> Vec<(String, String)> {
        let mut refused = Vec::new();
        for (field, value) in offered.as_object().into_iter().flatten() {
            let is_own = own.is_some_and(|own| own.get(field) == Some(value));
            if self.system.is_free(field) || is_own || usual.get(field) == Some(value) {
                continue;
            }
            let own = own.and_then(|own| own.get(field));
            match value.as_object().filter(|_| MAPS.contains(&field.as_str())) {
                None => {
                    let text = text(value);
                    if !self.allows(field, &text) {
                        refused.push(self.refusal(field, &text, own));
                    }
                }
                Some(map) => {
                    for (name, value) in map {
                        let is_own = own.is_some_and(|own| own.get(name) == Some(value));
                        if !is_own && !self.allows(field, name) {
                            refused.push(self.refusal(&format!("{field}.{name}"), &text(value), None));
                        }
                    }
                }
            }
        }
        refused
    }

    fn allows(&self, field: &str, text: &str) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let matches =
            |pattern: &String| Pattern::new(pattern).is_ok_and(|pattern| pattern.matches_with(text, options));
        // Patterns match the literal path: `..` would leave the permitted folder.
        !text.split('/').any(|part| part == "..")
            && self.allow.get(field).is_some_and(|all| all.iter().any(matches))
    }

    fn refusal(&self, field: &str, found: &str, own: Option<&Value>) -> (String, String) {
        let setting = field.split('.').next().unwrap_or_default();
        let mut allowed: Vec<_> = own.map(text).into_iter().collect();
        allowed.extend(self.allow.get(setting).into_iter().flatten().cloned());
        let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        let found: String = found.chars().take(200).collect();
        let why = format!(
            "the workflow does not allow `{found}`; it allows: {allowed}; name more in its `on.cluster` under \
             `allow.{setting}`"
        );
        (field.to_owned(), why)
    }

    pub(crate) fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        if self.source.is_empty() {
            problems.push(("source".to_owned(), "is empty; write the source of the offers".to_owned()));
        }
        let mut pattern = |field: String, text: &str| {
            if let Err(error) = Pattern::new(text) {
                problems.push((field, format!("`{text}` is not a pattern: {}", error.msg)));
            }
        };
        pattern("name".to_owned(), &self.name);
        for (field, patterns) in &self.allow {
            for (at, text) in patterns.iter().enumerate() {
                pattern(format!("allow.{field}[{at}]"), text);
            }
        }
        let free = self.allow.keys().filter(|field| self.system.is_free(field));
        problems.extend(free.map(|field| {
            (
                format!("allow.{field}"),
                "needs no permission, because any offer may choose this setting; remove it".to_owned(),
            )
        }));
        problems
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
