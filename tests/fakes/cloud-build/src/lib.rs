//! A stand-in for the parts of Cloud Build that Burnin uses: create, get, list and cancel of builds in a location, over REST
//! in Cloud Build's JSON. It shares no type with the tested client.
//!
//! No step is executed. A build advances by one status with each read (`QUEUED`, `WORKING`, its end), so that a
//! test never waits. The substitution `_ENDS` states the end of the build: a status, or `never`. `_LEAVES` states the
//! content of the build's files, `_LEAVES_CLUSTER` the content of `cluster.json`.

mod build;
mod rest;
mod substitutions;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ledger::Store;
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// Fault of a create request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The build is created; the response has this status.
    LandsAndAnswers(u16),
    /// The build is created; the response is truncated.
    LandsAndTears,
    /// No build is created; the response has this status.
    Refused(u16),
}

/// Checks the permissions of the accounts of builds. Without a checker, builds have all permissions.
pub trait BuildRights: Send + Sync {
    /// Checks the permissions that a build needs before its first step: for its log and its source.
    ///
    /// # Errors
    /// Returns an error with the reason if a permission is missing; the build then fails.
    fn begin(&self, build: &Value) -> Result<(), String>;

    /// Writes an object as the build's account; overwrites an existing object.
    ///
    /// # Errors
    /// Returns an error, with the reason, if the object cannot be written; the build then fails.
    fn write(&self, build: &Value, bucket: &str, object: &str, bytes: &[u8]) -> Result<(), String>;

    /// Checks the permissions that a build needs to push its images after its steps.
    ///
    /// # Errors
    /// Returns an error, with the reason, if the build fails.
    fn end(&self, build: &Value) -> Result<(), String>;
}

/// The server; stops on drop.
pub struct CloudBuild {
    /// Address for the client, `http://host:port`.
    pub endpoint: String,
    state: CloudBuildState,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct CloudBuildState {
    inner: Arc<Mutex<BuildsState>>,
    store: Arc<dyn Store>,
    bucket: String,
}

#[derive(Default)]
struct BuildsState {
    builds: Vec<Value>,
    faults: VecDeque<Fault>,
    stale_lists: u32,
    stale_from: usize,
    page: usize,
    /// Builds whose next status is being prepared.
    advancing: BTreeSet<usize>,
    creates: u32,
    lists: u32,
    frozen: bool,
    notifications: Vec<Value>,
    push_to: Option<String>,
    rights: Option<Arc<dyn BuildRights>>,
    log_buckets: BTreeMap<String, Arc<dyn Store>>,
    /// Processors of the default pool; `None`: unlimited.
    processors: Option<u64>,
}

impl CloudBuildState {
    fn lock(&self) -> MutexGuard<'_, BuildsState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CloudBuild {
    /// Starts the server on a free local port. For builds, `store` is the bucket named `bucket`.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn serve(store: Arc<dyn Store>, bucket: &str) -> std::io::Result<Self> {
        let inner = Arc::new(Mutex::new(BuildsState { page: 50, ..BuildsState::default() }));
        let state = CloudBuildState { inner, store, bucket: bucket.to_owned() };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let router = rest::router(state.clone());
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { endpoint, state, serving })
    }

    /// Adds a bucket that builds write their logs to.
    pub fn add_log_bucket(&self, name: &str, store: Arc<dyn Store>) {
        self.state.lock().log_buckets.insert(name.to_owned(), store);
    }

    /// Applies a fault to the next create request that has no fault yet.
    pub fn next_create(&self, fault: Fault) {
        self.state.lock().faults.push_back(fault);
    }

    /// Makes the next `count` lists omit builds that are created after this call.
    pub fn stale_lists(&self, count: u32) {
        let mut state = self.state.lock();
        (state.stale_lists, state.stale_from) = (count, state.builds.len());
    }

    /// Sets the page size of lists.
    pub fn pages_of(&self, builds: usize) {
        self.state.lock().page = builds;
    }

    /// Pauses or resumes all builds.
    pub fn pause_builds(&self, frozen: bool) {
        self.state.lock().frozen = frozen;
    }

    /// Limits the processors of all builds in progress. Further builds remain `QUEUED`, and a build whose machine is larger is refused.
    pub fn limit_processors(&self, processors: u64) {
        self.state.lock().processors = Some(processors);
    }

    pub fn clear_faults(&self) {
        let mut state = self.state.lock();
        state.faults.clear();
        (state.stale_lists, state.frozen) = (0, false);
    }

    /// Pushes every status change to this URL in Pub/Sub's form, once and unordered.
    pub fn push_to(&self, url: &str) {
        self.state.lock().push_to = Some(url.to_owned());
    }

    /// Checks the operations of builds with `rights`, which also writes the objects of builds.
    pub fn check(&self, rights: Arc<dyn BuildRights>) {
        self.state.lock().rights = Some(rights);
    }

    /// All builds, oldest first.
    pub fn builds(&self) -> Vec<Value> {
        self.state.lock().builds.clone()
    }

    /// Sets a build's status by its id, and publishes a notification.
    pub fn set(&self, id: &str, status: &str) {
        let mut state = self.state.lock();
        let at = state.builds.iter().position(|build| build["id"] == id);
        if let Some(at) = at {
            state.builds[at]["status"] = status.into();
            state.notify(at);
        }
    }

    /// Number of create and list requests.
    pub fn request_counts(&self) -> (u32, u32) {
        let state = self.state.lock();
        (state.creates, state.lists)
    }

    /// All notifications, as bodies of pushes.
    pub fn notifications(&self) -> Vec<Value> {
        self.state.lock().notifications.clone()
    }
}

impl Drop for CloudBuild {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
