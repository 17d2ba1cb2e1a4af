//! A server that answers like Cloud Storage's JSON API, as far as Burnin and `gcloud storage` need it, and breaks on
//! demand. Everything is in memory and ends with the process.
//!
//! It keeps generations and metagenerations, preconditions, checksums of what was announced, resumable uploads (what
//! arrives is kept in multiples of 256 KiB until the last piece), retention, one write a second to a name, and
//! notifications as Pub/Sub would push them.
//!
//! It does not do: XML and gRPC, credentials, versions that are not live, holds, soft delete, access control,
//! customer's keys, compose, rewrite and copy, decompression, `fields`, the lifetime of upload sessions, and loads
//! beyond its memory. Its list is as consistent as one map.

mod answers;
mod fault;
mod line;
mod multipart;
mod notify;
mod world;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::Router;
use bytes::Bytes;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{fault::Faults, line::Lines, world::World};
pub use crate::{
    fault::{Fault, Kind, Wants},
    line::Line,
    world::{Bucket, Object},
};

/// How the stand-in behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; port 0 is any free one.
    pub address: SocketAddr,
    /// Buckets that are there from the beginning.
    pub buckets: Vec<String>,
    /// One write to a name in this time, as the real one has it; more are answered with 429.
    pub pause: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            buckets: vec!["bucket".to_owned()],
            pause: Duration::from_secs(1),
        }
    }
}

/// What handlers share.
pub(crate) struct Shared {
    pub world: Mutex<World>,
    pub faults: Faults,
    /// Where it is reached: clients do not always say.
    pub base: String,
    /// Every request and its status, in order.
    pub log: Mutex<Vec<(Wants, u16)>>,
}

impl Shared {
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server, which ends with its owner.
pub struct StandIn {
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl StandIn {
    /// Starts one.
    ///
    /// # Errors
    /// When nothing can listen there.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        let base = format!("http://{}", listener.local_addr()?);
        let buckets = options.buckets.into_iter().map(|name| (name, Bucket::default())).collect();
        let world = Mutex::new(World { buckets, pause: options.pause, ..World::default() });
        let shared = Arc::new(Shared { world, faults: Faults::default(), base, log: Mutex::default() });
        let routes = Router::new().fallback(answers::answer).with_state(Arc::clone(&shared));
        let service = routes.into_make_service_with_connect_info::<Line>();
        let server = tokio::spawn(async move {
            drop(axum::serve(Lines(listener), service).await); // it serves until it is ended
        });
        Ok(Self { shared, server })
    }

    /// Where it is reached, as `http://host:port`.
    pub fn url(&self) -> &str {
        &self.shared.base
    }

    /// Makes something go wrong.
    pub fn fault(&self, on: Wants, kind: Kind) {
        self.shared.faults.add(Fault { on, kind, times: 1, after: 0 });
    }

    /// Makes something go wrong, when and as often as it says.
    pub fn faults(&self, fault: Fault) {
        self.shared.faults.add(fault);
    }

    /// Uploads that were begun, and neither came to their end nor were given up.
    pub fn unfinished(&self) -> usize {
        self.shared.world().sessions.values().filter(|session| session.done.is_none()).count()
    }

    /// Lets nothing go wrong any more; how many faults had not come to pass.
    pub fn heal(&self) -> usize {
        self.shared.faults.clear()
    }

    /// What lies under a name, without asking over the wire.
    pub fn object(&self, bucket: &str, name: &str) -> Option<Object> {
        self.shared.world().buckets.get(bucket)?.objects.get(name).cloned()
    }

    /// Puts an object into a bucket, in the place of another if there is one, without asking over the wire.
    pub fn put(&self, bucket: &str, name: &str, body: impl Into<Bytes>) {
        let mut world = self.shared.world();
        let pause = std::mem::take(&mut world.pause);
        drop(world.write(bucket, name, &Default::default(), Default::default(), body.into()));
        world.pause = pause;
    }

    /// Names in a bucket, without asking over the wire.
    pub fn names(&self, bucket: &str) -> Vec<String> {
        let world = self.shared.world();
        world.buckets.get(bucket).map(|bucket| bucket.objects.keys().cloned().collect()).unwrap_or_default()
    }

    /// For how long objects of a bucket cannot be removed or replaced.
    pub fn retain(&self, bucket: &str, lasting: Duration) {
        if let Some(bucket) = self.shared.world().buckets.get_mut(bucket) {
            bucket.retention = lasting;
        }
    }

    /// Every request since the last call, with the status it was answered with (0: not at all).
    pub fn requests(&self) -> Vec<(Wants, u16)> {
        std::mem::take(&mut *self.shared.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the server ends, which it does not by itself.
    pub async fn serve(mut self) {
        drop((&mut self.server).await);
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.server.abort();
    }
}
