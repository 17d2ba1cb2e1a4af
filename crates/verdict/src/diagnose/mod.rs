//! Named causes, each with the log lines that prove it.
//!
//! A diagnosis explains a verdict and never changes it. Measurements are judged without it, so a phrase with a different meaning in a new
//! version of NCCL cannot fail a run, and a missing one cannot pass it. For a failed job, phrases decide whether the benchmark had started:
//! if it had started, the verdict is a fail, otherwise inconclusive.

pub mod catalogue;
mod cause;

use std::{collections::BTreeSet, net::IpAddr};

use model::{Verdict, count, measurement::Reading};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    clues::{ClueLine, Clues, NetworkOccurrences},
    evidence::RunEvidence,
    locate::Suspect,
    network,
};
use catalogue::Sign;
pub use cause::Cause;
use cause::SuspectedNodes;

/// A probable cause of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Cause, by its stable name.
    pub cause: Cause,
    /// Explanation and next step, for display.
    pub text: String,
    /// Number of log lines with this sign.
    pub times: u64,
    /// The first of these lines. Empty if the evidence is a missing line.
    pub evidence: Vec<ClueLine>,
    /// Hosts that printed these lines or are named in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// Causes proved by their own sign in a failed run.
const PROVEN: [(Cause, &[Sign]); 23] = [
    (Cause::GuestConfigRejected, &[Sign::ConfigMismatch]),
    (Cause::RxdmNotReady, &[Sign::RxdmNotReady]),
    (Cause::RxdmGpuCount, &[Sign::RxdmGpus]),
    (Cause::ApertureDevicesMissing, &[Sign::NoAperture]),
    (Cause::ProfileMissing, &[Sign::NoProfile]),
    (Cause::StorageBroken, &[Sign::Storage]),
    (Cause::InterfaceNotFound, &[Sign::NoInterface]),
    (Cause::GpuFault, &[Sign::GpuFault]),
    (Cause::OutOfMemory, &[Sign::OutOfMemory]),
    (Cause::DataCorruption, &[Sign::Corrupt]),
    (Cause::Preempted, &[Sign::Preempted]),
    (Cause::NodeFailed, &[Sign::NodeFailed]),
    (Cause::ContainerFailed, &[Sign::Container]),
    (Cause::ProgramMissing, &[Sign::NoProgram]),
    (Cause::FolderMissing, &[Sign::NoFolder]),
    (Cause::PrologFailed, &[Sign::Prolog]),
    (Cause::RdmaError, &[Sign::RdmaError]),
    (Cause::Crashed, &[Sign::Crash]),
    (Cause::CudaError, &[Sign::CudaError]),
    (Cause::TimedOut, &[Sign::Timeout]),
    (Cause::PeerLost, &[Sign::PeerLost]),
    (Cause::Unreachable, &[Sign::Unreachable]),
    (Cause::OverriddenSetting, &[Sign::Setting]),
];

/// All explanations of `verdict`, most significant first. `required` is the network the criteria require.
pub fn diagnose(evidence: &RunEvidence<'_>, required: Option<&str>, verdict: Verdict) -> Vec<Diagnosis> {
    let mut found = network_causes(evidence, required, verdict);
    found.extend(structure(evidence));
    if verdict != Verdict::Pass {
        let proven = PROVEN.iter().map(|(cause, signs)| (*cause, of(evidence.clues, signs)));
        found.extend(
            proven
                .filter(|(_, occurrences)| occurrences.times > 0)
                .map(|(cause, occurrences)| named(cause, occurrences)),
        );
        found.extend(from_the_job(evidence, &found));
        found.extend(hang(evidence, &found));
    }
    found.sort_by_key(|diagnosis| diagnosis.cause);
    found.dedup_by_key(|diagnosis| diagnosis.cause);
    found
}

fn named(cause: Cause, occurrences: NetworkOccurrences) -> Diagnosis {
    Diagnosis {
        cause,
        text: cause.text().to_owned(),
        times: occurrences.times,
        evidence: occurrences.lines,
        hosts: occurrences.hosts.into_iter().collect(),
    }
}

