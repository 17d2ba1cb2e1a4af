//! Logs of a benchmark that ran outside Burnin: started by a Helm chart, a colleague or a vendor.
//!
//! A run on such a cluster starts no job. It stores the logs, reads their tables and judges the values like those of Burnin's own jobs, so
//! that the results are in the ledger, the warehouse, the history and the reports.

mod marker;
mod scheduler;
mod settings;

use std::{path::Path, sync::Arc};

use cluster_api::{ClusterKind, ClusterStatus, Scheduler, Settings, SettingsForm};
use ledger::Store;
use model::{Cluster, Node, System};
use service::PortError;

pub use scheduler::LogJobs;
pub use settings::LogSettings;

use crate::marker::Marker;

/// Existing logs, as a kind of cluster.
pub struct LogsKind;

#[async_trait::async_trait]
impl ClusterKind for LogsKind {
    fn form(&self) -> SettingsForm {
        SettingsForm::of::<LogSettings>()
    }

    /// Returns false: an offer could make this machine publish any of its folders.
    fn can_be_offered(&self) -> bool {
        false
    }

    fn can_be_deployed(&self) -> bool {
        false
    }

    fn scheduler(&self, store: Arc<dyn Store>) -> Arc<dyn Scheduler> {
        Arc::new(LogJobs::new(store))
    }

    async fn probe(&self, name: &str, system: &System) -> Result<ClusterStatus, PortError> {
        Ok(match system.read().map_err(|error| error.to_string()).and_then(|logs| cluster_of(name, &logs)) {
            Ok(cluster) => ClusterStatus::Ready(cluster),
            Err(why) => ClusterStatus::Broken(format!("{name}: {why}")),
        })
    }
}

/// The cluster that wrote the logs.
///
/// # Errors
/// Returns an error if the logs are missing or incomplete.
fn cluster_of(name: &str, logs: &LogSettings) -> Result<Cluster, String> {
    if let Some((field, problem)) = logs.problems().first() {
        return Err(format!("{field}: {problem}"));
    }
    let folder = Path::new(&logs.folder);
    let listed = supervisor::files::list(folder).map_err(|error| format!("{}: {error}", logs.folder))?;
    let has = |file: &str| listed.files.iter().any(|listed| listed.name == file);
    if listed.files.is_empty() {
        return Err(format!(
            "{}: the folder is absent or has no files; copy the logs there, or correct `folder`",
            logs.folder
        ));
    }
    if let Some(file) = logs.file.iter().find(|file| !has(file)) {
        return Err(format!("{}: the folder has no file {file}; correct `file`", logs.folder));
    }
    let mut names: Vec<_> = (0..logs.nodes as usize).map(Node::placeholder).collect();
    if let Some(marker) = Marker::read(folder)? {
        marker.check(folder)?;
        if marker.pods.len() != names.len() {
            return Err(format!(
                "{}: {} nodes ran, but `nodes` is {}; correct `nodes`",
                folder.join(marker::NAME).display(),
                marker.pods.len(),
                names.len()
            ));
        }
        names = marker.pods.into_iter().map(|pod| pod.node).collect();
    }
    let nodes = names.into_iter().map(|name| Node::new(name, logs.ranks_per_node));
    Ok(Cluster { name: name.to_owned(), nodes: nodes.collect(), access: logs.access() })
}
