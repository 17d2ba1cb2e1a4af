//! Jobs on an existing Kubernetes cluster: one JobSet per job.
//!
//! At most one job per command: the JobSet's name follows from the job's name, the API assigns a name once, and an object with the name
//! belongs to the job only if it has the job's own annotation. A cancelled job gets a JobSet without pods, which reserves the name.
//! Submissions and end states are recorded in the bucket, so that no job starts again after its objects are deleted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use cluster_api::{
    FileTail, JobSpec, JobStatus, Outputs, PollPace, Scheduler, Settings, SubmittedText, WrittenFile,
    shell::quote,
};
use k8s_openapi::api::core::v1::Pod;
use ledger::{ObjectReader, Store};
use model::{Class, Cluster, Failure, JobEnd};
use serde_json::json;
use service::{Clock, PortError, SystemClock};

use crate::{
    ApiAccess, Kubernetes, Launch, Topology,
    api::{self, ClientCache, CreateOutcome},
    follow::{self, Follower},
    job_notes::{self, JobNotes},
    keys, logs, manifest, names,
    objects::{JobSet, text},
    state::{self, JobFinding, JobObjects},
    yields,
};

/// Maximum wait for a deletion in one call; a later call polls it again.
const DELETION: Duration = Duration::from_secs(20);

/// Minimum interval between polls of a running job.
const PACE: Duration = Duration::from_millis(500);

/// Failure codes of a job that found no free nodes. They end the run of a job that yields to others.
const NO_FREE_NODES: [&str; 4] = ["UNSCHEDULABLE", "ADMISSION_TIMEOUT", "QUOTA", "TOPOLOGY"];

/// Scheduler of Kubernetes clusters.
pub struct KubernetesJobs {
    store: Arc<dyn Store>,
    clients: ClientCache,
    followed: Mutex<HashMap<String, Follower>>,
    pace: PollPace,
}

struct JobContext {
    settings: Kubernetes,
    cluster: api::NamespacedCluster,
    notes: JobNotes,
    jobset: String,
}

/// The object with a job's name.
enum FoundObjects {
    Nothing,
    Ours(JobSet),
    /// The object only reserves the name.
    Fence(JobSet),
}

