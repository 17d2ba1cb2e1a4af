//! What builders note about a wish's builds, in the bucket.
//!
//! ```text
//! builds/{resource name}/journal/cancelled          none may begin any more
//!                                claim-{n}          somebody is about to create a build, or has
//!                                released-{n}       that claim certainly became no build
//!                                build-{n}-{id}     that claim became this build
//! ```
//!
//! Cloud Build's `create` has no request id and its `list` lags behind. The bucket does neither lag nor let two create
//! one name. So whoever creates a build claims the next number first, and a claim without a build is what may be out
//! there without anybody knowing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ledger::{Creation, Store, StoreError};
use model::Timestamp;

use crate::Key;

/// The journals of a bucket.
#[derive(Clone)]
pub struct Journal {
    store: Arc<dyn Store>,
}

/// A journal, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// None may begin any more.
    pub cancelled: bool,
    /// Every claim with the ids of its builds.
    pub claims: BTreeMap<u32, BTreeSet<String>>,
    /// Claims that certainly became no build.
    pub released: BTreeSet<u32>,
}

impl Noted {
    /// Claims that may have become builds which nobody knows.
    pub fn open(&self) -> impl Iterator<Item = u32> {
        let open = |(number, builds): &(&u32, &BTreeSet<String>)| {
            builds.is_empty() && !self.released.contains(*number)
        };
        self.claims.iter().filter(open).map(|(number, _)| *number)
    }

    /// Every known build.
    pub fn builds(&self) -> BTreeSet<String> {
        self.claims.values().flatten().cloned().collect()
    }

    /// The number of the next claim.
    pub fn next(&self) -> u32 {
        self.claims.keys().next_back().map_or(1, |last| last + 1)
    }
}

/// The folder of a command's builds, without a slash at its end.
pub fn folder(key: &Key) -> String {
    format!("builds/{}", key.resource_name())
}

impl Journal {
    /// In this bucket.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Reads a command's journal.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn read(&self, key: &Key) -> Result<Noted, StoreError> {
        let prefix = folder(key) + "/journal/";
        let mut noted = Noted::default();
        for name in self.store.list(&prefix).await? {
            let entry = name.strip_prefix(&prefix).unwrap_or_default();
            let mut parts = entry.splitn(3, '-');
            let (kind, number) = (parts.next(), parts.next().and_then(|number| number.parse().ok()));
            match (kind, number, parts.next()) {
                (Some("cancelled"), None, None) => noted.cancelled = true,
                (Some("claim"), Some(number), None) => drop(noted.claims.entry(number).or_default()),
                (Some("released"), Some(number), None) => drop(noted.released.insert(number)),
                (Some("build"), Some(number), Some(build)) => {
                    noted.claims.entry(number).or_default().insert(build.to_owned());
                }
                _ => {} // a later program's
            }
        }
        Ok(noted)
    }

    /// Whether somebody said that none may begin.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn cancelled(&self, key: &Key) -> Result<bool, StoreError> {
        Ok(self.store.read(&entry(key, "cancelled")).await?.is_some())
    }

    /// Says that none may begin any more.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn cancel(&self, key: &Key) -> Result<(), StoreError> {
        self.create(key, "cancelled").await.map(drop)
    }

    /// Claims a number; false when somebody else has it.
    ///
    /// # Errors
    /// When the store does not answer. The number may be taken then.
    pub async fn claim(&self, key: &Key, number: u32, now: Timestamp) -> Result<bool, StoreError> {
        let text = serde_json::to_vec(&now).unwrap_or_default();
        let created = self.store.create(&entry(key, &format!("claim-{number}")), text.into()).await?;
        Ok(created == Creation::Created)
    }

    /// When a number was claimed; none when it is not, or cannot be read.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn claimed(&self, key: &Key, number: u32) -> Result<Option<Timestamp>, StoreError> {
        let text = self.store.read(&entry(key, &format!("claim-{number}"))).await?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// Says of a claim that it certainly became no build. Only who made it may: nothing is removed, the claim stays taken.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn release(&self, key: &Key, number: u32) -> Result<(), StoreError> {
        self.create(key, &format!("released-{number}")).await.map(drop)
    }

    /// Notes what a claim became.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn note(&self, key: &Key, number: u32, build: &str) -> Result<(), StoreError> {
        self.create(key, &format!("build-{number}-{build}")).await.map(drop)
    }

    async fn create(&self, key: &Key, name: &str) -> Result<Creation, StoreError> {
        self.store.create(&entry(key, name), "{}".into()).await
    }
}

fn entry(key: &Key, name: &str) -> String {
    format!("{}/journal/{name}", folder(key))
}
