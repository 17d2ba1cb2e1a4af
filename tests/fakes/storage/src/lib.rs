//! A stand-in for the part of Cloud Storage's JSON API that Burnin and `gcloud storage` use, with faults on
//! request. All state is in memory.
//!
//! It implements generations and metagenerations, preconditions, stated checksums, resumable uploads (received
//! bytes are stored in multiples of 256 KiB until the last chunk), retention, one write per second and name, and
//! notifications in the form of Pub/Sub's pushes.
//!
//! It does not implement: XML and gRPC, credentials, noncurrent versions, holds, soft delete, access control,
//! customer-managed and customer-supplied keys, compose, rewrite and copy, decompression, `fields`, the lifetime of upload sessions, and
//! loads
//! beyond its memory. Its lists are consistent immediately after each write.

mod answers;
mod connection;
mod fault;
mod multipart;
mod notify;
mod state;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::Router;
use bytes::Bytes;
use tokio::{net::TcpListener, task::JoinHandle};

pub use crate::{
    connection::ConnectionControl,
    fault::{Fault, FaultKind, StorageRequest},
    state::{Bucket, Object},
};
use crate::{connection::CuttableListener, fault::PendingFaults, state::StorageState};

#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on; port 0 selects a free port.
    pub address: SocketAddr,
    /// Initial buckets.
    pub buckets: Vec<String>,
    /// Minimum time between two writes of a name, as in Cloud Storage; earlier writes receive 429.
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

/// State shared by the handlers.
pub(crate) struct ServerState {
    pub state: Mutex<StorageState>,
    pub faults: PendingFaults,
    /// The server's own URL, because not every client sends a host.
    pub base: String,
    /// Every request and its status, in order.
    pub log: Mutex<Vec<(StorageRequest, u16)>>,
}

impl ServerState {
    pub fn state(&self) -> MutexGuard<'_, StorageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running server; stops on drop.
pub struct StandIn {
    shared: Arc<ServerState>,
    server: JoinHandle<()>,
}

impl StandIn {
    /// Starts a server.
    ///
    /// # Errors
    /// Returns an error if the address is in use.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        let base = format!("http://{}", listener.local_addr()?);
        let buckets = options.buckets.into_iter().map(|name| (name, Bucket::default())).collect();
        let state = Mutex::new(StorageState { buckets, pause: options.pause, ..StorageState::default() });
        let shared =
            Arc::new(ServerState { state, faults: PendingFaults::default(), base, log: Mutex::default() });
        let routes = Router::new().fallback(answers::answer).with_state(Arc::clone(&shared));
        let service = routes.into_make_service_with_connect_info::<ConnectionControl>();
        let server = tokio::spawn(async move {
            drop(axum::serve(CuttableListener(listener), service).await); // ends only when the task is aborted
        });
        Ok(Self { shared, server })
    }

    /// The server's URL, `http://host:port`.
    pub fn url(&self) -> &str {
        &self.shared.base
    }

    /// Adds a fault for the next matching request.
    pub fn fault(&self, on: StorageRequest, kind: FaultKind) {
        self.shared.faults.add(Fault { on, kind, times: 1, after: 0 });
    }

    /// Adds a fault with its conditions.
    pub fn faults(&self, fault: Fault) {
        self.shared.faults.add(fault);
    }

    /// Number of uploads that are neither complete nor cancelled.
    pub fn unfinished(&self) -> usize {
        self.shared.state().sessions.values().filter(|session| session.done.is_none()).count()
    }

    /// Removes all faults; returns the number of unused ones.
    pub fn clear_faults(&self) -> usize {
        self.shared.faults.clear()
    }

    /// Content of an object, without a request.
    pub fn object(&self, bucket: &str, name: &str) -> Option<Object> {
        self.shared.state().buckets.get(bucket)?.objects.get(name).cloned()
    }

    /// Writes an object without a request; replaces an existing object.
    pub fn put(&self, bucket: &str, name: &str, body: impl Into<Bytes>) {
        let mut state = self.shared.state();
        let pause = std::mem::take(&mut state.pause);
        drop(state.write(bucket, name, &Default::default(), Default::default(), body.into()));
        state.pause = pause;
    }

    /// Names in a bucket, without a request.
    pub fn names(&self, bucket: &str) -> Vec<String> {
        let state = self.shared.state();
        state.buckets.get(bucket).map(|bucket| bucket.objects.keys().cloned().collect()).unwrap_or_default()
    }

    /// Increases the age of all incomplete uploads.
    pub fn age_uploads(&self, by: Duration) {
        self.shared.state().older += by;
    }

    pub fn retain(&self, bucket: &str, lasting: Duration) {
        if let Some(bucket) = self.shared.state().buckets.get_mut(bucket) {
            bucket.retention = lasting;
        }
    }

    /// From now on the first page of each list is empty.
    pub fn empty_first_pages(&self) {
        self.shared.state().empty_first_pages = true;
    }

    /// All requests since the last call, with their status; 0: no response.
    pub fn requests(&self) -> Vec<(StorageRequest, u16)> {
        std::mem::take(&mut *self.shared.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves until the process ends.
    pub async fn serve(mut self) {
        drop((&mut self.server).await);
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.server.abort();
    }
}
