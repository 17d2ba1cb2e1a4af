//! Hardware evidence in the log of a job: lines that the job's script printed about a node before and after the program, and
//! about its GPUs during the program.
//!
//! ```text
//! burnin evidence: NODE before gpus 0, GPU-cf8f9c59-..., 1752624007694, 00000000:00:06.0, NVIDIA H100 80GB HBM3, ...
//! burnin evidence: NODE before kernel [   85.387863] NVRM: Xid (PCI:0000:00:07): 43, pid=914, ...
//! ```
//!
//! The line `burnin host: HOST NODE` names the node of a host, such as a pod.
//!
//! The script is `evidence/probe.sh` of the crate `cluster-api`. Its lines are not part of the program's output: [`EvidenceFilter`] removes
//! them from the log, and every format is read as if they were absent.

mod changes;
mod filter;
mod kernel;
mod line;
mod links;
mod node;
mod pcie;
mod ports;
mod smi;

pub use filter::EvidenceFilter;
