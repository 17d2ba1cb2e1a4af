//! A stand-in for the parts of a Kubernetes cluster with JobSet and Kueue that Burnin uses. It shares no type with the
//! tested client.
//!
//! It has two halves that communicate only over HTTP: [`Api`], an API server with rules for names, versions, watches and
//! deletions, and with faults; and [`KubernetesControllers`], which simulates the controllers of JobSet, Kueue and jobs, and a kubelet.
//! Pods are processes of this machine: they execute the containers' commands, and their output is the log. A
//! [`KubernetesControllers`] works with any API server.

mod controllers;
pub mod job;
mod logs;
mod rest;
mod store;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub use controllers::{ControllerSettings, KubernetesControllers};
pub use logs::PodLogs;
pub use store::{Key, Objects};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No effect; the connection breaks.
    CutBefore,
    /// The request takes effect; the connection breaks.
    CutAfter,
    /// The connection breaks; the request takes effect 150 ms later.
    Late,
    /// The request takes effect; the response has this status.
    LandsAndAnswers(u16),
    /// No effect; the response has this status.
    Refused(u16),
}

/// Requests that a fault applies to: method, and a part of the path.
type Rule = (&'static str, &'static str, Fault);

/// The API server; stops on drop.
pub struct Api {
    /// Address for the client, `http://host:port`.
    pub endpoint: String,
    state: ServerState,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Clone)]
struct ServerState {
    objects: Arc<Mutex<Objects>>,
    faults: Arc<Mutex<VecDeque<Rule>>>,
    /// Each change of this value cuts every watch and every followed log.
    cut: watch::Sender<u32>,
    changed: watch::Sender<u64>,
    logs: PodLogs,
    /// Denied operations, as `VERB RESOURCE`, and groups that are not served.
    denied: Arc<Mutex<BTreeSet<String>>>,
    /// Served versions of Kueue's kinds.
    kueue: Arc<Mutex<Vec<String>>>,
    /// Requests by method and last parts of the path.
    requests: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl ServerState {
    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kueue(&self) -> MutexGuard<'_, Vec<String>> {
        self.kueue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn denied(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Api {
    /// Starts the server on a free local port.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn serve() -> std::io::Result<Self> {
        let state = ServerState {
            objects: Arc::default(),
            faults: Arc::default(),
            cut: watch::Sender::new(0),
            changed: watch::Sender::new(0),
            logs: PodLogs::default(),
            denied: Arc::default(),
            // The versions that Kueue 0.15 and later serves.
            kueue: Arc::new(Mutex::new(vec!["v1beta1".to_owned(), "v1beta2".to_owned()])),
            requests: Arc::default(),
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let router = rest::router(state.clone());
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        let collected = state.clone();
        let collecting = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                collected.objects().collect();
                collected.notify_watchers();
            }
        });
        Ok(Self { endpoint, state, tasks: vec![serving, collecting] })
    }

    /// Applies a fault to the next request of this method whose path contains this text.
    pub fn fault(&self, method: &'static str, path: &'static str, fault: Fault) {
        self.state.faults.lock().unwrap_or_else(PoisonError::into_inner).push_back((method, path, fault));
    }

    /// Denies an operation, such as `list pods`, or removes a group, such as `kueue.x-k8s.io`.
    pub fn deny(&self, what: &str) {
        self.state.denied().insert(what.to_owned());
    }

    /// Serves Kueue's kinds only in these versions.
    pub fn serve_kueue(&self, versions: &[&str]) {
        *self.state.kueue() = versions.iter().map(|version| (*version).to_owned()).collect();
    }

    /// Adds a ready node with labels, taints and capacity.
    pub fn node(&self, name: &str, spec: &Value, labels: &Value, has: &Value) {
        let key = ("/nodes".to_owned(), String::new(), name.to_owned());
        let node = json!({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {
            "allocatable": has, "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
        self.change(|objects| drop(objects.create(&key, node)));
    }

    /// Adds a priority class. `fields`: the API's fields except `metadata`.
    pub fn priority_class(&self, name: &str, fields: &Value) {
        let key = ("scheduling.k8s.io/priorityclasses".to_owned(), String::new(), name.to_owned());
        let mut class = fields.clone();
        class["metadata"] = json!({"name": name});
        self.change(|objects| drop(objects.create(&key, class)));
    }

    /// Closes every watch and every followed log.
    pub fn cut(&self) {
        self.state.cut.send_modify(|cut| *cut += 1);
    }

    /// Drops the recorded changes: watches that continue from one of them receive `Expired`.
    pub fn compact(&self) {
        self.state.objects().compact();
    }

    /// Number of creations of an object of this kind and name.
    pub fn creations(&self, plural: &str, name: &str) -> usize {
        self.state.objects().creations(plural, name)
    }

    /// Objects of a kind, such as `jobset.x-k8s.io/jobsets` or `/pods`.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        self.state.objects().list(kind, None)
    }

    /// Changes the objects directly.
    pub fn change<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        let done = change(&mut self.state.objects());
        self.state.notify_watchers();
        done
    }

    pub fn logs(&self) -> PodLogs {
        self.state.logs.clone()
    }

    /// Number of requests by method and kind, such as `POST jobsets`.
    pub fn request_count(&self, what: &str) -> usize {
        self.state.requests.lock().unwrap_or_else(PoisonError::into_inner).get(what).copied().unwrap_or(0)
    }
}

impl ServerState {
    fn notify_watchers(&self) {
        let version = self.objects().version();
        self.changed.send_if_modified(|current| std::mem::replace(current, version) != version);
    }
}