fn of(clues: &Clues, signs: &[Sign]) -> NetworkOccurrences {
    let mut together = NetworkOccurrences::default();
    signs
        .iter()
        .filter_map(|sign| clues.network(*sign))
        .for_each(|occurrences| together.add(occurrences.clone()));
    together
}

/// Causes that concern the network: a wrong network, the reason for it, and network settings.
fn network_causes(evidence: &RunEvidence<'_>, required: Option<&str>, verdict: Verdict) -> Vec<Diagnosis> {
    let clues = evidence.clues;
    let used = clues.network_names();
    let across = network::nodes(evidence.reading) > 1;
    let mut found = Vec::new();
    let socket = used.contains("Socket") && required != Some("Socket");
    let unwanted = match required {
        Some(required) => used != BTreeSet::from([required]),
        None => socket && across,
    };
    // On a single node NCCL names a network that it does not use, so the network counts only if a line shows data
    // routed over it.
    let routed = clues.network(Sign::SocketRoute).is_some() && verdict != Verdict::Pass;
    if socket && (across || required.is_some() || routed) {
        let mut occurrences = clues.networks.get("Socket").cloned().unwrap_or_default();
        occurrences.add(of(clues, &[Sign::FastSocket, Sign::FasTrakOff]));
        found.push(named(Cause::SocketFallback, occurrences));
    } else if unwanted && verdict != Verdict::Pass {
        let occurrences = of(clues, &[Sign::FastSocket, Sign::FasTrakOff]);
        found.extend((occurrences.times > 0).then(|| named(Cause::SocketFallback, occurrences)));
    }
    // Healthy clusters also report missing plug-ins or devices that they do not need.
    if unwanted
        || (verdict != Verdict::Pass && evidence.reading.tables.iter().all(|table| table.rows.is_empty()))
    {
        let causes = [
            (Cause::PluginUnloadable, &[Sign::PluginUnloadable][..]),
            (Cause::PluginNotFound, &[Sign::PluginMissing, Sign::NetworkMissing]),
            (Cause::DevicesNotFound, &[Sign::NoDevice]),
        ];
        let occurrences = causes.map(|(cause, signs)| (cause, of(clues, signs)));
        found.extend(
            occurrences
                .into_iter()
                .filter(|(_, occurrences)| occurrences.times > 0)
                .map(|(cause, occurrences)| named(cause, occurrences)),
        );
    }
    if verdict != Verdict::Pass && across && clues.network(Sign::DirectRoute).is_none() {
        let occurrences = of(clues, &[Sign::StagedRoute, Sign::DirectOff]);
        let reported =
            clues.network(Sign::StagedRoute).is_some() || used.iter().any(|name| name.ends_with("IB"));
        found.extend((reported && occurrences.times > 0).then(|| named(Cause::GdrOff, occurrences)));
    }
    if verdict != Verdict::Pass && clues.interfaces.len() > 1 {
        let mut occurrences = NetworkOccurrences::default();
        for interface in clues.interfaces.values() {
            occurrences.times += interface.times;
            occurrences.lines.extend(interface.lines.first().cloned());
        }
        found.push(named(Cause::MixedInterfaces, occurrences));
    }
    found
}

/// Causes that concern the participating nodes and ranks.
fn structure(evidence: &RunEvidence<'_>) -> Vec<Diagnosis> {
    let tables = &evidence.reading.tables;
    let started = || of(evidence.clues, &[Sign::Started]);
    let mut found = Vec::new();
    if tables.len() > 1 && tables.iter().all(|table| table.ranks == Some(1)) {
        let mut diagnosis = named(Cause::IndependentRuns, started());
        diagnosis.text =
            format!("The log contains {} runs of one rank each. {}", tables.len(), diagnosis.text);
        return vec![diagnosis];
    }
    if let ([table], Some(cluster)) = (tables.as_slice(), evidence.cluster)
        && let Some(ranks) = table.ranks.filter(|ranks| *ranks != cluster.slots())
    {
        let mut diagnosis = named(Cause::WrongRankCount, started());
        diagnosis.text =
            format!("{} on {}. {}", count(ranks, "rank"), count(cluster.slots(), "GPU"), diagnosis.text);
        found.push(diagnosis);
    }
    let missing = missing_nodes(evidence);
    if !missing.is_empty() {
        let mut diagnosis = named(Cause::NodeMissing, started());
        diagnosis.hosts = missing;
        found.push(diagnosis);
    }
    found
}

