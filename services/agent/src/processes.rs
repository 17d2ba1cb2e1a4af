//! Jobs of a cluster of processes on this host.

use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use host::{JobRequest, JobState, Jobs, files};
use kit::PortError;
use ledger::{Digester, Reader, Store};
use terms::{Class, Cluster, Failure, Image};

use crate::{
    port::{Ending, Job, Outputs, Scheduler, Standing, Written},
    render,
};

/// The same image may be staged twice at once, when a command comes twice.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// The scheduler of process clusters.
pub struct Processes {
    store: Arc<dyn Store>,
}

impl Processes {
    /// Takes images from this bucket.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Brings the image's files onto the cluster, once, and checks each against its digest.
    async fn stage(&self, jobs: &Jobs, image: &Image) -> Result<PathBuf, PortError> {
        let folder = jobs.image_folder(&image.digest);
        std::fs::create_dir_all(&folder).map_err(PortError::passing)?;
        for file in &image.files {
            let place = folder.join(Path::new(&file.name).file_name().unwrap_or_default());
            if place.exists() {
                continue;
            }
            let object = format!("{}{}", image.reference, file.name);
            let damaged = |why: &str| {
                let message = format!("{object} {why}; the image has to be built again");
                PortError::Final(Failure::new(Class::Infrastructure, "IMAGE_DAMAGED", message))
            };
            let body = self.store.open(&object).await.map_err(PortError::passing)?;
            let mut body = Digester::new(body.ok_or_else(|| damaged("is missing"))?);
            let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
            let draft = place.with_extension(format!("draft-{}-{number}", std::process::id()));
            let written = async {
                let mut out = tokio::fs::File::create(&draft).await?;
                tokio::io::copy(&mut body, &mut out).await?;
                tokio::io::AsyncWriteExt::flush(&mut out).await?;
                out.set_permissions(std::fs::Permissions::from_mode(0o755)).await
            };
            written.await.map_err(PortError::passing)?;
            if body.finish().sha256 != file.sha256 {
                return Err(damaged("is not what its digest says"));
            }
            std::fs::rename(&draft, &place).map_err(PortError::passing)?;
        }
        Ok(folder)
    }
}

#[async_trait::async_trait]
impl Scheduler for Processes {
    async fn submit(&self, job: &Job) -> Result<String, PortError> {
        let jobs = Jobs::at(&job.cluster.endpoint);
        let program = render::program(&job.workload);
        let program = match &job.image {
            Some(image) => self.stage(&jobs, image).await?.join(program).display().to_string(),
            None => program,
        };
        let slots = job.cluster.nodes.first().map_or(1, |node| node.slots);
        let mut argv = vec![program];
        argv.extend(render::arguments(&job.workload, slots));
        let request = JobRequest { argv, env: Default::default(), limit: job.limit };
        match jobs.submit(&job.name, &request) {
            Ok(()) => Ok(job.name.clone()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(PortError::Final(Failure::new(Class::ClusterLost, "CLUSTER_GONE", error.to_string())))
            }
            Err(error) => Err(PortError::passing(error)),
        }
    }

    async fn look(&self, cluster: &Cluster, name: &str) -> Result<Standing, PortError> {
        Ok(match Jobs::at(&cluster.endpoint).look(name).map_err(PortError::passing)? {
            JobState::Absent => Standing::Absent,
            JobState::Running => Standing::Going,
            JobState::Ended(end) => Standing::Ended(end),
            JobState::NodeFail { node } => Standing::Lost {
                code: "NODE_FAIL".to_owned(),
                why: format!("{node} went away under the job"),
            },
            JobState::ClusterGone => {
                Standing::Lost { code: "CLUSTER_GONE".to_owned(), why: "the cluster is gone".to_owned() }
            }
        })
    }

    async fn cancel(&self, cluster: &Cluster, name: &str) -> Result<(), PortError> {
        match Jobs::at(&cluster.endpoint).cancel(name) {
            // Gone with its cluster: that is what is wanted.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PortError::passing(error)),
            _ => Ok(()),
        }
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        let folder = Jobs::at(&cluster.endpoint).output_folder(name);
        let listing = blocking(move || files::list(&folder)).await.map_err(PortError::passing)?;
        let written = |file: files::Entry| Written {
            name: file.name,
            size_bytes: Some(file.size_bytes),
            identity: Some(file.identity),
        };
        Ok(Outputs {
            files: listing.files.into_iter().map(written).collect(),
            others: listing.others.into_iter().map(|(name, why)| (name, why.to_owned())).collect(),
        })
    }

    async fn output(&self, cluster: &Cluster, name: &str, file: &str) -> Result<Reader, PortError> {
        let (folder, file) = (Jobs::at(&cluster.endpoint).output_folder(name), file.to_owned());
        let opened = blocking(move || files::open_file(&folder, &file)).await.map_err(unreadable)?;
        Ok(Box::new(tokio::fs::File::from_std(opened)))
    }

    async fn ending(
        &self,
        cluster: &Cluster,
        name: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<Ending>, PortError> {
        let (folder, file) = (Jobs::at(&cluster.endpoint).output_folder(name), file.to_owned());
        let opened = blocking(move || {
            let mut opened = files::open_file(&folder, &file)?;
            let from = opened.metadata()?.len().saturating_sub(bytes);
            io::Seek::seek(&mut opened, io::SeekFrom::Start(from))?;
            Ok((from, opened))
        });
        let (from, opened) = opened.await.map_err(unreadable)?;
        Ok(Some(Ending { from, body: Box::new(tokio::fs::File::from_std(opened)) }))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
}

/// What no repetition mends is said of this file; the rest of the job's output is still wanted.
fn unreadable(error: io::Error) -> PortError {
    use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
    match error.kind() {
        InvalidInput | NotFound | PermissionDenied => {
            PortError::Final(Failure::new(Class::Workload, "UNREADABLE", error.to_string()))
        }
        _ => PortError::passing(error),
    }
}
