//! Records of a command's builds, in the bucket.
//!
//! ```text
//! builds/{resource name}/journal/cancelled          no further build may start
//!                                claim-{n}          a builder is creating a build, or has created it
//!                                released-{n}       the claim certainly created no build
//!                                build-{n}-{id}     the claim created this build
//! ```
//!
//! Cloud Build's `create` has no request id and its `list` is eventually consistent. The bucket is strongly
//! consistent and permits one creator per name. Therefore a builder claims the next number before it creates
//! a build, and a claim without a build may have an unknown build.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ledger::{Creation, Store, StoreError};
use model::Timestamp;

use crate::BuildKey;

/// Reads and writes the journals of all commands in one bucket.
#[derive(Clone)]
pub struct Journal {
    store: Arc<dyn Store>,
}

/// State of one command's builds, as its journal records it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalEntry {
    /// Whether a cancellation prevents further builds of the command.
    pub cancelled: bool,
    /// Ids of the known builds, by claim number.
    pub claims: BTreeMap<u32, BTreeSet<String>>,
    /// Claims that certainly created no build.
    pub released: BTreeSet<u32>,
}

impl JournalEntry {
    /// Claims that may have unknown builds.
    pub fn open(&self) -> impl Iterator<Item = u32> {
        let open = |(number, builds): &(&u32, &BTreeSet<String>)| {
            builds.is_empty() && !self.released.contains(*number)
        };
        self.claims.iter().filter(open).map(|(number, _)| *number)
    }

    /// Ids of all builds that a claim is known to have created.
    pub fn builds(&self) -> BTreeSet<String> {
        self.claims.values().flatten().cloned().collect()
    }

    /// Number of the next claim.
    pub fn next(&self) -> u32 {
        self.claims.keys().next_back().map_or(1, |last| last + 1)
    }
}

/// Folder of a command's builds, without a trailing slash.
pub fn folder(key: &BuildKey) -> String {
    format!("builds/{}", key.resource_name())
}

impl Journal {
    /// Creates the journals in this bucket.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Reads a command's journal.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn read(&self, key: &BuildKey) -> Result<JournalEntry, StoreError> {
        let prefix = folder(key) + "/journal/";
        let mut noted = JournalEntry::default();
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
                _ => {} // written by a later version
            }
        }
        Ok(noted)
    }

    /// Whether the command was cancelled.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn cancelled(&self, key: &BuildKey) -> Result<bool, StoreError> {
        Ok(self.store.read(&entry(key, "cancelled")).await?.is_some())
    }

    /// Marks the command as cancelled.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn cancel(&self, key: &BuildKey) -> Result<(), StoreError> {
        self.create(key, "cancelled").await.map(drop)
    }

    /// Claims a number; returns `false` if it is taken.
    ///
    /// # Errors
    /// Returns an error if the store request fails. The number may then be taken.
    pub async fn claim(&self, key: &BuildKey, number: u32, now: Timestamp) -> Result<bool, StoreError> {
        let created = self.store.create_json(&entry(key, &format!("claim-{number}")), &now).await?;
        Ok(created == Creation::Created)
    }

    /// Time of a claim; `None` if it is absent or unreadable.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn claimed(&self, key: &BuildKey, number: u32) -> Result<Option<Timestamp>, StoreError> {
        let text = self.store.read(&entry(key, &format!("claim-{number}"))).await?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// Records that a claim certainly created no build. Only its owner may do this. No object is removed, and the
    /// number stays taken.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn release(&self, key: &BuildKey, number: u32) -> Result<(), StoreError> {
        self.create(key, &format!("released-{number}")).await.map(drop)
    }

    /// Records the build of a claim.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn note(&self, key: &BuildKey, number: u32, build: &str) -> Result<(), StoreError> {
        self.create(key, &format!("build-{number}-{build}")).await.map(drop)
    }

    async fn create(&self, key: &BuildKey, name: &str) -> Result<Creation, StoreError> {
        self.store.create(&entry(key, name), "{}".into()).await
    }
}

fn entry(key: &BuildKey, name: &str) -> String {
    format!("{}/journal/{name}", folder(key))
}
