//! Uploads a job's output to the bucket: every file streamed, redacted and hashed, the manifest last.
//!
//! A retry after a crash finds the objects of the first attempt. A file that has changed in between is stored again with the
//! suffix `~2`, `~3`, ...; the manifest names the version read last. Readers ignore files that the manifest does not name.

mod body;
mod names;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use cluster_api::{Outputs, Scheduler, WrittenFile};
use ledger::{Artefacts, ArtifactOwner};
use model::{
    Attempt, Class, Cluster, CommandId, Fact, Failure, JobRef, LeftOut, Logs, ManifestObject,
    failpoint_is_active,
};
use redact::Rules;
use service::PortError;

use crate::job_name;
use body::OutputFile;
use names::FileNames;

/// Maximum number of omitted files listed by name.
const NAMED: usize = 1000;
/// Bytes reserved for a job's other files when one file uses up the limit.
const RESERVE: u64 = 1 << 20;
/// Maximum number of stored versions of a file that changes between attempts.
const VERSIONS: u32 = 9;

/// Limits of a job's collected output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectLimits {
    /// Maximum size of a file, bytes.
    pub file_bytes: u64,
    /// Maximum size of all files of a job, bytes.
    pub job_bytes: u64,
    /// Maximum number of files of a job.
    pub files: usize,
}

impl Default for CollectLimits {
    fn default() -> Self {
        Self { file_bytes: 5 << 30, job_bytes: 20 << 30, files: 10_000 }
    }
}

#[derive(Clone)]
pub struct Collector {
    /// Source of the output.
    pub scheduler: Arc<dyn Scheduler>,
    /// Target bucket.
    pub artefacts: Artefacts,
    pub rules: Arc<Rules>,
    pub limits: CollectLimits,
}

impl Collector {
    /// Collects the output of every attempt as `{attempt}/{file}`. Returns the existing manifest if one was committed.
    ///
    /// # Errors
    /// Returns an error if the cluster or the bucket request fails.
    pub async fn collect(
        &self,
        id: &CommandId,
        cluster: &Cluster,
        jobs: &[JobRef],
    ) -> Result<Fact, PortError> {
        let jobs: Vec<_> = jobs.iter().map(|job| (job.attempt, job_name(id, job.attempt))).collect();
        self.collect_for(id.into(), cluster, &jobs).await.map(Fact::LogsCollected)
    }

    /// Collects the output of jobs given by name, into the folder of `owner`.
    ///
    /// # Errors
    /// Returns an error if the cluster or the bucket request fails.
    pub async fn collect_for(
        &self,
        owner: ArtifactOwner<'_>,
        cluster: &Cluster,
        jobs: &[(Attempt, String)],
    ) -> Result<Logs, PortError> {
        let committed = match self.artefacts.committed(owner).await? {
            Some(committed) => committed,
            None => {
                if failpoint_is_active("manifest_first") {
                    self.artefacts.commit(owner, Vec::new()).await?;
                }
                let mut collected = CollectedFiles::default();
                for (attempt, job) in jobs {
                    self.job(&OwnedJob { owner, cluster, attempt: *attempt, job }, &mut collected).await?;
                }
                let commit =
                    self.artefacts.commit_with(owner, collected.objects, left_out(collected.left_out));
                commit.await?
            }
        };
        let objects = &committed.manifest.objects;
        Ok(Logs {
            manifest: committed.name,
            sha256: committed.digest.sha256,
            objects: u32::try_from(objects.len()).unwrap_or(u32::MAX),
            size_bytes: objects.iter().map(|object| object.size_bytes).sum(),
        })
    }

    async fn job(&self, of: &OwnedJob<'_>, collected: &mut CollectedFiles) -> Result<(), PortError> {
        let OwnedJob { cluster, job, .. } = *of;
        let listed = self.scheduler.outputs(cluster, job).await?;
        let mut room = RemainingLimits {
            bytes: self.limits.job_bytes,
            files: self.limits.files,
            names: FileNames::default(),
        };
        let since = collected.objects.len();
        let mut seen = BTreeMap::new();
        self.files(of, &listed.files, &mut room, &mut seen, collected).await?;
        let mut others = listed.others;
        if listed.files.iter().any(|file| file.identity.is_some() || file.size_bytes.is_some()) {
            // List again: a log that was rotated while it was collected has a new name.
            let after = self.scheduler.outputs(cluster, job).await?;
            let known = |file: &&WrittenFile| !listed.files.iter().any(|before| before.name == file.name);
            let new: Vec<_> = after.files.iter().filter(known).cloned().collect();
            changes(&listed.files, &after, &seen, &mut collected.objects[since..]);
            self.files(of, &new, &mut room, &mut seen, collected).await?;
            others.extend(after.others);
            others.sort();
            others.dedup();
        }
        collected.leave_out(of.attempt, others);
        Ok(())
    }

