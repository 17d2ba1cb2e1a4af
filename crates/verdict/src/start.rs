//! Whether the benchmark began. A job that ended before it did measured nothing: its exit code is no evidence about the cluster.

use crate::{diagnose::catalogue::Sign, judge::Evidence};

/// Lines that only a benchmark or NCCL prints once it runs.
const RUNNING: [Sign; 2] = [Sign::Started, Sign::Began];

/// Lines that name a fault of a node, from any source: a preflight, the driver, a launcher. A node with such a fault
/// is bad whether or not the benchmark began.
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

/// Whether the logs show that the benchmark ran: a line of its own, or one that only NCCL prints.
pub fn began(evidence: &Evidence<'_>) -> bool {
    let clues = evidence.clues;
    !evidence.reading.tables.is_empty()
        || RUNNING.iter().any(|sign| clues.heard(*sign).is_some())
        || !clues.networks.is_empty()
        || !clues.interfaces.is_empty()
        || clues.cuda_driver.is_some()
}

/// Whether a line or the scheduler names a fault of a node.
pub fn faulty(evidence: &Evidence<'_>) -> bool {
    let state = evidence.job.map(|job| job.state.as_str());
    FAULTS.iter().any(|sign| evidence.clues.heard(*sign).is_some())
        || matches!(state, Some("NODE_FAIL" | "BOOT_FAIL"))
}
