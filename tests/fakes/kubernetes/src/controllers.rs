//! Minimal controllers of JobSet, Kueue and jobs, a scheduler and a kubelet. They poll all objects, and use the API
//! like other clients.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::Command,
    task::{JoinHandle, JoinSet},
};

use crate::{PodLogs, job, store::now};

#[derive(Clone, Debug, Default)]
pub struct ControllerSettings {
    /// The API's address.
    pub endpoint: String,
    /// Credentials for the API, if it requires any.
    pub token: Option<String>,
    /// Folder with the images' programs, on the `PATH` of the pods.
    pub programs: PathBuf,
    /// Port of sshd in pods with an sshd; all pods share this machine's ports.
    pub ssh_port: u16,
    /// Whether another program creates the pods of jobs and deletes objects without an owner.
    pub has_controllers: bool,
}

/// Running controllers; they stop on drop.
pub struct KubernetesControllers {
    turning: JoinHandle<()>,
    /// Whether Kueue admits no workload.
    held: Arc<AtomicBool>,
    evicted: Arc<Mutex<BTreeSet<String>>>,
}

impl Drop for KubernetesControllers {
    fn drop(&mut self) {
        self.turning.abort();
    }
}

impl KubernetesControllers {
    pub fn start(settings: ControllerSettings, logs: PodLogs) -> Self {
        let (held, evicted) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let client =
            reqwest::Client::builder().user_agent("world").tls_danger_accept_invalid_certs(true).build();
        let turn = ControllerTurn {
            client: client.unwrap_or_default(),
            settings,
            logs,
            held: Arc::clone(&held),
            evicted: Arc::clone(&evicted),
            started: Mutex::default(),
        };
        let turning = tokio::spawn(async move {
            let turn = Arc::new(turn);
            loop {
                turn.reconcile().await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { turning, held, evicted }
    }

    /// Sets whether Kueue admits workloads.
    pub fn hold(&self, held: bool) {
        self.held.store(held, Ordering::SeqCst);
    }

    /// Makes Kueue evict this JobSet.
    pub fn evict(&self, jobset: &str) {
        self.evicted.lock().unwrap_or_else(PoisonError::into_inner).insert(jobset.to_owned());
    }
}

struct ControllerTurn {
    client: reqwest::Client,
    settings: ControllerSettings,
    logs: PodLogs,
    held: Arc<AtomicBool>,
    evicted: Arc<Mutex<BTreeSet<String>>>,
    /// Process groups of pods, by uid; removed at their end.
    started: Mutex<BTreeMap<String, Option<i32>>>,
}

const JOBSETS: &str = "apis/jobset.x-k8s.io/v1alpha2";
const WORKLOADS: &str = "apis/kueue.x-k8s.io/v1beta1";
const JOBS: &str = "apis/batch/v1";
const CORE: &str = "api/v1";

impl ControllerTurn {
    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let method = reqwest::Method::from_bytes(method.as_bytes()).ok()?;
        let mut request = self.client.request(method.clone(), format!("{}/{path}", self.settings.endpoint));
        if let Some(token) = &self.settings.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            request = request.header("content-type", kind).body(body.to_string());
        }
        let answer = request.send().await.ok()?;
        if !answer.status().is_success() {
            return None;
        }
        serde_json::from_slice(&answer.bytes().await.ok()?).ok()
    }

    async fn list(&self, group: &str, plural: &str) -> Vec<Value> {
        let found = self.send("GET", &format!("{group}/{plural}"), None).await;
        found.and_then(|found| found["items"].as_array().cloned()).unwrap_or_default()
    }

    async fn patch(&self, group: &str, plural: &str, object: &Value, below: &str, patch: &Value) {
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        self.send("PATCH", &format!("{group}/namespaces/{namespace}/{plural}/{name}{below}"), Some(patch))
            .await;
    }

    async fn make(&self, group: &str, plural: &str, namespace: &str, object: &Value) {
        self.send("POST", &format!("{group}/namespaces/{namespace}/{plural}"), Some(object)).await;
    }

    async fn reconcile(self: &Arc<Self>) {
        let (jobsets, jobs) = (self.list(JOBSETS, "jobsets").await, self.list(JOBS, "jobs").await);
        let (pods, workloads) = (self.list(CORE, "pods").await, self.list(WORKLOADS, "workloads").await);
        for jobset in jobsets.iter().filter(|jobset| !jobset["metadata"]["deletionTimestamp"].is_string()) {
            self.kueue(jobset, &workloads).await;
            self.jobset(jobset, &jobs).await;
        }
        if !self.settings.has_controllers {
            for job in jobs.iter().filter(|job| !job["metadata"]["deletionTimestamp"].is_string()) {
                self.job(job, &pods).await;
            }
        }
        for pod in &pods {
            self.kubelet(pod).await;
        }
    }

    async fn kueue(&self, jobset: &Value, workloads: &[Value]) {
        let meta = &jobset["metadata"];
        if !meta["labels"]["kueue.x-k8s.io/queue-name"].is_string() {
            return;
        }
        let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
        let Some(workload) = workloads.iter().find(|workload| owned(workload, meta)) else {
            let template = &jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
            let set = json!({"name": "n", "count": 1, "template": template});
            let workload = json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": {
                "name": format!("jobset-{name}-0"), "labels": {"kueue.x-k8s.io/job-uid": meta["uid"]},
                "ownerReferences": [owner("jobset.x-k8s.io/v1alpha2", "JobSet", meta)]},
                "spec": {"queueName": meta["labels"]["kueue.x-k8s.io/queue-name"], "podSets": [set]}});
            return self.make(WORKLOADS, "workloads", namespace, &workload).await;
        };
        let say = |kind: &str, status: &str, reason: &str, message: &str| {
            json!({"status": {"conditions": [{"type": kind, "status": status, "reason": reason, "message": message,
                                              "lastTransitionTime": now()}]}})
        };
        let condition = text(&workload["status"]["conditions"][0]["type"]).to_owned()
            + text(&workload["status"]["conditions"][0]["status"]);
        if self.evicted.lock().unwrap_or_else(PoisonError::into_inner).contains(name) {
            if condition != "EvictedTrue" {
                let why =
                    "Preempted to accommodate a workload (UID: 1) due to prioritization in the ClusterQueue";
                self.patch(
                    WORKLOADS,
                    "workloads",
                    workload,
                    "/status",
                    &say("Evicted", "True", "Preempted", why),
                )
                .await;
                self.patch(JOBSETS, "jobsets", jobset, "", &json!({"spec": {"suspend": true}})).await;
            }
        } else if self.held.load(Ordering::SeqCst) {
            if condition != "QuotaReservedFalse" {
                let why = "couldn't assign flavors to pod set n: insufficient unused quota for nvidia.com/gpu in flavor a4, 8 more needed";
                self.patch(
                    WORKLOADS,
                    "workloads",
                    workload,
                    "/status",
                    &say("QuotaReserved", "False", "Pending", why),
                )
                .await;
            }
        } else if jobset["spec"]["suspend"] == true {
            self.patch(
                WORKLOADS,
                "workloads",
                workload,
                "/status",
                &say("Admitted", "True", "Admitted", "The workload is admitted"),
            )
            .await;
            self.patch(JOBSETS, "jobsets", jobset, "", &json!({"spec": {"suspend": false}})).await;
        }
    }

    async fn jobset(&self, jobset: &Value, jobs: &[Value]) {
        let meta = &jobset["metadata"];
        if jobset["status"]["terminalState"].is_string() || jobset["spec"]["suspend"] == true {
            return;
        }
        let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
        let us = owner("jobset.x-k8s.io/v1alpha2", "JobSet", meta);
        let ours: Vec<_> = jobs.iter().filter(|job| owned(job, meta)).collect();
        if ours.is_empty() {
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "ownerReferences": [us]},
                "spec": {"clusterIP": "None", "selector": {"jobset.sigs.k8s.io/jobset-name": name}}});
            self.make(CORE, "services", namespace, &service).await;
            let replicated = jobset["spec"]["replicatedJobs"].as_array().into_iter().flatten();
            for replicated in replicated.filter(|replicated| replicated["replicas"] != 0) {
                let mut spec = replicated["template"]["spec"].clone();
                let mut labels =
                    spec["template"]["metadata"]["labels"].as_object().cloned().unwrap_or_default();
                labels.insert("jobset.sigs.k8s.io/jobset-name".to_owned(), json!(name));
                labels.insert("jobset.sigs.k8s.io/replicatedjob-name".to_owned(), replicated["name"].clone());
                spec["template"]["metadata"]["labels"] = json!(labels);
                let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec, "metadata": {
                    "name": format!("{name}-{}-0", text(&replicated["name"])), "ownerReferences": [us], "labels": labels}});
                self.make(JOBS, "jobs", namespace, &job).await;
            }
            return;
        }
        let over = |job: &Value, kind: &str| {
            conditions(job).any(|condition| condition["type"] == kind && condition["status"] == "True")
        };
        let targets = jobset["spec"]["successPolicy"]["targetReplicatedJobs"].as_array();
        let counts = |job: &Value| {
            let replicated = &job["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"];
            targets.is_none_or(|targets| targets.contains(replicated))
        };
        let failed = ours.iter().find(|job| over(job, "Failed"));
        let completed = ours.iter().filter(|job| counts(job)).all(|job| over(job, "Complete"));
        let (state, reason, message) = match (completed, failed) {
            (true, _) => ("Completed", "AllJobsCompleted", "jobset completed successfully".to_owned()),
            (_, Some(job)) => (
                "Failed",
                "FailedJobs",
                format!(
                    "jobset failed due to one or more job failures (first failed job: {})",
                    text(&job["metadata"]["name"])
                ),
            ),
            _ => return,
        };
        // Pods that still run are deleted.
        for job in ours.iter().filter(|job| !over(job, "Complete") && !over(job, "Failed")) {
            let job = text(&job["metadata"]["name"]);
            let foreground = json!({"propagationPolicy": "Foreground"});
            self.send("DELETE", &format!("{JOBS}/namespaces/{namespace}/jobs/{job}"), Some(&foreground))
                .await;
        }
        let status = json!({"status": {"terminalState": state, "restarts": 0, "replicatedJobsStatus": [], "conditions": [
            {"type": state, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}]}});
        self.patch(JOBSETS, "jobsets", jobset, "/status", &status).await;
    }

    async fn job(&self, job: &Value, pods: &[Value]) {
        let (meta, spec) = (&job["metadata"], &job["spec"]);
        if conditions(job).next().is_some() {
            return;
        }
        let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
        let ours: Vec<_> = pods.iter().filter(|pod| owned(pod, meta)).collect();
        let Some((kind, reason)) = job::result(spec, &ours) else {
            for number in job::missing_indexes(spec, &ours) {
                let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": spec["template"]["metadata"], "spec": spec["template"]["spec"],
                                     "status": {"phase": "Pending"}});
                pod["metadata"]["generateName"] = json!(format!("{name}-{number}-"));
                pod["metadata"]["labels"][job::INDEX] = json!(number.to_string());
                pod["metadata"]["ownerReferences"] = json!([owner("batch/v1", "Job", meta)]);
                self.make(CORE, "pods", namespace, &pod).await;
            }
            return;
        };
        let active: Vec<_> = ours
            .iter()
            .filter(|pod| !job::in_phase(pod, "Succeeded") && !job::in_phase(pod, "Failed"))
            .collect();
        if !active.is_empty() {
            for pod in active {
                let pod = text(&pod["metadata"]["name"]);
                self.send("DELETE", &format!("{CORE}/namespaces/{namespace}/pods/{pod}"), Some(&json!({})))
                    .await;
            }
            return;
        }
        let status = json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": ""}]}});
        self.patch(JOBS, "jobs", job, "/status", &status).await;
    }

    /// Schedules and runs a pod; stops it when it is deleted.
    async fn kubelet(self: &Arc<Self>, pod: &Value) {
        let (meta, uid) = (&pod["metadata"], text(&pod["metadata"]["uid"]).to_owned());
        let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
        let group = self.started.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).copied();
        if meta["deletionTimestamp"].is_string() {
            match group {
                Some(Some(group)) => end(group),
                _ => {
                    let now = json!({"gracePeriodSeconds": 0});
                    self.send("DELETE", &format!("{CORE}/namespaces/{namespace}/pods/{name}"), Some(&now))
                        .await;
                }
            }
            return;
        }
        if !pod["spec"]["nodeName"].is_string() {
            let index = job::index(pod);
            let node = match pod["spec"]["nodeSelector"]["kubernetes.io/hostname"].as_str() {
                Some(named) => named.to_owned(),
                None if self.settings.has_controllers => "node-1".to_owned(), // this cluster has only one node
                None => format!("node-{}", index.parse().unwrap_or(0) + 1),
            };
            let bind = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
            match self.settings.has_controllers {
                true => drop(
                    self.send(
                        "POST",
                        &format!("{CORE}/namespaces/{namespace}/pods/{name}/binding"),
                        Some(&bind),
                    )
                    .await,
                ),
                false => self.patch(CORE, "pods", pod, "", &json!({"spec": {"nodeName": node}})).await,
            }
            return;
        }
        if group.is_some() || ["Succeeded", "Failed"].iter().any(|over| pod["status"]["phase"] == *over) {
            return;
        }
        self.started.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone(), None);
        let (turn, pod) = (Arc::clone(self), pod.clone());
        tokio::spawn(async move { turn.run(&pod, uid).await });
    }

    async fn run(&self, pod: &Value, uid: String) {
        let (name, container) =
            (text(&pod["metadata"]["name"]).to_owned(), pod["spec"]["containers"][0].clone());
        let which = text(&container["name"]).to_owned();
        let Ok(folder) = TempDir::new() else { return };
        let last_word = folder.path().join("last-word");
        let nodes = container["env"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|variable| variable["name"] == "BURNIN_NODES");
        let nodes: usize = nodes.and_then(|variable| text(&variable["value"]).parse().ok()).unwrap_or(1);
        let words: Vec<&str> = container["command"].as_array().into_iter().flatten().map(text).collect();
        let [program, arguments @ ..] = &words[..] else { return };
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(container["env"].as_array().into_iter().flatten().map(|variable| {
                match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                    Some("spec.nodeName") => (text(&variable["name"]), text(&pod["spec"]["nodeName"])),
                    _ => (text(&variable["name"]), text(&variable["value"])),
                }
            }))
            .env("PATH", format!("{}:{path}", self.settings.programs.display()))
            .env("JOB_COMPLETION_INDEX", job::index(pod))
            .env("BURNIN_HOSTS", vec!["127.0.0.1"; nodes].join(","))
            .env("BURNIN_RUN_FOLDER", folder.path())
            .env("BURNIN_LAST_WORD", &last_word)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        // Writes the files of mounted secrets.
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        for secret in volumes.filter_map(|volume| volume["secret"]["secretName"].as_str()) {
            let path = format!("{CORE}/namespaces/{}/secrets/{secret}", text(&pod["metadata"]["namespace"]));
            let mut found = None;
            while found.is_none() {
                found = self.send("GET", &path, None).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            for (file, content) in found.iter().filter_map(|found| found["stringData"].as_object()).flatten()
            {
                _ = std::fs::write(folder.path().join(file), text(content));
            }
            command
                .env("BURNIN_KEYS", folder.path())
                .env("BURNIN_SSH_PORT", self.settings.ssh_port.to_string());
        }
        self.logs.begin(&name, &which);
        let begun = now();
        let status = |state: Value| json!([{"name": which, "image": container["image"], "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
        let Ok(mut child) = command.spawn() else { return };
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        self.started.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone(), group);
        let running = json!({"running": {"startedAt": begun}});
        let document =
            json!({"status": {"phase": "Running", "startTime": begun, "containerStatuses": status(running)}});
        self.patch(CORE, "pods", pod, "/status", &document).await;
        let mut reading = JoinSet::new();
        let outputs: [Option<Box<dyn AsyncRead + Send + Unpin>>; 2] = [
            child.stdout.take().map(|out| Box::new(out) as _),
            child.stderr.take().map(|out| Box::new(out) as _),
        ];
        for output in outputs.into_iter().flatten() {
            let (logs, name, which) = (self.logs.clone(), name.clone(), which.clone());
            reading.spawn(async move {
                let (mut output, mut line) = (BufReader::new(output), Vec::new());
                while output.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
                    logs.line(&name, &which, &std::mem::take(&mut line));
                }
            });
        }
        let ended = child.wait().await.ok();
        if let Some(group) = group {
            end(group); // remaining processes of the pod
        }
        // A daemon is not in the pod's process group.
        let daemon = std::fs::read_to_string(folder.path().join("sshd.pid")).ok();
        if let Some(daemon) = daemon.and_then(|id| Pid::from_raw(id.trim().parse().ok()?)) {
            _ = kill_process(daemon, Signal::KILL);
        }
        while reading.join_next().await.is_some() {}
        self.logs.end(&name, &which);
        let signal =
            |status: &std::process::ExitStatus| std::os::unix::process::ExitStatusExt::signal(status);
        let code = ended
            .and_then(|status| status.code().or_else(|| signal(&status).map(|signal| 128 + signal)))
            .unwrap_or(137);
        // Like a kubelet with `FallbackToLogsOnError`: without a message, a failed container's last output is the
        // message.
        let message = std::fs::read_to_string(&last_word).unwrap_or_default();
        let message =
            if message.is_empty() && code != 0 { self.logs.tail(&name, &which, 2048) } else { message };
        let terminated = json!({"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
            "message": message, "startedAt": begun, "finishedAt": now()}});
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let document = json!({"status": {"phase": phase, "containerStatuses": status(terminated)}});
        self.patch(CORE, "pods", pod, "/status", &document).await;
        self.started.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, None);
    }
}

fn end(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        _ = kill_process_group(group, Signal::KILL);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    let over = |condition: &&Value| ["Complete", "Failed"].iter().any(|kind| condition["type"] == *kind);
    object["status"]["conditions"].as_array().into_iter().flatten().filter(over)
}

fn owner(version: &str, kind: &str, meta: &Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": true, "blockOwnerDeletion": true})
}

fn owned(object: &Value, meta: &Value) -> bool {
    object["metadata"]["ownerReferences"]
        .as_array()
        .is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == meta["uid"]))
}
