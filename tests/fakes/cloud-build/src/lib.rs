//! A stand-in for Cloud Build, as far as Burnin uses it: create, get, list and cancel of builds in a location, over REST
//! and in Cloud Build's own JSON. It shares no type with the client that is tested against it.
//!
//! No step is executed. A build goes on by one status each time it is shown (`QUEUED`, `WORKING`, its end), so that a
//! test waits for nothing; how it ends is the value of its substitution `_ENDS`: a status, or `never`. What its files hold
//! is the value of `_LEAVES`, where there is one.

mod build;
mod rest;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ledger::Store;
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// What goes wrong with a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The build is there, and the answer is this status.
    LandsAndAnswers(u16),
    /// The build is there, and the answer breaks off.
    LandsAndTears,
    /// There is no build, and the answer is this status.
    Refused(u16),
}

/// The server, until it is dropped.
pub struct CloudBuild {
    /// Where it is, as an endpoint.
    pub endpoint: String,
    world: World,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct World {
    inner: Arc<Mutex<Inner>>,
    store: Arc<dyn Store>,
    bucket: String,
}

#[derive(Default)]
struct Inner {
    builds: Vec<Value>,
    faults: VecDeque<Fault>,
    stale_lists: u32,
    stale_from: usize,
    page: usize,
    creates: u32,
    lists: u32,
    frozen: bool,
    notifications: Vec<Value>,
    push_to: Option<String>,
    log_buckets: BTreeMap<String, Arc<dyn Store>>,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CloudBuild {
    /// Serves on a port of this machine. Builds read and write the bucket called `bucket`, which is `store`.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn serve(store: Arc<dyn Store>, bucket: &str) -> std::io::Result<Self> {
        let inner = Arc::new(Mutex::new(Inner { page: 50, ..Inner::default() }));
        let world = World { inner, store, bucket: bucket.to_owned() };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let router = rest::router(world.clone());
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { endpoint, world, serving })
    }

    /// Adds a bucket that builds write their logs to.
    pub fn add_log_bucket(&self, name: &str, store: Arc<dyn Store>) {
        self.world.lock().log_buckets.insert(name.to_owned(), store);
    }

    /// This goes wrong with the next create that nothing was said of yet.
    pub fn next_create(&self, fault: Fault) {
        self.world.lock().faults.push_back(fault);
    }

    /// The next lists do not show what is created from now on.
    pub fn stale_lists(&self, count: u32) {
        let mut world = self.world.lock();
        (world.stale_lists, world.stale_from) = (count, world.builds.len());
    }

    /// Lists come in pages of this many.
    pub fn pages_of(&self, builds: usize) {
        self.world.lock().page = builds;
    }

    /// Builds stay as they are, or go on again.
    pub fn freeze(&self, frozen: bool) {
        self.world.lock().frozen = frozen;
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        let mut world = self.world.lock();
        world.faults.clear();
        (world.stale_lists, world.frozen) = (0, false);
    }

    /// Every change of status is pushed to this URL, as Pub/Sub does it, once and unordered.
    pub fn push_to(&self, url: &str) {
        self.world.lock().push_to = Some(url.to_owned());
    }

    /// Every build there ever was, oldest first.
    pub fn builds(&self) -> Vec<Value> {
        self.world.lock().builds.clone()
    }

    /// Sets a build's status by its id, as whatever happened to it; a notification tells of it.
    pub fn set(&self, id: &str, status: &str) {
        let mut world = self.world.lock();
        let at = world.builds.iter().position(|build| build["id"] == id);
        if let Some(at) = at {
            world.builds[at]["status"] = status.into();
            world.tell(at);
        }
    }

    /// How many creates and lists were asked for.
    pub fn asked(&self) -> (u32, u32) {
        let world = self.world.lock();
        (world.creates, world.lists)
    }

    /// Every notification so far, as the body of a push.
    pub fn notifications(&self) -> Vec<Value> {
        self.world.lock().notifications.clone()
    }
}

impl Drop for CloudBuild {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
