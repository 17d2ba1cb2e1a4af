//! A cluster for a test: the stand-in's API server and controllers, and a scheduler with a kubeconfig.

use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use cluster_api::{JobSpec, JobStatus, Scheduler, Settings, scheduler_conformance};
use cluster_kubernetes::{ApiAccess, Kubernetes, KubernetesJobs};
use kubernetes_standin::{Api, ControllerSettings, KubernetesControllers};
use ledger::{MemoryStore, Store};
use model::{Cluster, JobEnd, Span};
use serde_json::{Value, json};
use service::PortError;

pub struct KubernetesBed {
    pub api: Api,
    pub controllers: KubernetesControllers,
    pub store: Arc<dyn Store>,
    pub root: tempfile::TempDir,
}

impl KubernetesBed {
    /// Starts the bed. `program` is the shell text of `all_reduce_perf` in the image.
    pub async fn new(program: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let api = Api::serve().await.unwrap();
        let bed = Self {
            controllers: KubernetesControllers::start(
                controller_settings(&api.endpoint, root.path()),
                api.logs(),
            ),
            api,
            store: Arc::new(MemoryStore::default()),
            root,
        };
        let file = bed.root.path().join("all_reduce_perf");
        std::fs::write(&file, format!("#!/bin/bash\n{program}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        kubeconfig(bed.root.path(), &bed.api.endpoint, &json!({}));
        bed
    }

    pub fn settings(&self, more: Value) -> Kubernetes {
        let path = self.root.path().join("kubeconfig").display().to_string();
        settings(ApiAccess::Kubeconfig { path: Some(path), context: None }, more)
    }

    pub fn jobs(&self) -> KubernetesJobs {
        KubernetesJobs::new(Arc::clone(&self.store))
    }

    pub fn cluster(&self, more: Value) -> Cluster {
        Cluster { name: "bed".into(), nodes: vec![], access: Settings::access(&self.settings(more)) }
    }

    pub fn job(&self, name: &str, more: Value) -> JobSpec {
        job(name, self.cluster(more))
    }

    /// Number of created JobSets of this job, without markers of a cancellation.
    pub fn created_jobsets(&self, job: &str) -> usize {
        self.api.creations("jobsets", &cluster_kubernetes::names::name(job))
    }
}

pub fn controller_settings(endpoint: &str, programs: &Path) -> ControllerSettings {
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let ssh_port = free.unwrap().port();
    ControllerSettings {
        endpoint: endpoint.to_owned(),
        programs: programs.to_owned(),
        ssh_port,
        ..ControllerSettings::default()
    }
}

pub fn kubeconfig(folder: &Path, server: &str, user: &Value) {
    let insecure = server.starts_with("https");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "bed",
        "clusters": [{"name": "bed", "cluster": {"server": server, "insecure-skip-tls-verify": insecure}}],
        "users": [{"name": "bed", "user": user}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "bed"}}]});
    std::fs::write(folder.join("kubeconfig"), config.to_string()).unwrap();
}

pub fn settings(access: ApiAccess, more: Value) -> Kubernetes {
    let image = format!("registry.example/burnin@sha256:{}", "0".repeat(64));
    let mut all = json!({"nodes": 2, "image": image, "access": access});
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

pub fn job(name: &str, cluster: Cluster) -> JobSpec {
    JobSpec {
        name: name.to_owned(),
        cluster,
        image: None,
        program: scheduler_conformance::program(),
        limit: Span::from_secs(120),
        environment: Default::default(),
        evidence: false,
        labels: [
            ("burnin-run".to_owned(), "r-1".to_owned()),
            ("burnin-expires".to_owned(), "2026-11-21T10:00:00.000Z".to_owned()),
        ]
        .into(),
    }
}

/// Waits for a condition, at most 60 s.
pub async fn wait_for(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < Duration::from_secs(60), "timeout: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until a job has ended, with any result.
pub async fn final_status(jobs: &dyn Scheduler, job: &JobSpec) -> Result<JobStatus, PortError> {
    let start = Instant::now();
    loop {
        match jobs.poll(&job.cluster, &job.name).await {
            Ok(JobStatus::Active) | Err(PortError::Transient(_)) => {}
            end => return end,
        }
        assert!(start.elapsed() < Duration::from_secs(60), "timeout: {} has not ended", job.name);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub async fn ended(jobs: &dyn Scheduler, job: &JobSpec) -> JobEnd {
    match final_status(jobs, job).await {
        Ok(JobStatus::Ended(end)) => end,
        other => panic!("{}: {other:?}", job.name),
    }
}

pub async fn text(jobs: &dyn Scheduler, job: &JobSpec, file: &str) -> String {
    let mut body = jobs.output(&job.cluster, &job.name, file).await.unwrap();
    let mut text = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut body, &mut text).await.unwrap();
    text
}
