//! Google's public keys: fetched once for concurrent callers, cached until the expiry that Google states.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jsonwebtoken::{
    DecodingKey,
    jwk::{JwkSet, KeyAlgorithm},
};
use model::{Span, Timestamp};
use service::Clock;
use tokio::sync::{Mutex, RwLock};
use tracing::{info, warn};

/// Address of Google's public keys.
pub const GOOGLE: &str = "https://www.googleapis.com/oauth2/v3/certs";

/// Minimum interval between fetches caused by unknown key ids.
const PAUSE: Span = Span::from_secs(60);
/// Default validity of keys, for a response that does not state it, and maximum validity.
const DEFAULT_VALIDITY: Duration = Duration::from_secs(300);
const LONGEST: Duration = Duration::from_secs(24 * 3600);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Publisher of signature keys, replaceable in tests.
#[async_trait::async_trait]
pub trait KeySource: Send + Sync + 'static {
    /// The keys and their validity.
    ///
    /// # Errors
    /// Returns an error if they cannot be fetched.
    async fn fetch(&self) -> Result<(JwkSet, Duration), String>;
}

/// Keys published at a URL.
pub struct PublishedKeys {
    url: String,
    http: reqwest::Client,
}

impl PublishedKeys {
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), http: reqwest::Client::new() }
    }
}

#[async_trait::async_trait]
impl KeySource for PublishedKeys {
    async fn fetch(&self) -> Result<(JwkSet, Duration), String> {
        let message = |error: reqwest::Error| format!("{}: {}", self.url, service::worker::chain(&error));
        let answer = self.http.get(&self.url).timeout(FETCH_TIMEOUT).send().await.map_err(message)?;
        let answer = answer.error_for_status().map_err(message)?;
        let control = answer.headers().get("cache-control").and_then(|value| value.to_str().ok());
        let good_for = control.and_then(max_age).unwrap_or(DEFAULT_VALIDITY).min(LONGEST);
        Ok((answer.json().await.map_err(message)?, good_for))
    }
}

fn max_age(control: &str) -> Option<Duration> {
    let age = control.split(',').find_map(|part| part.trim().strip_prefix("max-age="))?;
    age.parse().ok().map(Duration::from_secs)
}

#[derive(Default)]
struct CachedKeys {
    keys: BTreeMap<String, Arc<DecodingKey>>,
    expire: Option<Timestamp>,
    /// Earliest time of the next fetch.
    ageing: Option<Timestamp>,
}

pub struct Keys {
    source: Box<dyn KeySource>,
    clock: Arc<dyn Clock>,
    known: RwLock<CachedKeys>,
    /// Lock of the caller that fetches; contains the time of the last fetch.
    fetching: Mutex<Option<Timestamp>>,
}

/// Reason why a key is missing.
pub enum KeyError {
    /// No key has this id.
    Unknown,
    Unavailable(String),
}

impl Keys {
    /// Creates a cache of the keys of a source; keys are fetched on first use.
    pub fn new(source: impl KeySource, clock: Arc<dyn Clock>) -> Self {
        Self { source: Box::new(source), clock, known: RwLock::default(), fetching: Mutex::default() }
    }

    /// The key with this id.
    ///
    /// # Errors
    /// Returns an error if it does not exist or its source is unavailable.
    pub async fn get(&self, id: &str) -> Result<Arc<DecodingKey>, KeyError> {
        let now = self.clock.now();
        let (found, good, ageing) = self.lookup(id, now).await;
        if let Some(key) = found.filter(|_| good) {
            // One caller fetches new keys before the cached keys expire; other callers use the cached keys meanwhile.
            if ageing && let Ok(mut last) = self.fetching.try_lock() {
                self.fetch(&mut last, now).await.ok();
            }
            return Ok(key);
        }
        let mut last = self.fetching.lock().await;
        // Another caller may have fetched the keys while this caller waited.
        let (found, good, _) = self.lookup(id, now).await;
        if let Some(key) = found.filter(|_| good) {
            return Ok(key);
        }
        if last.is_none_or(|last| now.since(last) >= PAUSE) {
            self.fetch(&mut last, now).await.map_err(KeyError::Unavailable)?;
        } else if !good {
            return Err(KeyError::Unavailable(format!(
                "the last fetch of the keys failed; the next attempt follows within {PAUSE}"
            )));
        }
        match self.lookup(id, now).await {
            (Some(key), true, _) => Ok(key),
            _ => Err(KeyError::Unknown),
        }
    }

    /// The key, whether the cached keys are valid, and whether a refresh is due.
    async fn lookup(&self, id: &str, now: Timestamp) -> (Option<Arc<DecodingKey>>, bool, bool) {
        let known = self.known.read().await;
        let before = |limit: Option<Timestamp>| limit.is_some_and(|limit| now < limit);
        (known.keys.get(id).cloned(), before(known.expire), !before(known.ageing))
    }

    async fn fetch(&self, last: &mut Option<Timestamp>, now: Timestamp) -> Result<(), String> {
        *last = Some(now);
        let (set, good_for) =
            self.source.fetch().await.inspect_err(|why| warn!("the keys cannot be fetched: {why}"))?;
        let mut keys = BTreeMap::new();
        for jwk in &set.keys {
            let rs256 = jwk.common.key_algorithm.is_none_or(|algorithm| algorithm == KeyAlgorithm::RS256);
            if let (Some(id), true, Ok(key)) = (&jwk.common.key_id, rs256, DecodingKey::from_jwk(jwk)) {
                keys.insert(id.clone(), Arc::new(key));
            }
        }
        info!(keys = keys.len(), good_for_s = good_for.as_secs(), "keys fetched");
        let (expire, ageing) = (Some(now + Span(good_for)), Some(now + Span(good_for.mul_f64(0.9))));
        *self.known.write().await = CachedKeys { keys, expire, ageing };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_validity_of_keys_is_read_from_cache_control() {
        let hours = Some(Duration::from_secs(19_800));
        assert_eq!(max_age("public, max-age=19800, must-revalidate, no-transform"), hours);
        assert_eq!(max_age("no-store"), None);
        assert_eq!(max_age("max-age=soon"), None);
    }
}
