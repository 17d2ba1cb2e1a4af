//! Published and measured values of single devices.

use std::collections::{BTreeMap, BTreeSet};

use model::{measurement::Reading, metric::Metric};

use super::position::SubjectPosition;

/// A value that a healthy device of this kind reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceReference {
    /// Kind of device, such as `H100 SXM`.
    pub device: &'static str,
    /// Name of the metric, such as `gemm.throughput`.
    pub metric: &'static str,
    /// Labels that the metric must have; other labels do not matter.
    pub labels: &'static [(&'static str, &'static str)],
    /// Unit in which a program must print the value.
    pub unit: &'static str,
    /// Value that a healthy device reaches, in `unit`.
    pub value: f64,
    /// Origin: author, place and date.
    pub source: &'static str,
}

const MAMF: &str = "largest achieved rate over all shapes, S. Bekman, Machine Learning Engineering, 2026-11";
const CSCS: &str = "gpu_burn_test.py of CSCS's ReFrame checks, 2026-11";
const OWN_H100: &str = "median of ten runs on two healthy H100 SXM, Burnin, 2026-11";
const OWN_H200: &str = "median of five runs on one healthy H200 SXM, Burnin, 2026-11";
const OWN: &str = "median of three runs on one healthy H100 SXM, Burnin, 2026-11";

/// All references, by metric and kind of device.
pub const REFERENCES: [DeviceReference; 14] = [
    DeviceReference::new("A100 SXM", "gemm.throughput", &[("dtype", "bf16")], "TFLOP/s", 271.0, MAMF),
    DeviceReference::new("A100 SXM", "gpu_burn.throughput", &[], "GFLOP/s", 15_000.0, CSCS),
    DeviceReference::new("H100 SXM", "gemm.throughput", &[("dtype", "bf16")], "TFLOP/s", 794.0, MAMF),
    DeviceReference::new("H100 SXM", "nvbandwidth.device_local_copy", &[], "GB/s", 1_490.0, OWN),
    DeviceReference::new("H100 SXM", "nvbandwidth.host_to_device_memcpy_ce", &[], "GB/s", 55.2, OWN),
    DeviceReference::new("H100 SXM", "nvbandwidth.device_to_host_memcpy_ce", &[], "GB/s", 55.2, OWN),
    DeviceReference::new("H100 SXM", "memory.copy", &[], "GB/s", 2_960.0, OWN_H100),
    DeviceReference::new("H100 SXM", "product.float", &[], "TFLOP/s", 5.39, OWN_H100),
    DeviceReference::new("H200 SXM", "memory.copy", &[], "GB/s", 4_145.0, OWN_H200),
    DeviceReference::new("H200 SXM", "product.float", &[], "TFLOP/s", 5.39, OWN_H200),
    DeviceReference::new("H200 SXM", "gemm.throughput", &[("dtype", "bf16")], "TFLOP/s", 794.0, MAMF),
    DeviceReference::new("B200", "gemm.throughput", &[("dtype", "bf16")], "TFLOP/s", 1_745.0, MAMF),
    DeviceReference::new("B300", "gemm.throughput", &[("dtype", "bf16")], "TFLOP/s", 1_769.0, MAMF),
    DeviceReference::new("MI300X", "gemm.throughput", &[("dtype", "bf16")], "TFLOP/s", 668.0, MAMF),
];

impl DeviceReference {
    const fn new(
        device: &'static str,
        metric: &'static str,
        labels: &'static [(&'static str, &'static str)],
        unit: &'static str,
        value: f64,
        source: &'static str,
    ) -> Self {
        Self { device, metric, labels, unit, value, source }
    }

    /// Whether this reference applies to the metric on this kind of device.
    fn is_of(&self, device: &str, metric: &Metric) -> bool {
        let labeled = |(name, value): &(&str, &str)| metric.labels.get(*name).is_some_and(|it| it == value);
        self.device == device && *metric.name == *self.metric && self.labels.iter().all(labeled)
    }
}

