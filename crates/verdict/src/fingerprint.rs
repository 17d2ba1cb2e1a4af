//! Environment of a run: the fields that make two curves comparable, or explain their difference.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fields, sorted by name. Unknown fields are absent.
///
/// | field | |
/// |---|---|
/// | `check`, `collective`, `ranks`, `nodes`, `device`, `program`, `system` | identity: curves with different values are not comparable |
/// | `blueprint`, `driver`, `image`, `nccl`, `nccl_tests`, `network`, `plugin`, `program_version` | setup: may explain a difference |
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Fingerprint(pub BTreeMap<String, String>);

/// Fields whose values must agree for a comparison.
const IDENTITY: [&str; 7] = ["check", "collective", "device", "nodes", "program", "ranks", "system"];

/// A field that is known in two fingerprints with different values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// Name of the fingerprint field that differs.
    pub name: &'a str,
    /// Value in the first fingerprint.
    pub before: &'a str,
    /// Value in the second fingerprint.
    pub after: &'a str,
}

impl Difference<'_> {
    /// Whether the curves are not comparable because of this field.
    pub fn is_identity(&self) -> bool {
        IDENTITY.contains(&self.name)
    }
}

impl std::fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {} and was {}", self.name, self.after, self.before)
    }
}

impl Fingerprint {
    /// Value of a field; `None` if unknown.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Fields whose values differ between the two fingerprints. A field that only one of them contains is ignored.
    pub fn differences<'a>(&'a self, after: &'a Self) -> impl Iterator<Item = Difference<'a>> {
        self.0.iter().filter_map(|(name, before)| {
            let after = after.get(name).filter(|after| after != before)?;
            Some(Difference { name, before, after })
        })
    }

    /// The identity fields as one text: equal for comparable runs.
    pub fn identity(&self) -> String {
        let fields = IDENTITY.iter().filter_map(|name| Some(format!("{name}={}", self.get(name)?)));
        fields.collect::<Vec<_>>().join(" ")
    }

    /// Adds the fields known only in `other`.
    pub fn fill(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            self.0.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}
