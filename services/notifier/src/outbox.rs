//! What is to be told, kept until it is: a process may end at any point, and another one goes on.
//!
//! ```text
//! notices/{run}/{channel}.json             a notice, created once: whoever decides again finds it
//!               {channel}/try-{n}.json     somebody is about to deliver it, or has; created once, so that one of several does
//!               {channel}/said-{n}.json    try n did not bring it there: why, and when the next one may begin
//!               {channel}/end.json         it is there, or never will be
//! notices/{run}/ended.json                 everything that is to be told of the run's end is decided
//! notices/since.json                       since when somebody looks for ends that nobody told of
//! notices/open/{run}.{channel}             hint: not at its end yet
//! ```
//!
//! A try whose process died says nothing. It may have been the one, so after [`UNDER_WAY`] there is another, under the same
//! id: at least once, and more than once only where somebody died between sending and writing it down.

use std::{collections::BTreeSet, sync::Arc};

use ledger::{Creation, Store, StoreError};
use model::{RunId, Span, Timestamp};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use service::clock::backoff;

use crate::{
    notice::{FORMAT, Notice},
    port::Reply,
};

/// Where hints lie.
pub const HINTS: &str = "notices/open/";
/// A try that said nothing for so long has died. Longer than any delivery takes.
pub const UNDER_WAY: Span = Span::from_secs(60);
/// The wait after the first try that failed; it doubles from then on,
const FIRST: Span = Span::from_secs(2);
/// up to this.
const SLOWEST: Span = Span::from_secs(15 * 60);
/// What is not there after so long is given up.
pub const GIVEN_UP: Span = Span::from_secs(24 * 3600);

/// Notices in a bucket.
#[derive(Clone)]
pub struct Outbox(Arc<dyn Store>);

/// A notice, by its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The run.
    pub run: RunId,
    /// The channel.
    pub channel: String,
}

/// Where the delivery of a notice stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The next try has this number.
    Due(u32),
    /// The next try may begin at this moment.
    Wait(Timestamp),
    /// Somebody is at it, or died over it; at this moment it is known which.
    Busy(Timestamp),
    /// It is at its end.
    Over,
}

/// The beginning of a try.
#[derive(Debug, Deserialize, Serialize)]
struct Try {
    at: Timestamp,
}

/// What became of a try that did not bring it there.
#[derive(Debug, Deserialize, Serialize)]
struct Said {
    at: Timestamp,
    why: String,
    not_before: Timestamp,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct End {
    /// When.
    pub at: Timestamp,
    /// `delivered`, `refused`, `given_up` or `superseded`.
    pub how: String,
    /// Why it never will be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Tries that were made.
    pub tries: u32,
}

#[derive(Deserialize, Serialize)]
struct Mark {
    at: Timestamp,
    /// Channels with a notice.
    channels: Vec<String>,
    /// Channels with a decision; absent in files of older versions.
    #[serde(default)]
    listened: Vec<String>,
}

impl Place {
    /// Of a notice.
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
    /// In this bucket.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    async fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let body = self.0.read(name).await?;
        // What cannot be read was written by hand: as good as absent, and said.
        Ok(body.and_then(|body| {
            serde_json::from_slice(&body).map_err(|error| tracing::warn!("{name} is not used: {error}")).ok()
        }))
    }

    async fn create(&self, name: &str, value: &impl Serialize) -> Result<Creation, StoreError> {
        let body = serde_json::to_vec_pretty(value).unwrap_or_default();
        self.0.create(name, body.into()).await
    }

    /// Keeps a notice, unless it was decided before. The hint goes first: one without a notice is looked at in vain, a
    /// notice without one would be forgotten.
    pub async fn put(&self, notice: &Notice) -> Result<Creation, StoreError> {
        let place = Place::of(notice);
        if self.read::<End>(&(place.folder() + "end.json")).await?.is_some() {
            return Ok(Creation::Exists);
        }
        self.0.create(&place.hint(), Default::default()).await?;
        self.create(&place.name(), notice).await
    }

    /// A notice, if it was decided.
    pub async fn get(&self, place: &Place) -> Result<Option<Notice>, StoreError> {
        let notice: Option<Notice> = self.read(&place.name()).await?;
        Ok(notice.filter(|notice| notice.format <= FORMAT))
    }

    /// Notices that are not at their end.
    pub async fn open(&self) -> Result<Vec<Place>, StoreError> {
        let mut places: Vec<_> =
            self.0.list(HINTS).await?.iter().filter_map(|name| Place::of_hint(name)).collect();
        places.sort();
        Ok(places)
    }

