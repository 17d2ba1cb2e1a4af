//! Objects of a load in the bucket.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use ledger::{Creation, Store, StoreError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::chain;
use crate::{Error, Load, TABLES};

/// Folder of the hints of waiting loads, with the version of the batch rules.
const WAITING: &str = "waiting-3";

/// Content of a load: written once, by its first caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadNote {
    /// Id that the caller of the load chose.
    pub load: String,
    /// Number of measurements and metrics.
    pub rows: u64,
    /// Object with the rows, by table. Tables without rows are absent.
    pub objects: BTreeMap<String, String>,
}

/// Membership of a load in a batch, stored in `batch.json`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LoadMark {
    /// Sequence number of the batch.
    pub batch: u64,
}

/// Final outcome of a load, stored in `end.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadEnd {
    /// The rows of the load are stored in the tables.
    Loaded,
    /// The rows of the load are rejected permanently, with the reason.
    Refused(String),
}

impl LoadEnd {
    /// The number of rows, if they were loaded.
    ///
    /// # Errors
    /// Returns a permanent error with the reason if the rows were rejected.
    pub fn of(self, rows: u64) -> Result<u64, Error> {
        match self {
            Self::Loaded => Ok(rows),
            Self::Refused(why) => Err(Error::Permanent(why)),
        }
    }
}

/// Load ids become part of object names, and of BigQuery's URI patterns, where `*` is a wildcard.
///
/// # Errors
/// Returns an error if the id is invalid: [`Error::Permanent`].
pub fn check(load: &str) -> Result<(), Error> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !load.is_empty() && load.len() <= 200 && load.bytes().all(legal) && !load.starts_with('.') {
        return Ok(());
    }
    Err(Error::Permanent(format!(
        "load id `{load}`: expected letters, digits, `-`, `_` and `.`, at most 200"
    )))
}

/// The bucket, below the folder of one dataset.
#[derive(Clone)]
pub struct LoadStore {
    store: Arc<dyn Store>,
    folder: String,
}

impl LoadStore {
    /// All objects are below `folder`.
    pub fn new(store: Arc<dyn Store>, folder: String) -> Self {
        Self { store, folder }
    }

    /// `gs://` URI of an object.
    pub fn uri(&self, object: &str) -> String {
        self.store.locate(object)
    }

    /// Stores the rows of a load, unless it exists: the first writer's content is authoritative.
    pub async fn keep(&self, load: &str, rows: &Load) -> Result<LoadNote, Error> {
        let mut objects = BTreeMap::new();
        for table in &TABLES {
            let lines = match table.name {
                "runs" => lines(&rows.runs)?,
                "verdicts" => lines(&rows.verdicts)?,
                "metrics" => lines(&rows.metrics)?,
                "findings" => lines(&rows.findings)?,
                "node_results" => lines(&rows.node_results)?,
                _ => lines(&rows.rows)?,
            };
            if lines.is_empty() {
                continue;
            }
            let digest = hex::encode(Sha256::digest(&lines));
            let object = format!("{}/loads/{load}/{digest}.{}.ndjson", self.folder, table.name);
            // An existing object is identical: its name contains its digest.
            self.store.create(&object, lines).await.map_err(unavailable)?;
            objects.insert(table.name.to_owned(), object);
        }
        let note = LoadNote { load: load.to_owned(), rows: rows.count(), objects };
        let name = format!("loads/{load}/load.json");
        self.put(&name, &note).await?;
        self.get(&name)
            .await?
            .ok_or_else(|| Error::Transient(format!("{name} is missing after it was written")))
    }

    /// Content of a load, if it exists.
    pub async fn read_note(&self, load: &str) -> Result<Option<LoadNote>, Error> {
        self.get(&format!("loads/{load}/load.json")).await
    }

    /// `None` until the load is marked as a member of a batch.
    pub async fn mark(&self, load: &str) -> Result<Option<LoadMark>, Error> {
        self.get(&format!("loads/{load}/batch.json")).await
    }

    /// Marks a load as a member of a batch.
    pub async fn set_mark(&self, load: &str, mark: LoadMark) -> Result<(), Error> {
        self.put(&format!("loads/{load}/batch.json"), &mark).await.map(drop)
    }

    /// `None` while the load is pending.
    pub async fn end(&self, load: &str) -> Result<Option<LoadEnd>, Error> {
        self.get(&format!("loads/{load}/end.json")).await
    }

    /// Stores the final outcome of a load in `end.json`.
    pub async fn set_end(&self, load: &str, end: &LoadEnd) -> Result<(), Error> {
        self.put(&format!("loads/{load}/end.json"), end).await.map(drop)
    }

    /// Stores a hint that a load waits for others. Loaders of earlier rules read another folder: they do not load all tables, and
    /// must not include this load in a batch.
    pub async fn put_hint(&self, slot: u64, load: &str) -> Result<(), Error> {
        self.put(&format!("{WAITING}/{slot}/{load}"), &()).await.map(drop)
    }

    /// Loads with a hint in this slot.
    pub async fn hinted_loads(&self, slot: u64) -> Result<Vec<String>, Error> {
        let folder = format!("{}/{WAITING}/{slot}/", self.folder);
        let names = self.store.list(&folder).await.map_err(unavailable)?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(&folder)).map(str::to_owned).collect())
    }

    /// Creates an object unless it exists. After a lost response, the existing object may be from this call.
    pub async fn put<T: Serialize>(&self, name: &str, value: &T) -> Result<Creation, Error> {
        self.store.create_json(&format!("{}/{name}", self.folder), value).await.map_err(unavailable)
    }

    /// Parsed content of an object, if it exists.
    pub async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let name = format!("{}/{name}", self.folder);
        let Some(body) = self.store.read(&name).await.map_err(unavailable)? else { return Ok(None) };
        let understood = serde_json::from_slice(&body);
        understood
            .map(Some)
            .map_err(|error| Error::Transient(format!("{} is invalid: {error}", self.store.locate(&name))))
    }
}

fn lines<T: Serialize>(rows: &[T]) -> Result<Bytes, Error> {
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, row).map_err(|error| Error::Permanent(chain(&error)))?;
        lines.push(b'\n');
    }
    Ok(lines.into())
}

fn unavailable(error: StoreError) -> Error {
    Error::Transient(chain(&error))
}