    async fn files(
        &self,
        of: &OwnedJob<'_>,
        files: &[WrittenFile],
        room: &mut RemainingLimits,
        seen: &mut BTreeMap<String, String>,
        collected: &mut CollectedFiles,
    ) -> Result<(), PortError> {
        for (number, written) in files.iter().enumerate() {
            let file = &written.name;
            let Some(limit) = room.next_limit(files.len() - number - 1, self.limits.file_bytes) else {
                let why = format!("the job wrote more than the maximum of {} files", self.limits.files);
                collected.leave_out(of.attempt, [(file.clone(), why)]);
                continue;
            };
            let name = room.names.assign(file);
            match self.file(of, file, &format!("{}/{name}", of.attempt), limit).await {
                Ok(mut object) => {
                    room.bytes = room.bytes.saturating_sub(object.size_bytes);
                    if let Some(collected) = &mut object.collected {
                        collected.file = (name != *file).then(|| file.clone());
                    }
                    seen.insert(object.name.clone(), file.clone());
                    collected.objects.push(object);
                }
                Err(PortError::Permanent(why)) if why.code != "ARTEFACT_DAMAGED" => {
                    collected.leave_out(of.attempt, [(file.clone(), why.message)]);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn file(
        &self,
        of: &OwnedJob<'_>,
        file: &str,
        name: &str,
        limit: u64,
    ) -> Result<ManifestObject, PortError> {
        let file = OutputFile {
            scheduler: Arc::clone(&self.scheduler),
            cluster: of.cluster.clone(),
            job: of.job.to_owned(),
            name: file.to_owned(),
        };
        for version in 1..=VERSIONS {
            let name = if version == 1 { name.to_owned() } else { format!("{name}~{version}") };
            let (body, collected) = body::body(&file, &self.rules, limit).await?;
            if let Some(mut object) = self.artefacts.try_put(of.owner, &name, body).await? {
                let collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
                object.collected = Some(collected.clone());
                return Ok(object);
            }
        }
        let why = format!("{} changed again after {VERSIONS} stored versions, the maximum", file.name);
        Err(PortError::Permanent(Failure::new(Class::Infrastructure, "ARTEFACT_DAMAGED", why)))
    }
}

/// A job and the owner of its logs.
struct OwnedJob<'a> {
    owner: ArtifactOwner<'a>,
    cluster: &'a Cluster,
    attempt: Attempt,
    job: &'a str,
}

#[derive(Default)]
struct CollectedFiles {
    objects: Vec<ManifestObject>,
    left_out: Vec<LeftOut>,
}

impl CollectedFiles {
    fn leave_out(&mut self, job: Attempt, files: impl IntoIterator<Item = (String, String)>) {
        self.left_out.extend(files.into_iter().map(|(file, why)| LeftOut { job, file, why }));
    }
}

struct RemainingLimits {
    bytes: u64,
    files: usize,
    names: FileNames,
}

impl RemainingLimits {
    /// Returns the maximum bytes of the next file to store while `others` are pending: one oversized file must not
    /// use up their share.
    fn next_limit(&mut self, others: usize, file_bytes: u64) -> Option<u64> {
        self.files = self.files.checked_sub(1)?;
        let others = others.min(self.files) as u64;
        let reserve = RESERVE.min(self.bytes / (others + 1)) * others;
        Some(file_bytes.min(self.bytes - reserve))
    }
}

/// Records the changes between the two listings.
fn changes(
    before: &[WrittenFile],
    after: &Outputs,
    seen: &BTreeMap<String, String>,
    objects: &mut [ManifestObject],
) {
    let before: BTreeMap<_, _> = before.iter().map(|file| (&file.name, file)).collect();
    let after: BTreeMap<_, _> = after.files.iter().map(|file| (&file.name, file)).collect();
    for object in objects {
        let Some((collected, file)) = object.collected.as_mut().zip(seen.get(&object.name)) else { continue };
        let (Some(before), Some(after)) = (before.get(file), after.get(file)) else {
            collected.changed = Some("replaced".to_owned());
            continue;
        };
        let read = if collected.cut.is_some() { before.size_bytes } else { Some(collected.read_bytes) };
        let changed = match (read, after.size_bytes) {
            _ if before.identity != after.identity => "replaced",
            (Some(read), Some(size)) if size > read => "grew",
            (Some(read), Some(size)) if size < read => "shrank",
            _ => continue,
        };
        collected.changed = Some(changed.to_owned());
    }
}

/// Keeps the manifest small: the omitted files beyond the maximum are only counted.
fn left_out(mut files: Vec<LeftOut>) -> Vec<LeftOut> {
    if files.len() > NAMED {
        let more = files.len() - NAMED;
        files.truncate(NAMED);
        let last = files.last().map_or(Attempt::FIRST, |file| file.job);
        files.push(LeftOut { job: last, file: String::new(), why: format!("and {more} more") });
    }
    files
}
