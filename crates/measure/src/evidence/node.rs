//! The evidence of one node: its lines, missing sources and findings.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::{
    GpuEvidence, NodeEvidence,
    metric::{Severity, Subject},
};

use super::{
    changes::Changes,
    kernel::KernelLog,
    line::EvidenceLine,
    links::{self, LinkErrors, LinkStates},
    pcie::Replays,
    ports::Ports,
    smi::{self, GpuRow, Gpus},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvidencePhase {
    Before,
    During,
    After,
}

impl EvidencePhase {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "before" => Some(Self::Before),
            "during" => Some(Self::During),
            "after" => Some(Self::After),
            _ => None,
        }
    }
}

/// Lines of one phase by source.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, Vec<EvidenceLine>>);

impl Sources {
    pub fn of(&self, source: &str) -> &[EvidenceLine] {
        self.0.get(source).map_or(&[], Vec::as_slice)
    }

    /// Whether the probe reported a timeout of the source. In that case sources of nvidia-smi and the kernel log have no valid line.
    fn is_late(&self, source: &str) -> bool {
        self.of(source).first().is_some_and(|line| line.text.starts_with("no response within "))
    }

    /// Whether the last line was printed; without it, sources may be cut.
    fn is_complete(&self) -> bool {
        !self.of("end").is_empty()
    }
}

#[derive(Debug, Default)]
pub(super) struct NodeLines {
    before: Sources,
    during: Sources,
    after: Sources,
}

impl NodeLines {
    pub fn add(&mut self, phase: EvidencePhase, source: &str, line: EvidenceLine) {
        let sources = match phase {
            EvidencePhase::Before => &mut self.before,
            EvidencePhase::During => &mut self.during,
            EvidencePhase::After => &mut self.after,
        };
        sources.0.entry(source.to_owned()).or_default().push(line);
    }
}

/// The content of all sources in one phase. A source that could not be read is `None`.
struct Snapshot<'a> {
    gpus: Option<Gpus>,
    links: Option<LinkStates>,
    link_errors: Option<LinkErrors>,
    replays: Option<Replays>,
    kernel: Option<KernelLog<'a>>,
    ports: Option<Ports>,
}

impl<'a> Snapshot<'a> {
    /// Reads all sources; `None` if the job ended before the last line, or began before it. Adds the reason for each source without content
    /// to `missing`.
    fn read(
        sources: &'a Sources,
        phase: &str,
        devices: &BTreeSet<&str>,
        missing: &mut Vec<String>,
    ) -> Option<Self> {
        if let Some(late) = sources.of("late").first() {
            missing.push(format!("evidence {phase} the job: {}", late.text));
            return None;
        }
        if !sources.is_complete() {
            missing.push(format!("evidence {phase} the job: the probe did not print its last line"));
            return None;
        }
        let mut state = |what: &str, why: String| missing.push(format!("{what} {phase} the job: {why}"));
        let gpus = Gpus::read(sources.of("gpus")).map_err(|why| state("GPUs", why)).ok();
        // Without nvidia-smi the GPUs are already reported as missing.
        let (mut links, mut link_errors, mut replays) = (None, None, None);
        if let Some(gpus) = &gpus {
            if let Some(other) = &gpus.other {
                state("a part of the GPUs", other.clone());
            }
            for (index, row) in &gpus.rows {
                if let Some(fields) = row.unreadable() {
                    state(&format!("counters of GPU {index}"), fields);
                }
            }
            // Some drivers print nothing for GPUs without NVLink.
            let is_due =
                |source| !sources.of(source).is_empty() || gpus.rows.values().any(GpuRow::needs_links);
            if is_due("links") {
                links = LinkStates::read(sources.of("links")).map_err(|why| state("NVLinks", why)).ok();
            }
            if is_due("link_errors") {
                let errors = LinkErrors::read(sources.of("link_errors"));
                link_errors = errors.map_err(|why| state("NVLink errors", why)).ok();
            }
            // Report each GPU whose NVLinks were not printed, although those of other GPUs were.
            for index in gpus.rows.iter().filter(|(_, row)| row.needs_links()).map(|(index, _)| index) {
                let why = || "nvidia-smi did not list the GPU".to_owned();
                if links.as_ref().is_some_and(|links| !links.lists(*index)) {
                    state(&format!("NVLinks of GPU {index}"), why());
                }
                if link_errors.as_ref().is_some_and(|errors| !errors.lists(*index)) {
                    state(&format!("NVLink errors of GPU {index}"), why());
                }
            }
            let counters = Replays::read(sources.of("pcie"));
            replays = counters.map_err(|why| state("PCIe counters", why)).ok().flatten();
        }
        let kernel = KernelLog::read(sources.of("kernel")).map_err(|why| state("kernel log", why)).ok();
        for late in ["ports", "settings", "nccl"].into_iter().filter(|source| sources.is_late(source)) {
            state(late, sources.of(late)[0].text.clone());
        }
        let ports = (!sources.is_late("ports")).then(|| Ports::of(sources.of("ports")));
        let parts = ports.iter().flat_map(|ports| ports.missing(devices));
        parts.for_each(|(what, why)| state(&what, why));
        Some(Self { gpus, links, link_errors, replays, kernel, ports })
    }
}

