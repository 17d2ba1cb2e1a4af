//! A job's output into the bucket: every file streamed and hashed, the manifest last.

use kit::PortError;
use ledger::{ArtefactError, Artefacts};
use terms::{Class, Cluster, CommandId, Fact, Failure, JobRef, Logs, planted};

use crate::{job_name, port::Scheduler};

/// Collects what every attempt wrote, as `{attempt}/{file}`. What was committed before is answered with.
///
/// # Errors
/// When the cluster or the bucket does not answer, or something else lies under the names.
pub async fn collect(
    scheduler: &dyn Scheduler,
    artefacts: &Artefacts,
    id: &CommandId,
    cluster: &Cluster,
    jobs: &[JobRef],
) -> Result<Fact, PortError> {
    let committed = match artefacts.committed(id).await.map_err(damaged)? {
        Some(committed) => committed,
        None => {
            if planted("manifest_first") {
                artefacts.commit(id, Vec::new()).await.map_err(damaged)?;
            }
            let mut objects = Vec::new();
            for job in jobs {
                let name = job_name(id, job.attempt);
                for file in scheduler.outputs(cluster, &name).await? {
                    let body = scheduler.output(cluster, &name, &file).await?;
                    let stored = artefacts.put(id, &format!("{}/{file}", job.attempt), body).await;
                    objects.push(stored.map_err(damaged)?);
                }
            }
            artefacts.commit(id, objects).await.map_err(damaged)?
        }
    };
    let objects = &committed.manifest.objects;
    Ok(Fact::LogsCollected(Logs {
        manifest: committed.name,
        sha256: committed.digest.sha256,
        objects: u32::try_from(objects.len()).unwrap_or(u32::MAX),
        size_bytes: objects.iter().map(|object| object.size_bytes).sum(),
    }))
}

pub(crate) fn damaged(error: ArtefactError) -> PortError {
    match error {
        ArtefactError::Store(error) => PortError::passing(error),
        // Another attempt writes under other names.
        ArtefactError::Damaged { .. } => {
            PortError::Final(Failure::new(Class::Infrastructure, "ARTEFACT_DAMAGED", error.to_string()))
        }
    }
}
