//! What a run was measured on: the fields that make two curves comparable, or explain why they differ.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judge::Evidence;

/// Fields by name, in the order of names. What is not known is absent.
///
/// | field | |
/// |---|---|
/// | `collective`, `ranks`, `nodes`, `device`, `system` | what is measured: curves that differ in them are not comparable |
/// | `blueprint`, `driver`, `image`, `nccl`, `nccl_tests`, `network`, `plugin` | what it is measured with: may explain a difference |
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Fingerprint(pub BTreeMap<String, String>);

/// Curves of different values are of different things.
const IDENTITY: [&str; 5] = ["collective", "device", "nodes", "ranks", "system"];

/// A field that two fingerprints know and differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value in the first.
    pub before: &'a str,
    /// Its value in the second.
    pub after: &'a str,
}

impl Difference<'_> {
    /// The curves are of different things.
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
    /// Of a run: what its log tells, and what is known besides.
    #[must_use]
    pub fn of(evidence: &Evidence<'_>) -> Self {
        let mut fields = evidence.setup.cloned().unwrap_or_default().0;
        if let [table] = evidence.reading.tables.as_slice() {
            let hosts: BTreeSet<_> = table.devices.iter().map(|device| &device.host).collect();
            let clues = evidence.clues;
            let networks = clues.networks.keys().map(String::as_str).collect::<Vec<_>>().join("+");
            let told = [
                ("collective", table.collective.clone()),
                ("ranks", table.ranks.map(|ranks| ranks.to_string())),
                ("nodes", (!hosts.is_empty()).then(|| hosts.len().to_string())),
                ("device", table.devices.first().and_then(|device| device.name.clone())),
                ("nccl", table.nccl_version.clone()),
                ("nccl_tests", table.nccl_tests_version.clone()),
                ("driver", clues.cuda_driver.as_ref().map(|version| format!("CUDA {version}"))),
                ("plugin", clues.plugin.clone()),
                ("network", (!networks.is_empty()).then_some(networks)),
            ];
            fields.extend(told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        Self(fields)
    }

    /// A field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Fields that both know and differ in. What only one knows tells nothing.
    pub fn differences<'a>(&'a self, after: &'a Self) -> impl Iterator<Item = Difference<'a>> {
        self.0.iter().filter_map(|(name, before)| {
            let after = after.get(name).filter(|after| after != before)?;
            Some(Difference { name, before, after })
        })
    }

    /// The fields that say what is measured, as one text: equal for runs that are comparable.
    pub fn identity(&self) -> String {
        let fields = IDENTITY.iter().filter_map(|name| Some(format!("{name}={}", self.get(name)?)));
        fields.collect::<Vec<_>>().join(" ")
    }

    /// Learns what only the other knows.
    pub(crate) fn fill(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            self.0.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}