    /// Where a delivery stands.
    pub async fn standing(&self, place: &Place, now: Timestamp) -> Result<Standing, StoreError> {
        let folder = place.folder();
        let names = self.0.list(&folder).await?;
        let inner = || names.iter().filter_map(|name| name.strip_prefix(&folder));
        if inner().any(|name| name == "end.json") {
            return Ok(Standing::Over);
        }
        let number = |name: &str| name.strip_prefix("try-")?.strip_suffix(".json")?.parse::<u32>().ok();
        let Some(last) = inner().filter_map(number).max() else { return Ok(Standing::Due(1)) };
        let standing = match self.read::<Said>(&format!("{folder}said-{last}.json")).await? {
            Some(said) => Standing::Wait(said.not_before),
            None => {
                let begun: Option<Try> = self.read(&format!("{folder}try-{last}.json")).await?;
                Standing::Busy(begun.map_or(now, |begun| begun.at + UNDER_WAY))
            }
        };
        Ok(match standing {
            Standing::Wait(until) | Standing::Busy(until) if until <= now => Standing::Due(last + 1),
            standing => standing,
        })
    }

    /// The right to make a try. Whoever does not get it leaves it to the one who has it.
    pub async fn claim(&self, place: &Place, number: u32, now: Timestamp) -> Result<bool, StoreError> {
        let name = format!("{}try-{number}.json", place.folder());
        Ok(self.create(&name, &Try { at: now }).await? == Creation::Created)
    }

    /// What became of a try. None while there will be another one.
    pub async fn settle(
        &self,
        notice: &Notice,
        number: u32,
        reply: Reply,
        now: Timestamp,
    ) -> Result<Option<End>, StoreError> {
        let place = Place::of(notice);
        let (how, why) = match reply {
            Reply::Delivered => ("delivered", None),
            Reply::Never { why } => ("refused", Some(why)),
            Reply::Later { why, .. } if now.since(notice.made_at) >= GIVEN_UP => ("given_up", Some(why)),
            Reply::Later { why, after } => {
                let wait = backoff(FIRST.0, SLOWEST.0, number.saturating_sub(1));
                let not_before = now + after.map_or(wait, |after| after.max(wait));
                let said = Said { at: now, why, not_before };
                self.create(&format!("{}said-{number}.json", place.folder()), &said).await?;
                return Ok(None);
            }
        };
        let end = End { at: now, how: how.to_owned(), why, tries: number };
        self.end(&place, &end).await?;
        Ok(Some(end))
    }

    /// Another notice took its place.
    pub async fn supersede(&self, place: &Place, now: Timestamp) -> Result<(), StoreError> {
        self.end(place, &End { at: now, how: "superseded".to_owned(), why: None, tries: 0 }).await
    }

    async fn end(&self, place: &Place, end: &End) -> Result<(), StoreError> {
        self.create(&(place.folder() + "end.json"), end).await?;
        self.forget(place).await
    }

    /// Takes the hint away.
    pub async fn forget(&self, place: &Place) -> Result<(), StoreError> {
        self.0.remove(&place.hint()).await
    }

    /// All notices of a run's end are decided: `channels` get one, out of all in `listened`.
    pub async fn mark(
        &self,
        run: &RunId,
        channels: Vec<String>,
        listened: Vec<String>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mark = Mark { at: now, channels, listened };
        self.create(&format!("notices/{run}/ended.json"), &mark).await.map(drop)
    }

    /// The channels that know how a run ended: the notice was decided, and was delivered or may still be.
    /// `None` when nothing was decided.
    pub async fn heard(&self, run: &RunId) -> Result<Option<BTreeSet<String>>, StoreError> {
        let Some(mark) = self.read::<Mark>(&format!("notices/{run}/ended.json")).await? else {
            return Ok(None);
        };
        let mut heard: BTreeSet<_> = mark.listened.into_iter().chain(mark.channels.iter().cloned()).collect();
        for channel in mark.channels {
            let place = Place { run: run.clone(), channel };
            let end: Option<End> = self.read(&(place.folder() + "end.json")).await?;
            if end.is_some_and(|end| ["refused", "given_up"].contains(&end.how.as_str())) {
                heard.remove(&place.channel);
            }
        }
        Ok(Some(heard))
    }

    /// It is.
    pub async fn is_marked(&self, run: &RunId) -> Result<bool, StoreError> {
        Ok(self.read::<Mark>(&format!("notices/{run}/ended.json")).await?.is_some())
    }

    /// Since when somebody looks for ends that nobody told of: what lies before is old news.
    pub async fn since(&self, now: Timestamp) -> Result<Timestamp, StoreError> {
        const NAME: &str = "notices/since.json";
        if let Some(since) = self.read::<Try>(NAME).await? {
            return Ok(since.at);
        }
        self.create(NAME, &Try { at: now }).await?;
        Ok(self.read::<Try>(NAME).await?.map_or(now, |since| since.at))
    }
}
