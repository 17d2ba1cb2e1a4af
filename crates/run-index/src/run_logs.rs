//! Collected logs of a run, of all its checks.

use std::sync::Arc;

use ledger::Artefacts;
use model::{LeftOut, ManifestObject, RunId};

use crate::{FoldedRun, RunIndex, RunIndexError};

#[derive(Clone, Debug, Default)]
pub struct RunLogs {
    /// Whether the logs of all checks are collected and final.
    pub complete: bool,
    /// The files, in order of the checks; their names are unique in the run.
    pub files: Vec<RunLog>,
    /// Files that were not collected, with the reason.
    pub left_out: Vec<LeftOut>,
}

/// A collected file.
#[derive(Clone, Debug)]
pub struct RunLog {
    /// Name, size and digest.
    pub file: ManifestObject,
    /// Name of the object in the bucket.
    pub object: String,
}

impl RunLogs {
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&RunLog> {
        self.files.iter().find(|log| log.file.name == name)
    }
}

impl RunIndex {
    /// The collected logs of a run; `None` if the run is unknown.
    ///
    /// # Errors
    /// Returns an error if the ledger or a manifest cannot be read.
    pub async fn logs(&self, run: &RunId) -> Result<Option<RunLogs>, RunIndexError> {
        let Some(FoldedRun { state, .. }) = self.folded(run).await? else { return Ok(None) };
        let artefacts = Artefacts::new(Arc::clone(&self.store));
        let mut logs = RunLogs { complete: state.workflow.check_count() > 0, ..RunLogs::default() };
        for check in state.checks() {
            let Some(collected) = state.logs_of(check) else {
                logs.complete &= state.skipped(check) || state.settled.is_some();
                continue;
            };
            let manifest = artefacts.manifest(&collected.manifest).await;
            let manifest = manifest.map_err(|source| RunIndexError::Artefact { run: run.clone(), source })?;
            let Some(committed) = manifest else { continue };
            let folder = committed.name.trim_end_matches("manifest.json").to_owned();
            let log = |file: ManifestObject| RunLog { object: format!("{folder}{}", file.name), file };
            logs.files.extend(committed.manifest.objects.into_iter().map(log));
            logs.left_out.extend(committed.manifest.left_out);
        }
        logs.complete &= !logs.files.is_empty() || !logs.left_out.is_empty();
        Ok(Some(logs))
    }
}