/// Sources of versions and settings, `NAME=VALUE`.
const SETTINGS: [&str; 2] = ["settings", "nccl"];
/// Value of a version or setting that could not be read.
const UNREADABLE: &str = "unreadable";

/// Whether a version could be read. Probes of earlier versions print an empty value instead of `UNREADABLE`.
fn is_readable(value: &str) -> bool {
    !value.is_empty() && value != UNREADABLE
}

/// Adds a finding for each version and setting whose value changed. Logs of older versions contain no settings after the job.
fn compare_settings(before: &Sources, after: &Sources, changes: &mut Changes) {
    for source in SETTINGS {
        let is_known = |sources: &Sources| !sources.of(source).is_empty() && !sources.is_late(source);
        if !is_known(before) || !is_known(after) {
            continue;
        }
        let values = |sources: &Sources| -> BTreeMap<String, String> {
            let pairs = sources.of(source).iter().filter_map(|line| line.text.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let (earlier, later) = (values(before), values(after));
        let names: BTreeSet<_> = earlier.keys().chain(later.keys()).collect();
        let line_of = |name: &str| {
            let own = |line: &&EvidenceLine| line.text.split_once('=').is_some_and(|(own, _)| own == name);
            let lines = after.of(source);
            lines.iter().find(own).or_else(|| lines.first()).map_or(0, |line| line.number)
        };
        for name in names {
            let [first, last] =
                [&earlier, &later].map(|values| values.get(name).map_or("absent", String::as_str));
            if first != last && is_readable(first) && is_readable(last) {
                let text = format!("{name} was {first} before the job and is {last} after it");
                let line = line_of(name);
                changes.add("SETTING_CHANGED", Severity::Configuration, Subject::default(), &text, line);
            }
        }
    }
}

/// Compares the lines before and after the job.
pub(super) fn evidence(node: &str, lines: &NodeLines) -> NodeEvidence {
    let name: Arc<str> = node.into();
    let mut missing = Vec::new();
    // Logs of older versions contain the NCCL version in the settings.
    let settings = SETTINGS.into_iter().flat_map(|source| lines.before.of(source));
    let settings: BTreeMap<_, _> = settings.filter_map(|line| line.text.split_once('=')).collect();
    // The settings name each RDMA device, as `infiniband/mlx5_0/fw_ver`. The lines of a port that could not be read are absent.
    let devices =
        settings.keys().filter_map(|name| name.strip_prefix("infiniband/")?.split('/').next()).collect();
    let before = Snapshot::read(&lines.before, "before", &devices, &mut missing);
    let after = Snapshot::read(&lines.after, "after", &devices, &mut missing);
    let none = Gpus::default();
    let gpus = before.as_ref().and_then(|before| before.gpus.as_ref()).unwrap_or(&none);
    let mut changes = Changes::of(name.clone());
    if let (Some(before), Some(after)) = (&before, &after) {
        compare(before, after, gpus, &mut changes);
        compare_settings(&lines.before, &lines.after, &mut changes);
        if let (Some(earlier), Some(later)) = (&before.kernel, &after.kernel) {
            missing.extend(
                later.gaps(earlier).into_iter().map(|gap| format!("kernel log during the job: {gap}")),
            );
        }
        if before.gpus.is_some() && after.gpus.is_none() {
            let first = lines.after.of("gpus").first().map_or(0, |line| line.number);
            let text = "nvidia-smi listed GPUs before the job and none after it";
            changes.add("SMI_ERROR", Severity::Unknown, Subject::default(), text, first);
        }
    }
    let samples = smi::samples(lines.during.of("samples"), gpus, &mut changes, &mut missing);
    let gpu = |(index, row): (&u32, &GpuRow)| GpuEvidence {
        subject: Subject { node: Some(name.clone()), ..row.subject(*index) },
        settings: row.settings(),
        during: samples.get(index).cloned(),
    };
    NodeEvidence {
        node: node.to_owned(),
        missing,
        gpus: gpus.rows.iter().map(gpu).collect(),
        findings: changes.findings,
        recorded: changes.recorded,
        settings: settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    }
}

/// Compares each source that could be read in both phases.
fn compare(before: &Snapshot<'_>, after: &Snapshot<'_>, gpus: &Gpus, changes: &mut Changes) {
    if let (Some(before), Some(after)) = (&before.gpus, &after.gpus) {
        smi::compare(before, after, changes);
    }
    if let (Some(before), Some(after)) = (&before.links, &after.links) {
        links::compare_states(before, after, gpus, changes);
    }
    if let (Some(before), Some(after)) = (&before.link_errors, &after.link_errors) {
        links::compare_errors(before, after, gpus, changes);
    }
    if let (Some(before), Some(after)) = (&before.replays, &after.replays) {
        before.compare(after, gpus, changes);
    }
    if let (Some(before), Some(after)) = (&before.kernel, &after.kernel) {
        after.compare(before, gpus, changes);
    }
    if let (Some(before), Some(after)) = (&before.ports, &after.ports) {
        before.compare(after, changes);
    }
}