impl KubernetesJobs {
    /// `store`: bucket of the job notes.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, clients: ClientCache::default(), followed: Mutex::default(), pace: PollPace::new(PACE) }
    }

    /// API client and settings of a cluster.
    async fn client(&self, cluster: &Cluster) -> Result<(api::NamespacedCluster, Kubernetes), PortError> {
        let settings = Kubernetes::of(cluster)?;
        Ok((self.clients.of(&settings).await?, settings))
    }

    async fn job_context(&self, cluster: &Cluster, name: &str) -> Result<JobContext, PortError> {
        let (cluster, settings) = self.client(cluster).await?;
        let (notes, jobset) = (JobNotes::of(&self.store, name), names::name(name));
        Ok(JobContext { settings, cluster, notes, jobset })
    }

    /// Starts reading the output of the job's pods.
    fn follow(&self, context: &JobContext, name: &str) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.entry(name.to_owned()).or_insert_with(|| {
            Follower::start(context.cluster.clone(), context.notes.clone(), &context.jobset)
        });
    }

    fn forget(&self, name: &str) {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    fn observed_pods(&self, name: &str) -> BTreeMap<String, Pod> {
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.get(name).map(Follower::observed_pods).unwrap_or_default()
    }

    /// Current objects of a job, and the last observed state of deleted pods.
    async fn job_objects(
        &self,
        context: &JobContext,
        name: &str,
        jobset: JobSet,
    ) -> Result<JobObjects, PortError> {
        let JobContext { cluster, jobset: called, settings, .. } = context;
        let mut pods = self.observed_pods(name);
        for pod in cluster.pods_of(called).await? {
            pods.insert(text(pod.metadata.uid.as_ref()).to_owned(), pod);
        }
        let mut job_objects =
            JobObjects { pods: pods.into_values().collect(), jobset, ..JobObjects::default() };
        job_objects.pods.sort_by_key(|pod| pod.metadata.name.clone());
        if settings.queue.is_some() {
            let uid = text(job_objects.jobset.metadata.uid.as_ref());
            job_objects.workload = cluster.workload_of(uid).await?;
        }
        if state::has_ended(&job_objects.jobset) {
            job_objects.jobs = cluster.jobs_of(called).await?;
        } else if !job_objects.pods.iter().any(state::began) {
            job_objects.events = cluster.events_of(called).await?;
        }
        Ok(job_objects)
    }

    /// State of a job. Also ends a job that must not continue, and records the end state, which is then final.
    async fn status(&self, context: &JobContext, name: &str) -> Result<JobStatus, PortError> {
        let JobContext { settings, cluster, notes, jobset: called } = context;
        if let Some(recorded) = notes.recorded_end().await? {
            return recorded.map_err(PortError::Permanent);
        }
        let cancelled = notes.cancelled().await?;
        let jobset = match context.find_objects(name).await? {
            FoundObjects::Ours(jobset) => jobset,
            FoundObjects::Fence(_) => {
                return context.record_end(Ok(JobStatus::Ended(JobEnd::new("CANCELLED", None)))).await;
            }
            FoundObjects::Nothing => return context.status_without_jobset(name, cancelled).await,
        };
        let uid = text(jobset.metadata.uid.as_ref()).to_owned();
        notes.note_submitted(&uid).await?;
        let has_ended = state::has_ended(&jobset);
        if !has_ended && (cancelled || jobset.metadata.deletion_timestamp.is_some()) {
            cluster.delete_jobset(called, &uid).await?;
            return Ok(JobStatus::Active); // running until the JobSet is deleted
        }
        if !has_ended {
            self.follow(context, name);
        }
        let job_objects = self.job_objects(context, name, jobset).await?;
        // A pod starts only after its secret exists.
        if !has_ended && !job_objects.pods.iter().any(state::began) {
            context.ensure_ssh_keys(name, &job_objects.jobset).await?;
        }
        let now = SystemClock.now();
        let end = match state::derive(&job_objects, settings, now) {
            JobFinding::Active => return Ok(JobStatus::Active),
            JobFinding::Waiting { code, why } => {
                notes.waits(&format!("{now} {code}: {why}")).await?;
                return Ok(JobStatus::Active);
            }
            JobFinding::Ended(end) if cancelled && end.state != "COMPLETED" => {
                Ok(JobStatus::Ended(JobEnd { state: "CANCELLED".to_owned(), ..end }))
            }
            JobFinding::Ended(end) => Ok(JobStatus::Ended(end)),
            JobFinding::Lost { code, why } if settings.yields && code == "PREEMPTED" => {
                Ok(JobStatus::Yielded { why })
            }
            JobFinding::Failed(failure)
                if settings.yields && NO_FREE_NODES.contains(&failure.code.as_str()) =>
            {
                Ok(JobStatus::Yielded { why: failure.message })
            }
            JobFinding::Lost { code, why } => Ok(JobStatus::Lost { code, why }),
            JobFinding::Failed(failure) => Err(failure),
        };
        if !has_ended {
            // A lost job must not continue or start again. Read its remaining output first.
            self.read_outputs_to_end(context, name).await?;
            cluster.delete_jobset(called, &uid).await?;
        }
        notes.note_nodes(&state::nodes(&job_objects.pods)).await?;
        context.record_end(end).await
    }

    /// Reads every output up to its current end.
    async fn read_outputs_to_end(&self, context: &JobContext, name: &str) -> Result<(), PortError> {
        let JobContext { cluster, notes, jobset, .. } = context;
        let mut pods = self.observed_pods(name);
        for pod in cluster.pods_of(jobset).await? {
            pods.insert(text(pod.metadata.uid.as_ref()).to_owned(), pod);
        }
        for (pod, source) in pods
            .values()
            .flat_map(|pod| follow::sources(cluster, notes, pod).into_iter().map(move |of| (pod, of)))
        {
            match source.finish().await {
                // A lost node may never respond again: stop reading.
                Err(PortError::Transient(why)) if state::node_lost(pod) => {
                    notes.close(&source.stream, Some(format!("the pod's node is lost: {why}"))).await?;
                }
                read => drop(read?),
            }
        }
        // Closes the streams of deleted pods that only another agent has read.
        for stream in notes.streams().await? {
            let mut parts = stream.splitn(3, '.').skip(1).map(str::to_owned);
            let (Some(container), Some(pod)) = (parts.next(), parts.next()) else { continue };
            let (cluster, notes) = (cluster.clone(), notes.clone());
            logs::ContainerOutput { cluster, notes, pod, container, stream }.finish().await?;
        }
        Ok(())
    }
}

