//! Stores notices until they are delivered. If a process ends at any point, another process continues.
//!
//! ```text
//! notices/{run}/{channel}.json             a notice, created once: a repeated decision finds it
//!               {channel}/try-{n}.json     attempt n has started; created once, so that only one process makes the attempt
//!               {channel}/said-{n}.json    attempt n failed: reason, and earliest time of the next attempt
//!               {channel}/end.json         delivered, or given up
//! notices/{run}/ended.json                 all notices of the run's end are decided
//! notices/since.json                       start time of the search for missed endings
//! notices/open/{run}.{channel}             hint: not delivered or given up yet
//! ```
//!
//! An attempt without a result may have delivered the notice before its process ended. After [`UNDER_WAY`] the next
//! attempt sends the same id: delivery is at least once, and duplicates occur only after a crash between sending and
//! recording.

use std::{collections::BTreeSet, sync::Arc};

use ledger::{Creation, Store, StoreError};
use model::{RunId, Span, Timestamp};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use service::clock::backoff;

use crate::{
    notice::{FORMAT, Notice},
    port::Reply,
};

pub const HINTS: &str = "notices/open/";
/// Maximum duration of an attempt without a result; then the attempt is treated as interrupted. Longer than the timeout of a delivery.
pub const UNDER_WAY: Span = Span::from_secs(60);
/// Delay after the first failed attempt; doubled after each further failed attempt.
const FIRST: Span = Span::from_secs(2);
/// Maximum delay between attempts.
const SLOWEST: Span = Span::from_secs(15 * 60);
/// Maximum age of an undelivered notice.
pub const GIVEN_UP: Span = Span::from_secs(24 * 3600);

/// Notices in a bucket.
#[derive(Clone)]
pub struct Outbox(Arc<dyn Store>);

/// Run and channel, which identify a notice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoticeKey {
    pub run: RunId,
    /// Channel name, unique within the run.
    pub channel: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// The attempt with this number is due.
    Due(u32),
    /// The next attempt may start at this time.
    Wait(Timestamp),
    /// An attempt is running or was interrupted; after this time it is treated as interrupted.
    Busy(Timestamp),
    /// Delivered or given up.
    Ended,
}

#[derive(Debug, Deserialize, Serialize)]
struct AttemptStart {
    at: Timestamp,
}

#[derive(Debug, Deserialize, Serialize)]
struct FailedAttempt {
    at: Timestamp,
    why: String,
    not_before: Timestamp,
}

/// Final result of a delivery, written once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct DeliveryEnd {
    pub at: Timestamp,
    /// `delivered`, `refused`, `given_up` or `superseded`.
    pub how: String,
    /// Reason why the notice was not delivered; `None` for a delivered notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    pub tries: u32,
}

#[derive(Deserialize, Serialize)]
struct AttemptMark {
    at: Timestamp,
    /// Channels with a notice.
    channels: Vec<String>,
    /// Channels with a decision; absent in files of older versions.
    #[serde(default)]
    listened: Vec<String>,
}

impl NoticeKey {
    /// Storage key of `notice`.
    pub fn of(notice: &Notice) -> Self {
        Self { run: notice.run.clone(), channel: notice.channel() }
    }

    fn name(&self) -> String {
        format!("notices/{}/{}.json", self.run, self.channel)
    }

    fn folder(&self) -> String {
        format!("notices/{}/{}/", self.run, self.channel)
    }

    fn hint(&self) -> String {
        format!("{HINTS}{}.{}", self.run, self.channel)
    }

    fn of_hint(name: &str) -> Option<Self> {
        let (run, channel) = name.strip_prefix(HINTS)?.split_once('.')?;
        Some(Self { run: run.parse().ok()?, channel: channel.to_owned() })
    }
}

