//! The devices of a run: serial numbers, and the values that were measured on each of them.

use std::collections::{BTreeMap, BTreeSet};

use model::metric::{Better, Metric, Subject};

use crate::{
    ReportInput,
    markdown::escape::cell,
    metrics::{name_with_labels, number},
    text,
};

use super::{name_of, readings};

/// Maximum number of values listed for a device.
const VALUES: usize = 24;
/// Maximum number of values listed for all devices. With more devices each has fewer values, but at least one.
const ALL_VALUES: usize = 20_000;

/// A GPU by node and index.
type GpuId = (String, Option<u32>);

/// Known properties of one device.
#[derive(Default)]
struct HandoverDevice {
    name: BTreeSet<String>,
    serial: BTreeSet<String>,
    bus: BTreeSet<String>,
    checks: BTreeSet<String>,
    /// Values by metric (name and labels) and unit.
    values: BTreeMap<(String, String), Vec<f64>>,
}

/// All devices that the logs or the hardware evidence of the nodes name.
pub(super) struct HandoverDevices(BTreeMap<GpuId, HandoverDevice>);

impl HandoverDevices {
    pub(super) fn of(inputs: &[ReportInput<'_>]) -> Self {
        let mut all = Self(BTreeMap::new());
        // Read the evidence before the logs: the serial number, bus id and index of each GPU identify the devices of
        // the logs.
        for reading in inputs.iter().flat_map(|input| readings(input)) {
            for gpu in reading.evidence.iter().flat_map(|node| &node.gpus) {
                all.add(&gpu.subject);
            }
        }
        for input in inputs {
            let check = name_of(input);
            for reading in readings(input) {
                for gpu in &reading.gpus {
                    if let Some(device) = all.add(&gpu.subject) {
                        device.name.extend(gpu.name.clone());
                        device.checks.insert(check.clone());
                    }
                }
                for metric in &reading.metrics {
                    all.measured(metric, &check);
                }
                for device in reading.tables.iter().flat_map(|table| &table.devices) {
                    let known = device.bus_id.as_deref().and_then(|bus| all.at_bus(&device.host, bus));
                    let id = known.unwrap_or_else(|| (device.host.clone(), device.device));
                    let one = all.0.entry(id).or_default();
                    one.name.extend(device.name.clone());
                    if !one.bus.iter().any(|bus| is_same_bus(bus, device.bus_id.as_deref())) {
                        one.bus.extend(device.bus_id.clone());
                    }
                    one.checks.insert(check.clone());
                }
            }
        }
        all
    }

    fn add(&mut self, subject: &Subject) -> Option<&mut HandoverDevice> {
        let gpu = subject.gpu?;
        let node = subject.node.as_deref().unwrap_or_default().to_owned();
        let device = self.0.entry((node, Some(gpu))).or_default();
        device.serial.extend(subject.serial.as_deref().map(str::to_owned));
        if !device.bus.iter().any(|bus| is_same_bus(bus, subject.bus_id.as_deref())) {
            device.bus.extend(subject.bus_id.as_deref().map(str::to_owned));
        }
        Some(device)
    }

    fn measured(&mut self, metric: &Metric, check: &str) {
        let Some(device) = self.add(&metric.subject) else { return };
        device.checks.insert(check.to_owned());
        let is_own = metric.subject.peer.is_none() && metric.subject.link.is_none();
        if let Some(value) = metric.value.filter(|_| is_own && metric.better != Better::None) {
            let key = (name_with_labels(&metric.name, &metric.labels), metric.unit.to_string());
            device.values.entry(key).or_default().push(value);
        }
    }

    /// The device at this bus id of the node. A program may count the GPUs in a different order than the driver.
    fn at_bus(&self, node: &str, bus: &str) -> Option<GpuId> {
        let of_node = self.0.range((node.to_owned(), None)..).take_while(|((of, _), _)| of == node);
        let mut found = of_node.filter(|(_, device)| device.bus.iter().any(|it| is_same_bus(it, Some(bus))));
        found.next().map(|(id, _)| id.clone())
    }

    /// Devices that no check measured.
    pub(super) fn unmeasured(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter(|(_, device)| device.checks.is_empty()).map(|((node, gpu), device)| {
            let gpu = gpu.map_or_else(String::new, |gpu| format!(", GPU {gpu}"));
            let serial: Vec<_> = device.serial.iter().map(String::as_str).collect();
            let serial =
                if serial.is_empty() { String::new() } else { format!(", serial {}", serial.join(", ")) };
            format!(
                "{}: no check measured this device",
                text::single_line(&format!("node {node}{gpu}{serial}"))
            )
        })
    }

    pub(super) fn write(&self, out: &mut String) {
        *out += "\n## Devices\n\n";
        if self.0.is_empty() {
            *out += "No log names a device.\n";
            return;
        }
        *out += "| node | GPU | device | serial number or UUID | bus | measured by | measured values |\n|---|---|---|---|---|---|---|\n";
        let joined = |set: &BTreeSet<String>| {
            cell(&text::single_line(&set.iter().cloned().collect::<Vec<_>>().join(", ")))
        };
        let most = (ALL_VALUES / self.0.len()).clamp(1, VALUES);
        for ((node, gpu), device) in &self.0 {
            *out += &format!(
                "| {} | {} | {} | {} | {} | {} | {} |\n",
                cell(&text::single_line(node)),
                gpu.map_or_else(String::new, |gpu| gpu.to_string()),
                joined(&device.name),
                if device.serial.is_empty() { "unknown".to_owned() } else { joined(&device.serial) },
                joined(&device.bus),
                joined(&device.checks),
                values(device, most),
            );
        }
    }
}

/// The values of a device as text, with the median of repeated values.
fn values(device: &HandoverDevice, most: usize) -> String {
    let value = |((name, unit), values): (&(String, String), &Vec<f64>)| {
        let middle = crate::metrics::median(values.clone()).map_or_else(String::new, number);
        cell(&text::single_line(&format!("{name} {middle} {unit}")))
    };
    let mut all: Vec<_> = device.values.iter().take(most).map(value).collect();
    let more = device.values.len().saturating_sub(most);
    all.extend((more > 0).then(|| format!("and {more} more")));
    all.join(", ")
}

/// Whether two notations of a PCI bus id name the same device, such as `0000:1b:00` and `00000000:1B:00.0`.
fn is_same_bus(one: &str, other: Option<&str>) -> bool {
    let parts = |text: &str| -> Option<[u32; 3]> {
        let text = text.split('.').next()?;
        let mut parts = text.split(':').map(|part| u32::from_str_radix(part, 16).ok());
        let found = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(found)
    };
    other.is_some_and(|other| one == other || (parts(one).is_some() && parts(one) == parts(other)))
}

#[cfg(test)]
mod tests {
    use super::is_same_bus;

    #[test]
    fn notations_of_one_bus_id_are_equal() {
        assert!(is_same_bus("0000:1b:00", Some("00000000:1B:00.0")));
        assert!(!is_same_bus("0000:1b:00", Some("0000:1c:00")));
        assert!(!is_same_bus("0001:1b:00", Some("0000:1b:00.0")));
        assert!(!is_same_bus("x", Some("y")) && is_same_bus("x", Some("x")) && !is_same_bus("x", None));
    }
}
