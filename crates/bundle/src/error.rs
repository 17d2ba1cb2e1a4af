use std::io;

use ledger::StoreError;
use model::RunId;

/// Reason why a bundle cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("run {0} does not exist; `burnin runs` lists the runs")]
    NoRun(RunId),
    #[error("run {0} is not closed; export it after its end")]
    Open(RunId),
    /// The ledger does not describe a valid run.
    #[error("the ledger of {run} cannot be read: {why}")]
    Damaged { run: RunId, why: String },
    /// An object changed between two reads.
    #[error("{0} changed while it was read; export the run again")]
    Changed(String),
    /// An artifact differs from its manifest or the ledger, so the bundle is not signed.
    #[error(
        "artefact {name}: {why}; it was changed after the run, so no bundle is written; restore it from a backup"
    )]
    Artifact {
        /// Object name in the bucket.
        name: String,
        why: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bundle could not be written.
    #[error("the bundle cannot be written: {0}; correct this or choose another file with `--save`")]
    Io(#[from] io::Error),
}
