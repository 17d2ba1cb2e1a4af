//! Compares versions and settings of the nodes and GPUs of a cluster with each other.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeEvidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Versions and settings of nodes and GPUs. This is the document `burnin/audit/v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// `burnin/audit/v1`.
    pub schema: String,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of GPUs.
    pub gpus: u64,
    /// Settings whose values differ, then those that are equal everywhere; each group by name.
    pub settings: Vec<Setting>,
    /// Parts of the evidence that are missing, with node and reason.
    pub missing: Vec<String>,
}

/// A version or setting of all nodes or GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Name, such as `kernel` or `gpu vbios_version`.
    pub name: String,
    /// The values, the most frequent one first.
    pub values: Vec<SettingValue>,
}

/// A value, and the nodes or GPUs with this value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingValue {
    /// The value; null if the setting is absent.
    pub value: Option<String>,
    /// Nodes (`n1`) or GPUs (`n1 gpu 3`).
    pub subjects: Vec<String>,
}

impl Setting {
    /// Whether not all nodes or GPUs have the same value.
    #[must_use]
    pub const fn differs(&self) -> bool {
        self.values.len() > 1
    }
}

impl Audit {
    /// Compares the evidence of the nodes. Of several jobs on a node the first counts.
    #[must_use]
    pub fn of(evidence: &[NodeEvidence]) -> Self {
        let mut nodes: BTreeMap<&str, &NodeEvidence> = BTreeMap::new();
        for node in evidence {
            nodes.entry(&node.node).or_insert(node);
        }
        let of_nodes = nodes.values().map(|node| (node.node.clone(), &node.settings)).collect();
        let gpus = nodes.values().flat_map(|node| node.gpus.iter().map(move |gpu| (node, gpu)));
        let of_gpus: Vec<_> = gpus
            .map(|(node, gpu)| {
                let index = gpu.subject.gpu.map_or_else(|| "?".to_owned(), |gpu| gpu.to_string());
                (format!("{} gpu {index}", node.node), &gpu.settings)
            })
            .collect();
        let gpus = of_gpus.len() as u64;
        let mut settings = compared("", of_nodes);
        settings.extend(compared("gpu ", of_gpus));
        settings.sort_by_key(|setting| !setting.differs());
        let missing = nodes
            .values()
            .flat_map(|node| node.missing.iter().map(move |part| format!("{}: {part}", node.node)));
        Self {
            schema: "burnin/audit/v1".to_owned(),
            nodes: nodes.len() as u64,
            gpus,
            settings,
            missing: missing.collect(),
        }
    }

    /// Whether some setting differs.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.settings.iter().any(Setting::differs)
    }
}

/// Settings of all subjects, by name.
fn compared(prefix: &str, subjects: Vec<(String, &BTreeMap<String, String>)>) -> Vec<Setting> {
    let names: BTreeSet<_> = subjects.iter().flat_map(|(_, settings)| settings.keys()).collect();
    let setting = |name: &String| {
        let mut by_value: BTreeMap<Option<&String>, Vec<String>> = BTreeMap::new();
        for (subject, settings) in &subjects {
            by_value.entry(settings.get(name)).or_default().push(subject.clone());
        }
        let mut values: Vec<_> = by_value
            .into_iter()
            .map(|(value, subjects)| SettingValue { value: value.cloned(), subjects })
            .collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.subjects.len()));
        Setting { name: format!("{prefix}{name}"), values }
    };
    names.into_iter().map(setting).collect()
}

#[cfg(test)]
mod tests {
    use model::{GpuEvidence, metric::Subject};

    use super::*;

    fn node(name: &str, kernel: &str, vbios: [&str; 2]) -> NodeEvidence {
        let gpu = |(index, vbios): (u32, &str)| GpuEvidence {
            subject: Subject::gpu(index),
            settings: BTreeMap::from([("vbios_version".to_owned(), vbios.to_owned())]),
            during: None,
        };
        NodeEvidence {
            node: name.to_owned(),
            settings: BTreeMap::from([("kernel".to_owned(), kernel.to_owned())]),
            gpus: (0..).zip(vbios).map(gpu).collect(),
            ..NodeEvidence::default()
        }
    }

    #[test]
    fn the_node_and_the_gpu_that_differ_are_named_after_the_majority() {
        let mut nodes: Vec<_> = (0..4).map(|at| node(&format!("n{at}"), "6.8", ["96", "96"])).collect();
        assert!(!Audit::of(&nodes).differs());
        nodes[2] = node("n2", "6.5", ["96", "95"]);
        nodes[3].settings.clear();
        let audit = Audit::of(&nodes);
        assert_eq!((audit.nodes, audit.gpus), (4, 8));
        let kernel = &audit.settings[0];
        let values: Vec<_> =
            kernel.values.iter().map(|it| (it.value.as_deref(), it.subjects.join(","))).collect();
        assert_eq!(kernel.name, "kernel");
        assert_eq!(values[0], (Some("6.8"), "n0,n1".to_owned()));
        assert!(
            values.contains(&(Some("6.5"), "n2".to_owned())) && values.contains(&(None, "n3".to_owned()))
        );
        let vbios = &audit.settings[1];
        assert_eq!(
            (vbios.name.as_str(), vbios.values[1].subjects.as_slice()),
            ("gpu vbios_version", &["n2 gpu 1".to_owned()][..])
        );
    }

    #[test]
    fn a_setting_that_differs_precedes_those_that_are_equal() {
        let nodes = [node("n0", "6.8", ["96", "96"]), node("n1", "6.8", ["96", "95"])];
        let audit = Audit::of(&nodes);
        let names: Vec<_> = audit.settings.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names, ["gpu vbios_version", "kernel"]);
    }
}
