//! A stand-in for the parts of Pub/Sub that Burnin uses: publish, streaming pull and push, over gRPC. It shares no type with the
//! tested client. Callers have no credentials: each address belongs to one caller, and every request is checked for that caller.
//!
//! Implemented rules: at-least-once delivery; filters on one attribute; deadlines, after which a message is delivered again and a late
//! acknowledgement has no effect; growing pauses after rejected deliveries; dead letters after about the maximum number of deliveries,
//! sometimes twice, forwarded by Pub/Sub's service agent only with its two permissions; sizes of messages and attributes.
//!
//! Not implemented: ordering, retention, administration, REST.

mod broker;
mod rpc;
mod wire;

use std::{io, sync::Arc};

use tokio::{
    net::{TcpListener, ToSocketAddrs},
    task::JoinHandle,
};

pub use broker::{Broker, PushEndpoint, Subscription};
pub use wire::PubsubMessage;

/// Permissions of callers.
pub trait Access: Send + Sync {
    /// Checks a permission of a caller on a topic or subscription, by its full name.
    ///
    /// # Errors
    /// Returns an error with the text for the caller if the permission is missing.
    fn admits(&self, caller: &str, permission: &'static str, resource: &str) -> Result<(), String>;
}

/// An address of the stand-in for one caller; it closes on drop.
pub struct Address {
    /// `host:port`.
    pub host: String,
    serving: JoinHandle<()>,
}

impl Address {
    /// Listens on a free local port for requests of `caller`.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn open(broker: &Arc<Broker>, caller: &str) -> io::Result<Self> {
        Self::open_at(broker, caller, ("127.0.0.1", 0)).await
    }

    /// Opens the address `at`, for requests of `caller`.
    ///
    /// # Errors
    /// Returns an error if the address is in use or does not belong to this host.
    pub async fn open_at(broker: &Arc<Broker>, caller: &str, at: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let host = listener.local_addr()?.to_string();
        let serving = tokio::spawn(rpc::serve(listener, Arc::clone(broker), caller.to_owned()));
        Ok(Self { host, serving })
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
