//! A stand-in for a Kubernetes cluster with JobSet and Kueue, as far as Burnin uses one. It shares no type with the client
//! that is tested against it.
//!
//! Two halves that meet only over HTTP: [`Api`], an API server with its rules about names, versions, watches and
//! deletions, and with faults; and [`World`], which does what JobSet's, Kueue's and the job controllers and a kubelet do.
//! The world's pods are processes of this machine: what the pods' containers would run runs, and its output is the log. A
//! world works on any API server.

mod logs;
mod rest;
mod store;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub use logs::Logs;
pub use store::{Key, Objects};
pub use world::{Wants, World};

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has no effect, and the connection breaks.
    CutBefore,
    /// It has its effect, and the connection breaks.
    CutAfter,
    /// It has its effect a while after the connection broke.
    Late,
    /// It has its effect, and the answer is this status.
    LandsAndAnswers(u16),
    /// It has no effect, and the answer is this status.
    Refused(u16),
}

/// What a request must be for a fault: its method, and what is in its path.
type Rule = (&'static str, &'static str, Fault);

/// The API server, until it is dropped.
pub struct Api {
    /// Where it is.
    pub endpoint: String,
    state: State,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Clone)]
struct State {
    objects: Arc<Mutex<Objects>>,
    faults: Arc<Mutex<VecDeque<Rule>>>,
    /// Cuts every watch and every log that is being followed when it changes.
    cut: watch::Sender<u32>,
    changed: watch::Sender<u64>,
    logs: Logs,
    /// What may not be done, as `VERB RESOURCE`, and groups that are not served.
    denied: Arc<Mutex<BTreeSet<String>>>,
    /// Versions in which Kueue's kinds are served.
    kueue: Arc<Mutex<Vec<String>>>,
    /// Requests by method and last parts of the path.
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl State {
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
    /// Serves on a port of this machine.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn serve() -> std::io::Result<Self> {
        let state = State {
            objects: Arc::default(),
            faults: Arc::default(),
            cut: watch::Sender::new(0),
            changed: watch::Sender::new(0),
            logs: Logs::default(),
            denied: Arc::default(),
            // As Kueue 0.15 and later serves them.
            kueue: Arc::new(Mutex::new(vec!["v1beta1".to_owned(), "v1beta2".to_owned()])),
            asked: Arc::default(),
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
                collected.told();
            }
        });
        Ok(Self { endpoint, state, tasks: vec![serving, collecting] })
    }

    /// The next request of this method with this in its path goes wrong so.
    pub fn fault(&self, method: &'static str, path: &'static str, fault: Fault) {
        self.state.faults.lock().unwrap_or_else(PoisonError::into_inner).push_back((method, path, fault));
    }

    /// Callers may not do this, as in `list pods`; or a group is not installed, as in `kueue.x-k8s.io`.
    pub fn deny(&self, what: &str) {
        self.state.denied().insert(what.to_owned());
    }

    /// Kueue's kinds are served in these versions and in no other.
    pub fn serve_kueue(&self, versions: &[&str]) {
        *self.state.kueue() = versions.iter().map(|version| (*version).to_owned()).collect();
    }

    /// A ready node, with its labels, taints and capacity.
    pub fn node(&self, name: &str, spec: &Value, labels: &Value, has: &Value) {
        let key = ("/nodes".to_owned(), String::new(), name.to_owned());
        let node = json!({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {
            "allocatable": has, "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
        self.change(|objects| drop(objects.create(&key, node)));
    }

    /// Breaks every watch and every log that is being followed.
    pub fn cut(&self) {
        self.state.cut.send_modify(|cut| *cut += 1);
    }

    /// Forgets the changes there were: watches that continue from one of them are answered as too old.
    pub fn compact(&self) {
        self.state.objects().compact();
    }

    /// How often an object of this kind and name was created.
    pub fn creations(&self, plural: &str, name: &str) -> usize {
        self.state.objects().creations(plural, name)
    }

    /// Objects of a kind, for instance `jobset.x-k8s.io/jobsets` or `/pods`.
    pub fn list(&self, kind: &str) -> Vec<Value> {
        self.state.objects().list(kind, None)
    }

    /// Changes the objects by hand.
    pub fn change<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        let done = change(&mut self.state.objects());
        self.state.told();
        done
    }

    /// What the containers wrote.
    pub fn logs(&self) -> Logs {
        self.state.logs.clone()
    }

    /// How often such a request came: the method and the kind, as in `POST jobsets`.
    pub fn asked(&self, what: &str) -> usize {
        self.state.asked.lock().unwrap_or_else(PoisonError::into_inner).get(what).copied().unwrap_or(0)
    }
}

impl State {
    fn told(&self) {
        let version = self.objects().version();
        self.changed.send_if_modified(|told| std::mem::replace(told, version) != version);
    }
}