impl JobContext {
    fn handle(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.jobset)
    }

    /// The object with the job's name; refuses an object of another owner.
    async fn find_objects(&self, name: &str) -> Result<FoundObjects, PortError> {
        let Some(jobset) = self.cluster.jobset(&self.jobset).await? else { return Ok(FoundObjects::Nothing) };
        let annotation = |key: &str| jobset.metadata.annotations.as_ref().and_then(|all| all.get(key));
        if annotation(names::JOB).is_none_or(|owner| owner != name) {
            let message = format!(
                "JobSet {} in namespace {} does not belong to {name}: annotation `{}: {name}` is missing; delete this JobSet or use another namespace",
                self.jobset,
                self.settings.namespace,
                names::JOB
            );
            return Err(PortError::Permanent(Failure::new(Class::Input, "NAME_TAKEN", message)));
        }
        let fence = annotation(names::FENCE).is_some();
        Ok(if fence { FoundObjects::Fence(jobset) } else { FoundObjects::Ours(jobset) })
    }

    /// State of a job that has no object on the cluster.
    async fn status_without_jobset(&self, name: &str, cancelled: bool) -> Result<JobStatus, PortError> {
        let submitted = self.notes.submitted().await?.is_some();
        let cancelled_end = || Ok(JobStatus::Ended(JobEnd::new("CANCELLED", None)));
        match (cancelled, submitted) {
            // The cancel deleted the JobSet. Do not reserve the name by a JobSet without pods, because no later step
            // would delete this JobSet.
            (true, true) => self.record_end(cancelled_end()).await,
            // A submission may still be in progress. Reserve the name: only the first JobSet of this name is created.
            (true, false) => {
                match self.cluster.create_jobset(&manifest::fence(name, &self.settings)).await? {
                    CreateOutcome::New => self.record_end(cancelled_end()).await,
                    CreateOutcome::Exists => Ok(JobStatus::Active),
                }
            }
            (false, true) => {
                let why = format!("JobSet {} was deleted before its end was observed", self.jobset);
                self.record_end(Ok(JobStatus::Lost { code: "DELETED".to_owned(), why })).await
            }
            (false, false) => Ok(JobStatus::Absent),
        }
    }

    /// The first end state recorded is final.
    async fn record_end(&self, end: job_notes::Final) -> Result<JobStatus, PortError> {
        self.notes.record_end(end).await?.map_err(PortError::Permanent)
    }

    /// Creates the pods' ssh keys if needed, owned by the JobSet.
    async fn ensure_ssh_keys(&self, name: &str, jobset: &JobSet) -> Result<(), PortError> {
        let annotations = jobset.metadata.annotations.as_ref();
        // JobSets of earlier versions lack the annotation, so the launcher is checked as well.
        let needed = annotations.is_some_and(|all| all.contains_key(names::SSH));
        if needed || self.settings.launch == Launch::Mpi {
            let uid = text(jobset.metadata.uid.as_ref());
            let (user, host) = (keys::private_key()?, keys::private_key()?);
            self.cluster.create_secret(&manifest::keys(name, &self.settings, uid, &user, &host)).await?;
        }
        Ok(())
    }
}

/// Command line of kubectl for a node; `None` if the cluster's settings cannot be read.
fn kubectl(cluster: &Cluster, verb: &str, node: &str) -> Option<String> {
    let mut words = vec!["kubectl".to_owned()];
    if let ApiAccess::Kubeconfig { path, context } = Kubernetes::of(cluster).ok()?.access {
        words.extend(path.map(|path| format!("--kubeconfig={}", quote(&path))));
        words.extend(context.map(|context| format!("--context={}", quote(&context))));
    }
    words.extend([verb.to_owned(), quote(node)]);
    Some(words.join(" "))
}

