//! Delivers stored notices. A notice is sent again until the receiver accepts or refuses it, or the notice is too old.

use std::time::Duration;

use futures::{StreamExt, stream};
use ledger::StoreError;
use model::RunId;
use service::{CommandError, telemetry::meters::notice_without_address};
use tracing::{error, info, warn};

use crate::{
    Notifier, Reply,
    notice::{BEGUN, ENDED, Notice},
    outbox::{DeliveryStatus, NoticeKey, UNDER_WAY},
};

/// Timeout of a delivery attempt; the notice may still have arrived.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);
const _: () = assert!(DELIVERY_TIMEOUT.as_secs() < UNDER_WAY.0.as_secs());
/// Maximum number of concurrent deliveries.
const ABREAST: usize = 16;
/// Maximum number of notices per pass.
const MAX_NOTICES: usize = 1000;

impl Notifier {
    /// Tries to deliver the notices of a run. Undelivered notices stay in the outbox.
    pub(crate) async fn deliver_of(&self, run: &RunId) -> Result<(), CommandError> {
        let mut places = self.outbox.open().await.map_err(CommandError::transient)?;
        places.retain(|place| place.run == *run);
        self.deliver(places).await
    }

    /// Tries to deliver all due notices.
    pub(crate) async fn deliver_all(&self) -> Result<(), CommandError> {
        let mut places = self.outbox.open().await.map_err(CommandError::transient)?;
        places.truncate(MAX_NOTICES);
        self.deliver(places).await
    }

    async fn deliver(&self, places: Vec<NoticeKey>) -> Result<(), CommandError> {
        let tries = places.into_iter().map(|place| async move { self.attempt(&place).await });
        let done: Vec<_> = stream::iter(tries).buffer_unordered(ABREAST).collect().await;
        done.into_iter().collect::<Result<(), _>>().map_err(CommandError::transient)
    }

    async fn attempt(&self, key: &NoticeKey) -> Result<(), StoreError> {
        let now = self.clock.now();
        let number = match self.outbox.status(key, now).await? {
            DeliveryStatus::Ended => return self.outbox.forget(key).await,
            DeliveryStatus::Wait(_) | DeliveryStatus::Busy(_) => return Ok(()),
            DeliveryStatus::Due(number) => number,
        };
        // The notice may be absent, because its hint is written first.
        let Some(notice) = self.outbox.get(key).await? else { return Ok(()) };
        if key.channel == ENDED && !self.start_is_over(key).await? {
            return Ok(());
        }
        if !self.outbox.claim(key, number, now).await? {
            return Ok(());
        }
        // Check after the claim, because the process that sends the final status checks for this claim: at least one of the two processes
        // finds the other's object.
        let ended = NoticeKey { channel: ENDED.to_owned(), ..key.clone() };
        if key.channel == BEGUN && self.outbox.get(&ended).await?.is_some() {
            return self.outbox.supersede(key, now).await;
        }
        if let Some(why) = self.sender.missing_setting(&notice) {
            // Log an error at the first attempt and when the notice is given up, and warnings in between.
            if number == 1 {
                error!(run.id = %notice.run, channel = key.channel, "a notice cannot be sent: {why}");
                notice_without_address(&key.channel);
            }
            return self.record_reply(&notice, number, Reply::transient(why)).await;
        }
        let reply = tokio::time::timeout(DELIVERY_TIMEOUT, self.sender.deliver(&notice)).await;
        let reply = reply.unwrap_or_else(|_| Reply::transient("timeout"));
        self.record_reply(&notice, number, reply).await
    }

    /// Gives up the pending status: a pending status sent after the final one would stay on the commit permanently.
    /// Returns false while an attempt is in progress.
    async fn start_is_over(&self, key: &NoticeKey) -> Result<bool, StoreError> {
        let started = NoticeKey { channel: BEGUN.to_owned(), ..key.clone() };
        if self.outbox.get(&started).await?.is_none() {
            return Ok(true);
        }
        let now = self.clock.now();
        match self.outbox.status(&started, now).await? {
            DeliveryStatus::Ended => Ok(true),
            DeliveryStatus::Due(_) | DeliveryStatus::Wait(_) => {
                self.outbox.supersede(&started, now).await.map(|()| true)
            }
            DeliveryStatus::Busy(_) => Ok(false),
        }
    }

    async fn record_reply(&self, notice: &Notice, number: u32, reply: Reply) -> Result<(), StoreError> {
        let (run, channel) = (&notice.run, notice.channel());
        let reason = match &reply {
            Reply::Delivered => None,
            Reply::Transient { why, .. } | Reply::Permanent { why } => Some(why.clone()),
        };
        let end = self.outbox.record_attempt(notice, number, reply, self.clock.now()).await?;
        match (end.map(|end| end.how), reason) {
            (Some(_), None) => info!(run.id = %run, channel, number, "notice delivered"),
            (Some(how), Some(why)) => error!(run.id = %run, channel, number, how, "notice dropped: {why}"),
            (None, why) => {
                let why = why.unwrap_or_default();
                warn!(run.id = %run, channel, number, "delivery failed, retrying: {why}");
            }
        }
        Ok(())
    }
}
