//! Compares versions and settings of the nodes and GPUs of a cluster with each other, with minimum versions, and with the requirements of
//! direct transfers between GPUs and network cards.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeEvidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::minimum::{Component, MINIMUMS_DATE};

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
    /// Nodes on which nvidia-smi listed no GPU. Their own versions and settings are compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_gpus: Vec<String>,
    /// Nodes without versions and settings, as in logs of versions of Burnin that did not record them. Their GPUs are compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_settings: Vec<String>,
    /// Versions below a minimum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below_minimum: Vec<BelowMinimum>,
    /// Invalid versions, which are not compared with a minimum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable_versions: Vec<UnreadableVersion>,
    /// Settings that slow down or prevent direct transfers between GPUs and network cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recommendations: Vec<Recommendation>,
    /// Year and month of the list of minimum versions; absent in documents without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimums: Option<String>,
}

/// A version that is below a minimum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BelowMinimum {
    /// Component, such as `NVIDIA driver`.
    pub component: String,
    /// The version in use.
    pub version: String,
    /// Version to install.
    pub minimum: String,
    /// Consequence of the version.
    pub reason: String,
    /// Date of the source, such as `2026-09-30`.
    pub date: String,
    /// Page that states the minimum.
    pub source: String,
    /// Nodes with this version (`n1`), or the check or log that printed it.
    pub subjects: Vec<String>,
}

/// An invalid version in the evidence or in a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadableVersion {
    /// Component, such as `NVIDIA driver`.
    pub component: String,
    /// Invalid version text, as printed.
    pub text: String,
    /// Nodes with this text, or the check or log that printed it.
    pub subjects: Vec<String>,
}

/// A setting that slows down or prevents direct transfers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// Name of the setting, such as `acs`.
    pub setting: String,
    /// Value of the setting, as printed.
    pub value: String,
    /// Recommended change, with its reason.
    pub text: String,
    /// Page that recommends the change.
    pub source: String,
    /// Nodes with this value.
    pub subjects: Vec<String>,
}

/// A version or setting of all nodes or GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Name, such as `kernel` or `gpu vbios_version`.
    pub name: String,
    /// Values of the setting, most frequent first.
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
    /// Whether the value differs between nodes or GPUs.
    #[must_use]
    pub const fn differs(&self) -> bool {
        self.values.len() > 1
    }
}

impl Audit {
    /// Compares the evidence of the nodes, and the version of NCCL that each check or log has printed. If a node ran several jobs,
    /// only the evidence of the first one is used.
    #[must_use]
    pub fn of(evidence: &[NodeEvidence], nccl: &[(String, String)]) -> Self {
        let mut nodes: BTreeMap<&str, &NodeEvidence> = BTreeMap::new();
        for node in evidence {
            nodes.entry(&node.node).or_insert(node);
        }
        let with_settings = nodes.values().filter(|node| !node.settings.is_empty());
        let of_nodes = with_settings.map(|node| (node.node.clone(), &node.settings)).collect();
        let named = |lacks: fn(&NodeEvidence) -> bool| -> Vec<String> {
            nodes.values().filter(|node| lacks(node)).map(|node| node.node.clone()).collect()
        };
        let gpus = nodes.values().flat_map(|node| node.gpus.iter().map(move |gpu| (node, gpu)));
        let of_gpus: Vec<_> = gpus
            .map(|(node, gpu)| {
                let index = gpu.subject.gpu.map_or_else(|| "?".to_owned(), |gpu| gpu.to_string());
                (format!("{} gpu {index}", node.node), &gpu.settings)
            })
            .collect();
        let gpus = of_gpus.len() as u64;
        let mut settings = compared("", of_nodes);
        let mut audit = Self {
            schema: "burnin/audit/v1".to_owned(),
            nodes: nodes.len() as u64,
            gpus,
            settings: Vec::new(),
            missing: Vec::new(),
            without_gpus: named(|node| node.gpus.is_empty()),
            without_settings: named(|node| node.settings.is_empty()),
            below_minimum: Vec::new(),
            unreadable_versions: Vec::new(),
            recommendations: recommendations(nodes.values().copied()),
            minimums: Some(MINIMUMS_DATE.to_owned()),
        };
        for setting in &settings {
            let Some(component) = Component::of_setting(&setting.name) else { continue };
            let known = setting.values.iter().filter(|value| value.value.as_deref() != Some("unreadable"));
            for value in known {
                audit.compare(component, value.value.as_deref(), &value.subjects);
            }
        }
        for (subject, version) in nccl {
            audit.compare(Component::Nccl, Some(version), std::slice::from_ref(subject));
        }
        settings.extend(compared("gpu ", of_gpus));
        settings.sort_by_key(|setting| !setting.differs());
        audit.settings = settings;
        for node in nodes.values() {
            let unreadable = UNREADABLE
                .iter()
                .filter(|(name, _)| node.settings.get(*name).is_some_and(|value| value == "unreadable"));
            let parts = node.missing.iter().cloned().chain(unreadable.map(|(_, part)| (*part).to_owned()));
            audit.missing.extend(parts.map(|part| format!("{}: {part}", node.node)));
        }
        audit
    }