#[async_trait::async_trait]
impl Scheduler for KubernetesJobs {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        self.pace.forget(&job.name);
        let context = self.job_context(&job.cluster, &job.name).await?;
        let JobContext { settings, cluster, notes, .. } = &context;
        // A job that has ended, was cancelled, or was deleted after it existed never starts again.
        if notes.recorded_end().await?.is_some() || notes.cancelled().await? {
            return Ok(context.handle());
        }
        let mut found = context.find_objects(&job.name).await?;
        if matches!(found, FoundObjects::Nothing) {
            if notes.submitted().await?.is_some() {
                return Ok(context.handle());
            }
            if let Some(class) = settings.pod_priority_class.as_ref().filter(|_| settings.yields) {
                yields::check(cluster, class).await?;
            }
            let jobset = manifest::jobset(job, settings).map_err(PortError::Permanent)?;
            let created = cluster.create_jobset(&jobset).await;
            // Read the object in any case: a response may be lost, or another agent may have created it.
            found = context.find_objects(&job.name).await?;
            if let (FoundObjects::Nothing, Err(error)) = (&found, created) {
                return Err(error);
            }
        }
        if let FoundObjects::Ours(jobset) = found {
            let uid = text(jobset.metadata.uid.as_ref());
            notes.note_submitted(uid).await?;
            context.ensure_ssh_keys(&job.name, &jobset).await?;
            if notes.cancelled().await? {
                self.cancel(&job.cluster, &job.name).await?; // the job was cancelled after the submission began
            } else {
                self.follow(&context, &job.name);
            }
        }
        Ok(context.handle())
    }

    fn submission(&self, job: &JobSpec) -> Result<Vec<SubmittedText>, PortError> {
        let settings = Kubernetes::of(&job.cluster)?;
        let jobset = manifest::jobset(job, &settings).map_err(PortError::Permanent)?;
        let text = serde_json::to_string_pretty(&jobset).map_err(PortError::transient)? + "\n";
        let name = format!("JobSet {}/{}", settings.namespace, names::name(&job.name));
        Ok(vec![SubmittedText { name, text }])
    }

    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        if self.pace.is_recent(name) {
            return Ok(JobStatus::Active);
        }
        let context = self.job_context(cluster, name).await?;
        let status = self.status(&context, name).await;
        self.pace.record(name, status.as_ref().ok());
        status
    }

    async fn cancel(&self, cluster: &Cluster, name: &str) -> Result<(), PortError> {
        let context = self.job_context(cluster, name).await?;
        let JobContext { settings, cluster, notes, jobset: called } = &context;
        self.pace.forget(name);
        notes.cancel().await?;
        if notes.recorded_end().await?.is_some() {
            return Ok(());
        }
        loop {
            match context.find_objects(name).await? {
                FoundObjects::Nothing if notes.submitted().await?.is_some() => return Ok(()),
                FoundObjects::Nothing => match cluster.create_jobset(&manifest::fence(name, settings)).await?
                {
                    CreateOutcome::New => return Ok(()),
                    CreateOutcome::Exists => {}
                },
                FoundObjects::Fence(_) => return Ok(()),
                FoundObjects::Ours(jobset) if state::has_ended(&jobset) => return Ok(()),
                FoundObjects::Ours(jobset) => {
                    let uid = text(jobset.metadata.uid.as_ref());
                    notes.note_submitted(uid).await?;
                    self.read_outputs_to_end(&context, name).await?;
                    return cluster.delete_jobset(called, uid).await;
                }
            }
        }
    }

    async fn outputs(&self, cluster: &Cluster, name: &str) -> Result<Outputs, PortError> {
        let notes = JobNotes::of(&self.store, name);
        if notes.submitted().await?.is_none() {
            return Ok(Outputs::default());
        }
        if !notes.drained().await? {
            let context = self.job_context(cluster, name).await?;
            self.read_outputs_to_end(&context, name).await?;
            if notes.recorded_end().await?.is_some() {
                notes.note_drained().await?;
                self.forget(name);
            }
        }
        let mut outputs = Outputs::default();
        for (name, stream) in follow::files(&notes.streams().await?) {
            let missing = notes.end(&stream).await?.map(|end| end.missing).unwrap_or_default();
            outputs.others.extend(missing.into_iter().map(|why| (name.clone(), why)));
            let size_bytes = Some(notes.cursor(&stream).await?.bytes);
            outputs.files.push(WrittenFile { name, size_bytes, identity: None });
        }
        for name in [WAITING, ENDS] {
            let text = read_complete(&notes, name).await?;
            if !text.is_empty() {
                outputs.files.push(WrittenFile {
                    name: name.to_owned(),
                    size_bytes: Some(text.len() as u64),
                    identity: None,
                });
            }
        }
        Ok(outputs)
    }

    async fn output(&self, _: &Cluster, name: &str, file: &str) -> Result<ObjectReader, PortError> {
        let notes = JobNotes::of(&self.store, name);
        if [WAITING, ENDS].contains(&file) {
            return Ok(Box::new(std::io::Cursor::new(read_complete(&notes, file).await?)));
        }
        notes.open(&stream(&notes, file).await?).await
    }

    async fn read_tail(
        &self,
        _: &Cluster,
        name: &str,
        file: &str,
        bytes: u64,
    ) -> Result<Option<FileTail>, PortError> {
        if [WAITING, ENDS].contains(&file) {
            return Ok(None);
        }
        let notes = JobNotes::of(&self.store, name);
        let stream = stream(&notes, file).await?;
        let from = notes.cursor(&stream).await?.bytes.saturating_sub(bytes);
        Ok(Some(FileTail { from, body: notes.open_from(&stream, from).await? }))
    }

    async fn nodes(&self, _: &Cluster, name: &str) -> Result<Vec<String>, PortError> {
        let known = JobNotes::of(&self.store, name).nodes().await?.filter(|nodes| !nodes.is_empty());
        known.ok_or_else(|| {
            let why = format!("the nodes of {name} are unknown: no pod was observed on a node");
            PortError::Permanent(Failure::new(Class::Infrastructure, "NODES_UNKNOWN", why))
        })
    }

    fn part(&self, cluster: &Cluster, names: &[&str]) -> Result<Cluster, PortError> {
        let whole = Kubernetes::of(cluster)?;
        let part = Kubernetes {
            nodes: u32::try_from(names.len()).unwrap_or(u32::MAX),
            only_nodes: names.iter().map(|&name| name.to_owned()).collect(),
            // Named nodes may be in different blocks of the topology.
            topology: whole.topology.as_ref().map(|_| Topology::Unconstrained),
            // Parts run many short tests; only a failure of the whole job is inspected.
            keep_on_failure: None,
            ..whole
        };
        Ok(cluster.part(names, Settings::access(&part)))
    }

    fn drain_command(&self, cluster: &Cluster, node: &str, _: &str) -> Option<String> {
        kubectl(cluster, "cordon", node)
    }

    async fn drain(&self, cluster: &Cluster, node: &str, reason: &str) -> Result<(), PortError> {
        self.client(cluster).await?.0.cordon(node, reason).await
    }

    fn return_command(&self, cluster: &Cluster, node: &str) -> Option<String> {
        kubectl(cluster, "uncordon", node)
    }

    async fn return_node(&self, cluster: &Cluster, node: &str) -> Result<(), PortError> {
        self.client(cluster).await?.0.uncordon(node).await
    }

    async fn release(&self, cluster: &Cluster, name: &str) -> Result<(), PortError> {
        let context = self.job_context(cluster, name).await?;
        let JobContext { cluster, notes, jobset: called, .. } = &context;
        if notes.released().await? {
            return Ok(());
        }
        let until = Instant::now() + DELETION;
        loop {
            if let FoundObjects::Ours(jobset) | FoundObjects::Fence(jobset) =
                context.find_objects(name).await?
            {
                let uid = text(jobset.metadata.uid.as_ref());
                cluster.delete_jobset(called, uid).await?;
            }
            let left = cluster.left_of(called).await?;
            if left.is_empty() {
                self.forget(name);
                return notes.note_released().await;
            }
            if Instant::now() > until {
                return Err(PortError::Transient(format!(
                    "{}: still being deleted: {}",
                    context.handle(),
                    left.join(", ")
                )));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Reasons for waiting, in order.
const WAITING: &str = "waiting.log";
/// Size and SHA-256 of each output, and whether it was read completely.
const ENDS: &str = "outputs.json";

/// One of the files `waiting.log` and `outputs.json`, which the agent itself writes.
async fn read_complete(notes: &JobNotes, file: &str) -> Result<Vec<u8>, PortError> {
    if file == WAITING {
        return Ok(notes
            .waiting()
            .await?
            .into_iter()
            .flat_map(|line| line.into_bytes().into_iter().chain([b'\n']))
            .collect());
    }
    let mut ends = serde_json::Map::new();
    for (name, stream) in follow::files(&notes.streams().await?) {
        ends.insert(name, json!(notes.end(&stream).await?));
    }
    if ends.is_empty() {
        Ok(Vec::new())
    } else {
        serde_json::to_vec_pretty(&ends).map_err(PortError::transient)
    }
}

async fn stream(notes: &JobNotes, file: &str) -> Result<String, PortError> {
    follow::files(&notes.streams().await?).remove(file).ok_or_else(|| {
        PortError::Permanent(Failure::new(
            Class::Workload,
            "UNREADABLE",
            format!("the job has no file {}", file.escape_debug()),
        ))
    })
}
