//! Checks whether the benchmark started. A job that ended earlier measured nothing: its exit code is no evidence
//! about the cluster.

use crate::{diagnose::catalogue::Sign, evidence::RunEvidence};

/// Lines that only a running benchmark or NCCL prints.
const RUNNING: [Sign; 2] = [Sign::Started, Sign::Began];

/// Lines that report a fault of a node, from any source: a preflight, the driver, a launcher. Such a node is
/// bad whether or not the benchmark started.
const FAULTS: [Sign; 10] = [
    Sign::GpuFault,
    Sign::CudaError,
    Sign::RdmaError,
    Sign::NoDevice,
    Sign::NodeFailed,
    Sign::RxdmNotReady,
    Sign::RxdmGpus,
    Sign::NoAperture,
    Sign::NoProfile,
    Sign::Storage,
];

/// Whether the logs show that the benchmark ran.
pub fn began(evidence: &RunEvidence<'_>) -> bool {
    let clues = evidence.clues;
    let reading = evidence.reading;
    let is_empty = reading.tables.is_empty() && reading.metrics.is_empty() && reading.findings.is_empty();
    !is_empty
        || RUNNING.iter().any(|sign| clues.network(*sign).is_some())
        || !clues.networks.is_empty()
        || !clues.interfaces.is_empty()
        || clues.cuda_driver.is_some()
}

/// Whether a log line or the scheduler reports a fault of a node.
pub fn faulty(evidence: &RunEvidence<'_>) -> bool {
    let state = evidence.job.map(|job| job.state.as_str());
    FAULTS.iter().any(|sign| evidence.clues.network(*sign).is_some())
        || matches!(state, Some("NODE_FAIL" | "BOOT_FAIL"))
}
