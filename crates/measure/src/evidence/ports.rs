//! Ports of InfiniBand and RoCE, and PCIe errors, from sysfs. Counters of 0 are not printed.
//!
//! Names: Linux, `Documentation/ABI/stable/sysfs-class-infiniband` and `Documentation/ABI/testing/sysfs-bus-pci-devices-aer`.

use std::collections::{BTreeMap, BTreeSet};

use model::metric::{
    Severity::{self, Hardware, Unknown},
    Subject,
};

use super::{changes::Changes, line::EvidenceLine};

/// Counters of a port whose increase is a finding.
const COUNTERS: [(&str, &str, Severity); 5] = [
    ("link_downed", "PORT_DOWN", Hardware),
    ("link_error_recovery", "PORT_ERRORS", Unknown),
    ("symbol_error", "PORT_ERRORS", Unknown),
    ("port_rcv_errors", "PORT_ERRORS", Unknown),
    ("local_link_integrity_errors", "PORT_ERRORS", Unknown),
];

#[derive(Debug, Default)]
struct Port {
    state: String,
    /// As printed, such as `400 Gb/sec (4X NDR)`.
    rate: String,
    counters: BTreeMap<String, u64>,
}

/// Ports by name, `mlx5_0/1`, and PCIe errors by bus id and kind.
#[derive(Debug, Default)]
pub(super) struct Ports {
    ports: BTreeMap<String, Port>,
    pcie: BTreeMap<(String, String), (u64, u64)>,
    /// The first line about neither ports nor PCIe errors, such as an error of the program that read sysfs.
    other: Option<String>,
    line: u64,
}

impl Ports {
    pub fn of(lines: &[EvidenceLine]) -> Self {
        let mut all = Self::default();
        for EvidenceLine { number, text } in lines {
            all.line = *number;
            if let Some(rest) = text.strip_prefix("/sys/class/infiniband/") {
                let Some((path, value)) = rest.split_once(':') else { continue };
                let parts: Vec<_> = path.split('/').collect();
                let (Some(device), Some(port), Some(file)) = (parts.first(), parts.get(2), parts.last())
                else {
                    continue;
                };
                let port = all.ports.entry(format!("{device}/{port}")).or_default();
                match *file {
                    "state" => port.state = value.trim().to_owned(),
                    "rate" => port.rate = value.trim().to_owned(),
                    counter => {
                        _ = value.trim().parse().map(|count| port.counters.insert(counter.to_owned(), count))
                    }
                }
            } else if let Some(rest) = text.strip_prefix("/sys/bus/pci/devices/")
                && let Some((bus, rest)) = rest.split_once("/aer_dev_")
                && let Some((kind, rest)) = rest.split_once(':')
                && let Some(count) = rest.rsplit(' ').next().and_then(|count| count.parse().ok())
            {
                all.pcie.insert((bus.to_owned(), kind.to_owned()), (count, *number));
            } else {
                all.other.get_or_insert_with(|| text.clone());
            }
        }
        all
    }

    /// Names of unreadable parts, each with the reason. `devices` are the RDMA devices of the node: each has a port.
    pub fn missing(&self, devices: &BTreeSet<&str>) -> Vec<(String, String)> {
        let has_port = |device: &str| {
            self.ports.keys().any(|port| port.split_once('/').is_some_and(|(own, _)| own == device))
        };
        let unreadable = devices.iter().filter(|device| !has_port(device));
        let unreadable = unreadable.map(|device| (format!("ports of {device}"), "none could be read"));
        let unreadable = unreadable.map(|(what, why)| (what, why.to_owned()));
        let of_port = |(name, port): (&String, &Port)| {
            let parts = [("state", port.state.is_empty()), ("rate", speed(&port.rate).is_none())];
            let parts: Vec<_> =
                parts.iter().filter(|(_, is_missing)| *is_missing).map(|(part, _)| *part).collect();
            let text = (format!("port {name}"), format!("no {}", parts.join(" and no ")));
            (!parts.is_empty()).then_some(text)
        };
        let other = self.other.iter().map(|text| ("ports".to_owned(), text.clone()));
        unreadable.chain(self.ports.iter().filter_map(of_port)).chain(other).collect()
    }

    /// Compares with the ports after the job.
    pub fn compare(&self, after: &Self, changes: &mut Changes) {
        let is_active = |state: &str| state.contains("ACTIVE");
        for (name, earlier) in &self.ports {
            let subject = || Subject { link: Some(name.as_str().into()), ..Subject::default() };
            let absent = Port::default();
            let later = after.ports.get(name).unwrap_or(&absent);
            if is_active(&earlier.state) && !is_active(&later.state) {
                let state = if later.state.is_empty() { "absent" } else { &later.state };
                let text = format!("the port was ACTIVE before the job and is {state} after it");
                changes.add("PORT_DOWN", Hardware, subject(), &text, after.line);
                continue;
            }
            if let (Some(first), Some(last)) = (speed(&earlier.rate), speed(&later.rate))
                && last < first
            {
                let text = format!("the rate fell from {} to {} during the job", earlier.rate, later.rate);
                changes.add("PORT_RATE_FELL", Hardware, subject(), &text, after.line);
            }
            for (counter, code, severity) in COUNTERS {
                let count = |port: &Port| port.counters.get(counter).copied().unwrap_or(0);
                let (first, last) = (count(earlier), count(later));
                if last > first {
                    let text = format!("{counter} rose from {first} to {last} during the job");
                    changes.add(code, severity, subject(), &text, after.line);
                }
            }
        }
        for ((bus, kind), (last, line)) in &after.pcie {
            let first = self.pcie.get(&(bus.clone(), kind.clone())).map_or(0, |(count, _)| *count);
            if *last > first {
                let severity = if kind == "fatal" { Hardware } else { Unknown };
                let subject = Subject { bus_id: Some(bus.as_str().into()), ..Subject::default() };
                let text =
                    format!("uncorrected PCIe errors ({kind}) rose from {first} to {last} during the job");
                changes.add("PCIE_AER", severity, subject, &text, *line);
            }
        }
    }
}

/// Gb/s of a rate.
fn speed(rate: &str) -> Option<f64> {
    rate.split(' ').next()?.parse().ok()
}
