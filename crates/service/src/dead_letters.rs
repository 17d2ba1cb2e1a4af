//! `parked/{date}/{event id}-{digest}.event`: unreadable events, with the reason.

use std::sync::{Arc, Mutex, PoisonError};

use ledger::{Creation, Digest, Store};

use crate::{Clock, DeadLetters, worker::chain};

/// Maximum number of events that one process parks per day. Further ones are rejected and redelivered, so that a faulty sender
/// cannot fill the bucket.
pub const MAX_PER_DAY: usize = 10_000;

/// Stores unreadable events in a bucket.
pub struct StoredDeadLetters {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// A date, and the number of events stored on it.
    parked: Mutex<(String, usize)>,
}

impl StoredDeadLetters {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, parked: Mutex::default() }
    }

    /// Adds `more` events to a date, and returns the total.
    fn count(&self, date: &str, more: usize) -> usize {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        if parked.0 != date {
            *parked = (date.to_owned(), 0);
        }
        parked.1 += more;
        parked.1
    }
}

#[async_trait::async_trait]
impl DeadLetters for StoredDeadLetters {
    async fn park(&self, id: &str, why: &str, raw: &[u8]) -> Result<(), String> {
        let now = self.clock.now().to_string();
        let date = now.get(..10).unwrap_or("undated");
        if self.count(date, 0) >= MAX_PER_DAY {
            return Err(format!(
                "{MAX_PER_DAY} events were parked today, the maximum; inspect parked/{date}/"
            ));
        }
        // The id is chosen by the sender: keep only characters that are safe in a name.
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let id: String = id.chars().take(120).map(safe).collect();
        // Two senders may use one id, and two ids may become equal after this replacement: the digest
        // distinguishes them.
        let content = Digest::of(raw).sha256;
        let content = content.get(..12).unwrap_or(&content);
        let body = [format!("{why}\n").as_bytes(), raw].concat();
        tracing::error!(event.id = id, "parked: {why}");
        let name = format!("parked/{date}/{id}-{content}.event");
        let created = self.store.create(&name, body.into()).await.map_err(|error| chain(&error))?;
        // A repeated event is stored once.
        self.count(date, usize::from(created == Creation::Created));
        Ok(())
    }
}
