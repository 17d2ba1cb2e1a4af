//! Receives notices.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{Json, Router};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// A webhook's receiver; it stops on drop.
pub struct Receiver {
    pub url: String,
    received: Arc<Mutex<Vec<Value>>>,
    serving: JoinHandle<()>,
}

impl Receiver {
    /// Starts it on a free local port.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/notices", listener.local_addr()?);
        let received = Arc::<Mutex<Vec<Value>>>::default();
        let into = Arc::clone(&received);
        let router = Router::new().fallback(move |Json(notice): Json<Value>| {
            into.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
            async {}
        });
        let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self { url, received, serving })
    }

    /// Whether a notice about a run arrived.
    pub fn has(&self, run: &str) -> bool {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.iter().any(|notice| notice["run"] == run)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
