//! Input of a verdict: the evidence about a run.

use std::collections::BTreeSet;

use model::{Cluster, JobEnd, Workload, measurement::Reading};

use crate::{clues::Clues, fingerprint::Fingerprint, stated_gpus::StatedGpus};

/// Input of a verdict. The request is known only for a run, not for a single log.
#[derive(Clone, Copy, Debug)]
pub struct RunEvidence<'a> {
    /// Measurements in the logs.
    pub reading: &'a Reading,
    /// Evidence in the logs outside the measurements.
    pub clues: &'a Clues,
    /// End state of the job; `None` for a log without a run.
    pub job: Option<&'a JobEnd>,
    /// Requested benchmark.
    pub workload: Option<&'a Workload>,
    /// Cluster of the run: one rank per slot.
    pub cluster: Option<&'a Cluster>,
    /// Fingerprint fields that are not in the logs.
    pub setup: Option<&'a Fingerprint>,
    /// Nodes of the cluster without measurements, for a program that runs on each node.
    pub missing_nodes: &'a [String],
    /// GPUs that the check must measure, as the cluster's settings state them; `None` for a log without a run.
    pub gpus: Option<&'a StatedGpus>,
}

impl<'a> RunEvidence<'a> {
    /// Evidence from a single log.
    pub const fn of(reading: &'a Reading, clues: &'a Clues) -> Self {
        Self {
            reading,
            clues,
            job: None,
            workload: None,
            cluster: None,
            setup: None,
            missing_nodes: &[],
            gpus: None,
        }
    }
}

impl Fingerprint {
    /// Fingerprint of a run, from its log and the other evidence.
    #[must_use]
    pub fn of(evidence: &RunEvidence<'_>) -> Self {
        let mut fields = evidence.setup.cloned().unwrap_or_default().0;
        if let [table] = evidence.reading.tables.as_slice() {
            let hosts: BTreeSet<_> = table.devices.iter().map(|device| &device.host).collect();
            let clues = evidence.clues;
            let networks = clues.networks.keys().map(String::as_str).collect::<Vec<_>>().join("+");
            let values = [
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
            fields.extend(values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        let reading = evidence.reading;
        if let Some(format) = &reading.format {
            fields.insert("program".to_owned(), format.clone());
            fields.extend(reading.version.clone().map(|version| ("program_version".to_owned(), version)));
            let mut names: Vec<_> = reading.gpus.iter().filter_map(|gpu| gpu.name.as_deref()).collect();
            names.sort_unstable();
            names.dedup();
            if !names.is_empty() {
                fields.insert("device".to_owned(), names.join(" + "));
            }
        }
        Self(fields)
    }
}