impl Outbox {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    async fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let body = self.0.read(name).await?;
        // An unreadable object was edited manually: treat it as absent, and log it.
        Ok(body.and_then(|body| {
            serde_json::from_slice(&body)
                .map_err(|error| tracing::warn!("{name} is invalid and ignored: {error}"))
                .ok()
        }))
    }

    /// Stores a notice unless it was decided before. Writes the hint first: a hint without a notice is harmless, a
    /// notice without a hint would be lost.
    pub async fn put(&self, notice: &Notice) -> Result<Creation, StoreError> {
        let place = NoticeKey::of(notice);
        if self.read::<DeliveryEnd>(&(place.folder() + "end.json")).await?.is_some() {
            return Ok(Creation::Exists);
        }
        self.0.create(&place.hint(), Default::default()).await?;
        self.0.create_json(&place.name(), notice).await
    }

    /// A notice; `None` if absent.
    pub async fn get(&self, key: &NoticeKey) -> Result<Option<Notice>, StoreError> {
        let notice: Option<Notice> = self.read(&key.name()).await?;
        Ok(notice.filter(|notice| notice.format <= FORMAT))
    }

    /// Notices that are neither delivered nor given up.
    pub async fn open(&self) -> Result<Vec<NoticeKey>, StoreError> {
        let mut keys: Vec<_> =
            self.0.list(HINTS).await?.iter().filter_map(|name| NoticeKey::of_hint(name)).collect();
        keys.sort();
        Ok(keys)
    }

    pub async fn status(&self, key: &NoticeKey, now: Timestamp) -> Result<DeliveryStatus, StoreError> {
        let folder = key.folder();
        let names = self.0.list(&folder).await?;
        let inner = || names.iter().filter_map(|name| name.strip_prefix(&folder));
        if inner().any(|name| name == "end.json") {
            return Ok(DeliveryStatus::Ended);
        }
        let number = |name: &str| name.strip_prefix("try-")?.strip_suffix(".json")?.parse::<u32>().ok();
        let Some(last) = inner().filter_map(number).max() else { return Ok(DeliveryStatus::Due(1)) };
        let status = match self.read::<FailedAttempt>(&format!("{folder}said-{last}.json")).await? {
            Some(attempt) => DeliveryStatus::Wait(attempt.not_before),
            None => {
                let started: Option<AttemptStart> = self.read(&format!("{folder}try-{last}.json")).await?;
                DeliveryStatus::Busy(started.map_or(now, |started| started.at + UNDER_WAY))
            }
        };
        Ok(match status {
            DeliveryStatus::Wait(until) | DeliveryStatus::Busy(until) if until <= now => {
                DeliveryStatus::Due(last + 1)
            }
            status => status,
        })
    }

    /// Claims an attempt. Returns false if another process has claimed it.
    pub async fn claim(&self, key: &NoticeKey, number: u32, now: Timestamp) -> Result<bool, StoreError> {
        let name = format!("{}try-{number}.json", key.folder());
        Ok(self.0.create_json(&name, &AttemptStart { at: now }).await? == Creation::Created)
    }

    /// Records the result of an attempt. Returns the end of the delivery, or `None` if another attempt follows.
    pub async fn record_attempt(
        &self,
        notice: &Notice,
        number: u32,
        reply: Reply,
        now: Timestamp,
    ) -> Result<Option<DeliveryEnd>, StoreError> {
        let place = NoticeKey::of(notice);
        let (how, why) = match reply {
            Reply::Delivered => ("delivered", None),
            Reply::Permanent { why } => ("refused", Some(why)),
            Reply::Transient { why, .. } if now.since(notice.made_at) >= GIVEN_UP => ("given_up", Some(why)),
            Reply::Transient { why, after } => {
                let wait = backoff(FIRST.0, SLOWEST.0, number.saturating_sub(1));
                let not_before = now + after.map_or(wait, |after| after.max(wait));
                let attempt = FailedAttempt { at: now, why, not_before };
                self.0.create_json(&format!("{}said-{number}.json", place.folder()), &attempt).await?;
                return Ok(None);
            }
        };
        let end = DeliveryEnd { at: now, how: how.to_owned(), why, tries: number };
        self.end(&place, &end).await?;
        Ok(Some(end))
    }

    /// Ends the delivery because another notice replaces it.
    pub async fn supersede(&self, key: &NoticeKey, now: Timestamp) -> Result<(), StoreError> {
        self.end(key, &DeliveryEnd { at: now, how: "superseded".to_owned(), why: None, tries: 0 }).await
    }

    async fn end(&self, key: &NoticeKey, end: &DeliveryEnd) -> Result<(), StoreError> {
        self.0.create_json(&(key.folder() + "end.json"), end).await?;
        self.forget(key).await
    }

    /// Removes the hint.
    pub async fn forget(&self, key: &NoticeKey) -> Result<(), StoreError> {
        self.0.remove(&key.hint()).await
    }

    /// Records that all notices of a run's end are decided. `listened`: all channels with a decision; `channels`: the channels that
    /// receive a notice.
    pub async fn mark_decided(
        &self,
        run: &RunId,
        channels: Vec<String>,
        listened: Vec<String>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mark = AttemptMark { at: now, channels, listened };
        self.0.create_json(&format!("notices/{run}/ended.json"), &mark).await.map(drop)
    }

    /// Channels that received a run's notice or may still receive it.
    /// `None` without a decision.
    pub async fn received_channels(&self, run: &RunId) -> Result<Option<BTreeSet<String>>, StoreError> {
        let Some(mark) = self.read::<AttemptMark>(&format!("notices/{run}/ended.json")).await? else {
            return Ok(None);
        };
        let mut received: BTreeSet<_> =
            mark.listened.into_iter().chain(mark.channels.iter().cloned()).collect();
        for channel in mark.channels {
            let place = NoticeKey { run: run.clone(), channel };
            let end: Option<DeliveryEnd> = self.read(&(place.folder() + "end.json")).await?;
            if end.is_some_and(|end| ["refused", "given_up"].contains(&end.how.as_str())) {
                received.remove(&place.channel);
            }
        }
        Ok(Some(received))
    }

    /// Whether all notices of a run's end are decided.
    pub async fn is_marked(&self, run: &RunId) -> Result<bool, StoreError> {
        Ok(self.read::<AttemptMark>(&format!("notices/{run}/ended.json")).await?.is_some())
    }

    /// Start time of the search for missed endings: earlier ends are not reported.
    pub async fn since(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        const NAME: &str = "notices/since.json";
        if let Some(since) = self.read::<AttemptStart>(NAME).await? {
            return Ok(since.at);
        }
        self.0.create_json(NAME, &AttemptStart { at: now }).await?;
        Ok(self.read::<AttemptStart>(NAME).await?.map_or(now, |since| since.at))
    }
}
