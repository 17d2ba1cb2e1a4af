//! Jobs on drained nodes.
//!
//! Slurm starts no job on a drained node. Therefore such a job has its own reservation of the nodes, and the nodes are resumed inside it:
//! other users' jobs cannot use them. At the end of the job, before its end is recorded, the nodes are drained again for the same reason
//! and the reservation is deleted. So a node is out of service even if the re-test, the agent or the run fails; only
//! [`cluster_api::Scheduler::return_node`] returns it to service.

use model::{Class, Drained, Failure};
use service::PortError;

use crate::{
    Slurm,
    commands::Commands,
    folder::{DrainedNode, SlurmFolder, read},
};

pub fn reservation(job: &str) -> String {
    format!("burnin-{job}")
}

/// Lets a job use the drained nodes that it re-tests. Idempotent.
///
/// # Errors
/// Returns an error if a request fails: [`PortError::Permanent`] if a node is out of service for a reason other than a drain by Burnin, or
/// Slurm refuses.
pub async fn begin(
    commands: &Commands,
    slurm: &Slurm,
    folder: &SlurmFolder,
    job: &str,
) -> Result<(), PortError> {
    if slurm.retest.is_empty() {
        return Ok(());
    }
    let mut drained = Vec::new();
    for line in commands.drained(&slurm.retest.join(","), None).await? {
        let (node, reason) = line.split_once(": ").unwrap_or((&line, ""));
        if !Drained::is_ours(reason) {
            let why = format!(
                "{node} is out of service for another reason: {reason}; put it back into service, or drain it for a reason that begins \
                 with `burnin `"
            );
            return Err(PortError::Permanent(Failure::new(Class::Input, "OUT_OF_SERVICE", why)));
        }
        drained.push(DrainedNode { node: node.to_owned(), reason: reason.to_owned() });
    }
    // The nodes are recorded before the first change, so that the end of the job restores it. After a crash the first record remains valid.
    let drained = read(folder, move |folder| folder.note_drained(&drained)).await?;
    commands.reserve(&reservation(job), &slurm.retest).await?;
    for DrainedNode { node, .. } in &drained {
        commands.resume(node).await?;
    }
    Ok(())
}

/// Drains the nodes again and deletes the reservation. Idempotent. Does nothing for a job that re-tests no nodes.
///
/// # Errors
/// Returns an error if a request fails.
pub async fn end(
    commands: &Commands,
    slurm: &Slurm,
    folder: &SlurmFolder,
    job: &str,
) -> Result<(), PortError> {
    if slurm.retest.is_empty() {
        return Ok(());
    }
    let Some(drained) = read(folder, SlurmFolder::drained).await? else { return Ok(()) };
    for DrainedNode { node, reason } in drained {
        match commands.drain(&node, &reason).await {
            // The node was drained for another reason meanwhile: keep that reason.
            Err(PortError::Permanent(failure)) if failure.message.starts_with("already drained") => {}
            drained => drained?,
        }
    }
    commands.unreserve(&reservation(job)).await
}