    /// Whether a node has GPUs: listed by nvidia-smi, or the driver is loaded.
    #[must_use]
    pub fn has_gpus(&self) -> bool {
        self.gpus > 0 || self.settings.iter().any(|setting| setting.name == "nvidia")
    }

    /// Whether the audit is incomplete: fewer than two nodes and fewer than two GPUs, a node without settings, or a node that lists no GPU
    /// in a cluster with GPUs. A cluster without GPUs is compared completely.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        (self.nodes < 2 && self.gpus < 2)
            || !self.without_settings.is_empty()
            || (self.has_gpus() && !self.without_gpus.is_empty())
    }

    /// Whether any setting differs between nodes or GPUs.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.settings.iter().any(Setting::differs)
    }

    /// Compares a version with the minimums. Several devices of a node, and several nodes, may have the same version.
    fn compare(&mut self, component: Component, version: Option<&str>, subjects: &[String]) {
        let Some(version) = version else { return };
        let component_name = component.name().to_owned();
        let Some(below) = component.below(version) else {
            let known = self.unreadable_versions.iter_mut();
            match known.into_iter().find(|it| it.component == component_name && it.text == version) {
                Some(known) => add(&mut known.subjects, subjects),
                None => self.unreadable_versions.push(UnreadableVersion {
                    component: component_name,
                    text: version.to_owned(),
                    subjects: subjects.to_vec(),
                }),
            }
            return;
        };
        for it in below {
            let is_known = |known: &&mut BelowMinimum| {
                known.component == component_name && known.version == version && known.reason == it.reason
            };
            match self.below_minimum.iter_mut().find(is_known) {
                Some(known) => add(&mut known.subjects, subjects),
                None => self.below_minimum.push(BelowMinimum {
                    component: component_name.clone(),
                    version: version.to_owned(),
                    minimum: it.minimum.to_owned(),
                    reason: it.reason.to_owned(),
                    date: it.date.to_owned(),
                    source: it.source.to_owned(),
                    subjects: subjects.to_vec(),
                }),
            }
        }
    }
}

/// Settings that the probe may fail to read, each with its description and the reason.
const UNREADABLE: [(&str, &str); 3] = [
    ("nccl", "NCCL: neither the name nor the text of libnccl.so.2 states a version"),
    ("acs", "access control services of PCIe bridges: only root can read their configuration space"),
    ("dma_buf/rdma", "DMA-BUF of RDMA: /proc/kallsyms cannot be read"),
];

const NCCL_GUIDE: &str = "https://github.com/NVIDIA/nccl/blob/master/docs/userguide/source/troubleshooting/gpu_troubleshooting.rst";
const GPUDIRECT_RDMA: &str = "https://docs.nvidia.com/cuda/gpudirect-rdma/";

/// Recommendations for all nodes. Nodes with the same value of a setting share one recommendation.
fn recommendations<'a>(nodes: impl Iterator<Item = &'a NodeEvidence>) -> Vec<Recommendation> {
    let mut all: Vec<Recommendation> = Vec::new();
    for node in nodes {
        let setting = |name: &str| node.settings.get(name).map(String::as_str);
        let mut add_for = |setting: &str, value: &str, text: &str, source: &str| {
            let known = all.iter_mut().find(|it| it.setting == setting && it.value == value);
            let subjects = [node.node.clone()];
            match known {
                Some(known) => add(&mut known.subjects, &subjects),
                None => all.push(Recommendation {
                    setting: setting.to_owned(),
                    value: value.to_owned(),
                    text: text.to_owned(),
                    source: source.to_owned(),
                    subjects: subjects.to_vec(),
                }),
            }
        };
        if let Some(bridges) = setting("acs").filter(|value| value.contains('=')) {
            let text = "access control services are on at bridges above GPUs or network cards: direct transfers may go through the root \
                        complex, which is slower and may hang. Turn them off on hosts that run no virtual machines";
            add_for("acs", bridges, text, NCCL_GUIDE);
        }
        // The types `DMA` and `DMA-FQ` translate addresses; `identity` does not.
        if let Some(types) = setting("iommu_type").filter(|value| value.contains("DMA")) {
            let text = "the IOMMU translates the addresses of GPUs or network cards, and GPUDirect RDMA needs addresses that all devices share. \
                        Start the kernel with iommu=pt, or turn the IOMMU off";
            add_for("iommu_type", types, text, GPUDIRECT_RDMA);
        }
        if let (Some(module), Some(rdma)) = (setting("dma_buf/nvidia"), setting("dma_buf/rdma"))
            && (module == "closed" || rdma == "no")
            && setting("nvidia_peermem").is_none()
        {
            let value = format!("GPU driver {module}, RDMA {rdma}");
            let text = "neither DMA-BUF nor nvidia_peermem is available: data between GPUs and network cards goes through host memory. Use the \
                        open kernel module of the driver with a kernel whose RDMA imports DMA-BUF, or load nvidia_peermem";
            add_for("dma_buf", &value, text, NCCL_GUIDE);
        }
    }
    all
}

