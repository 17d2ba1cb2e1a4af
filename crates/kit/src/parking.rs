//! `parked/{date}/{event id}-{digest}.event`: what nobody here could read, with the reason.

use std::sync::Arc;

use ledger::{Digest, Store};

use crate::{Clock, Parking, worker::chain};

/// Parks in a bucket.
pub struct StoreParking {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl StoreParking {
    /// In this bucket.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }
}

#[async_trait::async_trait]
impl Parking for StoreParking {
    async fn park(&self, id: &str, why: &str, raw: &[u8]) -> Result<(), String> {
        let now = self.clock.now().to_string();
        let date = now.get(..10).unwrap_or("undated");
        // An id is the sender's text: only what is harmless in a name is kept of it.
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let id: String = id.chars().take(120).map(safe).collect();
        // Two senders may use one id, and two ids may look alike once they are harmless: the content tells them apart.
        let content = Digest::of(raw).sha256;
        let content = content.get(..12).unwrap_or(&content);
        let body = [format!("{why}\n").as_bytes(), raw].concat();
        tracing::error!(event.id = id, "parked: {why}");
        let name = format!("parked/{date}/{id}-{content}.event");
        self.store.create(&name, body.into()).await.map(drop).map_err(|error| chain(&error))
    }
}