/// Kinds of devices: the words that a device's name contains, and those that it must not contain. Variants of one chip with
/// another memory, board or power limit are other kinds, because they reach other values.
const DEVICES: [(&str, &[&str], &[&str]); 6] = [
    ("A100 SXM", &["A100", "SXM"], &[]),
    // `NVIDIA H100 80GB HBM3` is the printed name of the SXM module; the PCIe cards print `NVIDIA H100 PCIe` and `NVIDIA H100 NVL`.
    ("H100 SXM", &["H100", "HBM3"], &["PCIE", "NVL", "GH200"]),
    ("H200 SXM", &["H200"], &["NVL", "GH200"]),
    ("B200", &["B200"], &["GB200"]),
    ("B300", &["B300"], &["GB300"]),
    ("MI300X", &["MI300X"], &[]),
];

/// The kind of a device by its printed name, such as `NVIDIA H100 80GB HBM3`.
fn kind(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_uppercase();
    // A partition of a GPU (`MIG 1g.10gb`) or a virtual GPU reaches only a part of the speed of the whole device.
    if name.contains("MIG") || name.contains("GRID") {
        return None;
    }
    let has = |word: &&str| name.contains(*word);
    let found = DEVICES.iter().find(|(_, all, none)| all.iter().all(has) && !none.iter().any(has));
    found.map(|(kind, ..)| *kind)
}

/// The devices of a log.
pub(super) struct Devices<'a> {
    names: BTreeSet<&'a str>,
    names_by_position: BTreeMap<SubjectPosition<'a>, &'a str>,
}

impl<'a> Devices<'a> {
    pub(super) fn of(reading: &'a Reading) -> Self {
        let named = reading
            .gpus
            .iter()
            .filter_map(|gpu| Some((SubjectPosition::of(&gpu.subject), gpu.name.as_deref()?)));
        let names_by_position: BTreeMap<_, _> = named.collect();
        Self { names: names_by_position.values().copied().collect(), names_by_position }
    }

    /// Device of a value: from the label `device`, or else from the subject, or else the only device of the log.
    fn name(&self, metric: &'a Metric) -> Option<&'a str> {
        let label = metric.labels.get("device").map(String::as_str);
        let only = self.names.first().filter(|_| self.names.len() == 1);
        label.or_else(|| self.names_by_position.get(&SubjectPosition::of(&metric.subject)).or(only).copied())
    }

    /// The reference for a metric.
    ///
    /// # Errors
    /// Returns an error with the reason if the library has no comparable reference.
    pub(super) fn reference(&self, metric: &'a Metric) -> Result<&'static DeviceReference, String> {
        let Some(name) = self.name(metric) else {
            return Err(match self.names.len() {
                0 => "the log names no device".to_owned(),
                _ => format!("the log names several devices, and not that of {}", metric.subject),
            });
        };
        let Some(kind) = kind(name) else { return Err(format!("no values of `{name}` are known")) };
        let found = REFERENCES.iter().find(|reference| reference.is_of(kind, metric));
        found.ok_or_else(|| {
            let labels: Vec<_> =
                metric.labels.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let labels =
                if labels.is_empty() { String::new() } else { format!(" with {}", labels.join(", ")) };
            format!("no value of {kind} is known for this metric{labels}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_a_chip_are_not_compared_with_its_references() {
        for (name, expected) in [
            ("NVIDIA H100 80GB HBM3", Some("H100 SXM")),
            ("NVIDIA H100 PCIe", None),
            ("NVIDIA H100 NVL", None),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
            ("NVIDIA GH200 480GB", None),
            ("NVIDIA H200", Some("H200 SXM")),
            ("NVIDIA H200 NVL", None),
            ("NVIDIA A100-SXM4-80GB", Some("A100 SXM")),
            ("NVIDIA A100-PCIE-40GB", None),
            ("NVIDIA A100 80GB PCIe", None),
            ("NVIDIA B200", Some("B200")),
            ("NVIDIA GB200", None),
            ("AMD Instinct MI300X", Some("MI300X")),
            ("Tesla T4", None),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn each_reference_is_of_a_known_kind_and_is_unique() {
        for (at, reference) in REFERENCES.iter().enumerate() {
            assert!(DEVICES.iter().any(|(kind, ..)| *kind == reference.device), "{reference:?}");
            assert!(reference.value > 0.0 && !reference.source.is_empty(), "{reference:?}");
            let key = (reference.device, reference.metric, reference.labels);
            assert!(REFERENCES[..at].iter().all(|other| (other.device, other.metric, other.labels) != key));
        }
    }
}