/// Adds the subjects that `named` does not contain.
fn add(named: &mut Vec<String>, subjects: &[String]) {
    for subject in subjects {
        if !named.contains(subject) {
            named.push(subject.clone());
        }
    }
}

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
    fn the_values_of_the_majority_precede_those_of_the_differing_node_and_gpu() {
        let mut nodes: Vec<_> = (0..4).map(|at| node(&format!("n{at}"), "6.8", ["96", "96"])).collect();
        assert!(!Audit::of(&nodes, &[]).differs());
        nodes[2] = node("n2", "6.5", ["96", "95"]);
        nodes[3].settings.clear();
        let audit = Audit::of(&nodes, &[]);
        assert_eq!((audit.nodes, audit.gpus), (4, 8));
        assert_eq!(audit.without_settings, ["n3"]);
        let kernel = &audit.settings[0];
        let values: Vec<_> =
            kernel.values.iter().map(|it| (it.value.as_deref(), it.subjects.join(","))).collect();
        assert_eq!(kernel.name, "kernel");
        assert_eq!(values, [(Some("6.8"), "n0,n1".to_owned()), (Some("6.5"), "n2".to_owned())]);
        let vbios = &audit.settings[1];
        assert_eq!(
            (vbios.name.as_str(), vbios.values[1].subjects.as_slice()),
            ("gpu vbios_version", &["n2 gpu 1".to_owned()][..])
        );
    }

    fn set(node: &mut NodeEvidence, name: &str, value: &str) {
        node.settings.insert(name.to_owned(), value.to_owned());
    }

    #[test]
    fn versions_below_a_minimum_are_named_with_their_nodes() {
        let mut nodes: Vec<_> = (0..3).map(|at| node(&format!("n{at}"), "6.8", ["96", "96"])).collect();
        for (at, node) in nodes.iter_mut().enumerate() {
            set(node, "nvidia", if at == 2 { "580.159.04" } else { "580.178.04" });
            set(node, "infiniband/mlx5_0/fw_ver", "28.43.2026");
            set(node, "infiniband/mlx5_1/fw_ver", "28.43.2026");
        }
        let below = |audit: Audit| -> Vec<_> {
            let short = |it: BelowMinimum| (it.component, it.version, it.minimum, it.subjects.join(" "));
            audit.below_minimum.into_iter().map(short).collect()
        };
        let entry = |component: &str, version: &str, minimum: &str, subjects: &str| {
            (component.to_owned(), version.to_owned(), minimum.to_owned(), subjects.to_owned())
        };
        let firmware = entry("ConnectX and BlueField firmware", "28.43.2026", "43.8002", "n0 n1 n2");
        let driver = entry("NVIDIA driver", "580.159.04", "580.178.04", "n2");
        let nccl = [("all-reduce".to_owned(), "2.28.7".to_owned())];
        let hang = entry("NCCL", "2.28.7", "2.28.9", "all-reduce");
        assert_eq!(below(Audit::of(&nodes, &nccl)), [firmware.clone(), driver, hang]);
        set(&mut nodes[2], "nvidia", "580.178.04");
        assert_eq!(below(Audit::of(&nodes, &[])), [firmware]);
    }

    #[test]
    fn the_nccl_of_each_node_is_compared_with_the_others_and_with_the_minimum() {
        let mut nodes: Vec<_> = (0..3).map(|at| node(&format!("n{at}"), "6.8", ["96", "96"])).collect();
        for (node, version) in nodes.iter_mut().zip(["2.28.9", "2.27.2", "unreadable"]) {
            set(node, "nccl", version);
        }
        let audit = Audit::of(&nodes, &[]);
        assert_eq!((audit.settings[0].name.as_str(), audit.settings[0].differs()), ("nccl", true));
        let below: Vec<_> =
            audit.below_minimum.iter().map(|it| (it.minimum.as_str(), &it.subjects[..])).collect();
        assert_eq!(below, [("2.27.3", &["n1".to_owned()][..])]);
        assert_eq!(audit.unreadable_versions, []);
        assert_eq!(
            audit.missing,
            ["n2: NCCL: neither the name nor the text of libnccl.so.2 states a version"]
        );
    }

    #[test]
    fn an_invalid_version_is_reported() {
        let mut nodes = [node("n0", "6.8", ["96", "96"])];
        set(&mut nodes[0], "nvidia", "TempVersion");
        let audit = Audit::of(&nodes, &[]);
        assert_eq!(audit.below_minimum, []);
        let unreadable = &audit.unreadable_versions[0];
        assert_eq!(
            (unreadable.text.as_str(), unreadable.subjects.as_slice()),
            ("TempVersion", &["n0".to_owned()][..])
        );
    }

    /// Settings as the probe prints them, and the setting of each recommendation.
    fn recommended(settings: &[(&str, &str)]) -> Vec<String> {
        let mut nodes = [node("n0", "6.8", ["96", "96"]), node("n1", "6.8", ["96", "96"])];
        for (name, value) in settings {
            set(&mut nodes[1], name, value);
        }
        let audit = Audit::of(&nodes, &[]);
        assert!(audit.recommendations.iter().all(|it| it.subjects == ["n1"]));
        audit.recommendations.into_iter().map(|it| it.setting).collect()
    }

    #[test]
    fn settings_that_hinder_direct_transfers_result_in_recommendations() {
        let none: [&str; 0] = [];
        assert_eq!(recommended(&[("acs", "0000:17:00.0=001d")]), ["acs"]);
        for value in ["off", "no bridge", "unreadable"] {
            assert_eq!(recommended(&[("acs", value)]), none, "{value}");
        }
        assert_eq!(recommended(&[("iommu_type", "DMA-FQ identity")]), ["iommu_type"]);
        assert_eq!(recommended(&[("iommu_type", "identity")]), none);
        let buffers = |module, rdma| [("dma_buf/nvidia", module), ("dma_buf/rdma", rdma)];
        assert_eq!(recommended(&buffers("open", "yes")), none);
        assert_eq!(recommended(&buffers("open", "unreadable")), none);
        assert_eq!(recommended(&buffers("closed", "yes")), ["dma_buf"]);
        assert_eq!(recommended(&buffers("open", "no")), ["dma_buf"]);
        let [module, rdma] = buffers("closed", "yes");
        assert_eq!(recommended(&[module, rdma, ("nvidia_peermem", "580.159.04")]), none);
    }

    #[test]
    fn a_setting_that_could_not_be_read_is_reported_as_missing() {
        let mut nodes = [node("n0", "6.8", ["96", "96"])];
        set(&mut nodes[0], "acs", "unreadable");
        let missing = Audit::of(&nodes, &[]).missing;
        assert_eq!(missing.len(), 1);
        assert!(missing[0].starts_with("n0: access control services"), "{missing:?}");
    }

    #[test]
    fn an_audit_is_incomplete_only_if_a_node_lacks_a_part_that_others_have() {
        let all: Vec<_> = (0..2).map(|at| node(&format!("n{at}"), "6.8", ["96", "96"])).collect();
        let mut some = all.clone();
        some[1].gpus.clear();
        let mut none = some.clone();
        none[0].gpus.clear();
        let mut old = all.clone();
        old.iter_mut().for_each(|node| node.settings.clear());
        let audits = [&all, &some, &none, &old].map(|nodes| Audit::of(nodes, &[]));
        assert_eq!(audits.each_ref().map(Audit::is_incomplete), [false, true, false, true]);
        assert_eq!(audits[1].without_gpus, ["n1"]);
        assert_eq!(audits[3].without_settings, ["n0", "n1"]);
        assert!(audits.iter().all(|audit| !audit.differs()));
        assert!(Audit::of(&none[..1], &[]).is_incomplete(), "a single node is not compared");
        set(&mut none[0], "nvidia", "580.178.04");
        set(&mut none[1], "nvidia", "580.178.04");
        assert!(Audit::of(&none, &[]).is_incomplete(), "the driver is loaded, and nvidia-smi lists no GPU");
    }

    #[test]
    fn a_document_without_minimums_is_read() {
        let old = r#"{"schema": "burnin/audit/v1", "nodes": 1, "gpus": 0, "settings": [], "missing": []}"#;
        let audit: Audit = serde_json::from_str(old).unwrap();
        assert_eq!((audit.nodes, audit.minimums), (1, None));
    }

    #[test]
    fn a_setting_that_differs_precedes_those_that_are_equal() {
        let nodes = [node("n0", "6.8", ["96", "96"]), node("n1", "6.8", ["96", "95"])];
        let audit = Audit::of(&nodes, &[]);
        let names: Vec<_> = audit.settings.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names, ["gpu vbios_version", "kernel"]);
    }
}
