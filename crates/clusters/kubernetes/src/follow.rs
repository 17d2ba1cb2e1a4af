//! Follows a job's pods: reads their output while they write, and keeps the last state of a pod after its deletion.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::task::{AbortHandle, JoinSet};

use crate::{
    api::NamespacedCluster,
    job_notes::JobNotes,
    logs::ContainerOutput,
    names,
    objects::{containers, is_running, is_terminated, text},
    state,
};

/// Follows one job until dropped.
pub struct Follower {
    observed: Arc<Mutex<BTreeMap<String, Pod>>>,
    watching: AbortHandle,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Follower {
    /// Follows the pods of a JobSet. A broken watch resumes; if its resource version has expired, the pods are listed again.
    pub fn start(cluster: NamespacedCluster, notes: JobNotes, jobset: &str) -> Self {
        let observed = Arc::new(Mutex::new(BTreeMap::new()));
        let (all, selector) = (Arc::clone(&observed), format!("jobset.sigs.k8s.io/jobset-name={jobset}"));
        let watch = async move {
            let (mut streams, mut reading) = (BTreeSet::new(), JoinSet::new());
            let config = watcher::Config::default().labels(&selector);
            let mut events = std::pin::pin!(watcher(cluster.pods(), config).default_backoff());
            loop {
                let pod = match events.try_next().await {
                    Ok(Some(
                        watcher::Event::Apply(pod)
                        | watcher::Event::InitApply(pod)
                        | watcher::Event::Delete(pod),
                    )) => pod,
                    Ok(Some(_)) => continue,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!("the watch of {selector} is retried: {}", service::chain(&error));
                        continue;
                    }
                };
                for source in sources(&cluster, &notes, &pod) {
                    if streams.insert(source.stream.clone()) {
                        reading.spawn(async move { source.follow().await });
                    }
                }
                let uid = text(pod.metadata.uid.as_ref()).to_owned();
                all.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, pod);
            }
            while reading.join_next().await.is_some() {}
        };
        Self { observed, watching: tokio::spawn(watch).abort_handle() }
    }

    /// Every observed pod, deleted ones included, in its last observed state.
    pub fn observed_pods(&self) -> BTreeMap<String, Pod> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The outputs of a pod whose containers have started.
pub fn sources(cluster: &NamespacedCluster, notes: &JobNotes, pod: &Pod) -> Vec<ContainerOutput> {
    let name = text(pod.metadata.name.as_ref());
    let index = state::index(pod);
    containers(pod)
        .filter(|container| is_running(container) || is_terminated(container))
        .map(|container| ContainerOutput {
            cluster: cluster.clone(),
            notes: notes.clone(),
            pod: name.to_owned(),
            container: container.name.clone(),
            stream: format!("{index:05}.{}.{name}", container.name),
        })
        .collect()
}

/// Streams by file name: the first pod's stream is the benchmark's log, and each other node has its own log.
pub fn files(streams: &[String]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for stream in streams {
        let mut parts = stream.splitn(3, '.');
        let (index, container, pod) =
            (parts.next(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let index: u32 = index.and_then(|index| index.parse().ok()).unwrap_or(0);
        let name = match (index, container == names::CONTAINER) {
            (0, true) => "benchmark".to_owned(),
            (index, true) => format!("node-{index}"),
            (index, false) => format!("node-{index}.{container}"),
        };
        let plain = format!("{name}.log");
        let name = if files.contains_key(&plain) { format!("{name}.{pod}.log") } else { plain };
        files.insert(name, stream.clone());
    }
    files
}