/// Cluster nodes missing from the table, if the table uses the cluster's node names.
fn missing_nodes(evidence: &RunEvidence<'_>) -> Vec<String> {
    let (Some(cluster), [table]) = (evidence.cluster, evidence.reading.tables.as_slice()) else {
        return Vec::new();
    };
    let there: BTreeSet<_> = table.devices.iter().map(|device| short(&device.host)).collect();
    let names: BTreeSet<_> = cluster.nodes.iter().map(|node| short(&node.name)).collect();
    if there.is_empty() || !there.is_subset(&names) {
        return Vec::new();
    }
    names.difference(&there).map(|name| (*name).to_owned()).collect()
}

/// The name without its domain; addresses are unchanged.
fn short(host: &str) -> &str {
    match host.parse::<IpAddr>() {
        Ok(_) => host,
        Err(_) => host.split('.').next().unwrap_or(host),
    }
}

/// Causes known only from the scheduler.
fn from_the_job(evidence: &RunEvidence<'_>, found: &[Diagnosis]) -> Option<Diagnosis> {
    let cause = match evidence.job?.state.as_str() {
        "OUT_OF_MEMORY" => Cause::OutOfMemory,
        "TIMEOUT" => Cause::TimedOut,
        "PREEMPTED" => Cause::Preempted,
        "NODE_FAIL" | "BOOT_FAIL" => Cause::NodeFailed,
        _ => return None,
    };
    let known = found.iter().any(|diagnosis| diagnosis.cause == cause);
    (!known).then(|| named(cause, NetworkOccurrences::default()))
}

/// A run that started and stopped printing without an error.
fn hang(evidence: &RunEvidence<'_>, found: &[Diagnosis]) -> Option<Diagnosis> {
    use model::measurement::LogEnd;
    let started = of(evidence.clues, &[Sign::Started]);
    let silent = found.is_empty() && evidence.reading.first_error.is_none();
    let stopped = evidence.reading.tables.iter().any(|table| table.ended == LogEnd::Truncated);
    (silent && stopped && started.times > 0).then(|| named(Cause::WentSilent, started))
}

/// Nodes suspected by the diagnoses, highest confidence first.
pub fn suspects(evidence: &RunEvidence<'_>, diagnoses: &[Diagnosis]) -> Vec<Suspect> {
    let hosts = hosts(evidence.reading);
    let mut suspects: Vec<Suspect> = Vec::new();
    let mut suspect = |host: &str, confidence: f64| match suspects
        .iter_mut()
        .find(|suspect| suspect.host.as_deref() == Some(host))
    {
        Some(known) => known.confidence = known.confidence.max(confidence),
        None => suspects.push(Suspect { host: Some(host.to_owned()), confidence, ..Suspect::default() }),
    };
    // A job that failed before the benchmark has no Rank lines.
    let all = hosts.len().max(evidence.cluster.map_or(0, |cluster| cluster.nodes.len()));
    for diagnosis in diagnoses {
        let shown = diagnosis.hosts.len();
        let blamed = match diagnosis.cause.suspected_nodes() {
            SuspectedNodes::WithEvidence(confidence) if shown < all.max(2) => Some(confidence),
            SuspectedNodes::Minority(confidence) if 2 * shown < all => Some(confidence),
            _ => None,
        };
        if let Some(confidence) = blamed {
            diagnosis.hosts.iter().for_each(|host| suspect(host, confidence));
        }
        // If all nodes but one report a lost peer, the remaining node is the suspect.
        if diagnosis.cause == Cause::PeerLost {
            let silent: Vec<_> = hosts.iter().filter(|host| !diagnosis.hosts.contains(host)).collect();
            if let ([silent], 2..) = (silent.as_slice(), diagnosis.hosts.len()) {
                suspect(silent, 0.7);
            }
        }
    }
    suspects.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    suspects
}

fn hosts(reading: &Reading) -> BTreeSet<String> {
    let devices = reading.tables.iter().flat_map(|table| &table.devices);
    devices.map(|device| device.host.clone()).collect()
}
