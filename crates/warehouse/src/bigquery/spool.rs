//! What stands in the bucket about each load.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use ledger::{Creation, Store, StoreError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::chain;
use crate::{Error, Load, TABLES};

/// What a load is: written once, by the first who brings it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its id.
    pub load: String,
    /// How many measurements it brings.
    pub rows: u64,
    /// Object of its rows, by table. A table for which it has none is not here.
    pub objects: BTreeMap<String, String>,
}

/// In which batch a load is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// The batch's number.
    pub batch: u64,
}

/// How a load ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its rows are there.
    Loaded,
    /// They will never be, and why.
    Refused(String),
}

impl End {
    /// As it is told: how many rows there are.
    pub fn of(self, rows: u64) -> Result<u64, Error> {
        match self {
            Self::Loaded => Ok(rows),
            Self::Refused(why) => Err(Error::Refused(why)),
        }
    }
}

/// Load ids become parts of names, and of the patterns that BigQuery takes for names: in these a `*` means anything.
///
/// # Errors
/// [`Error::Refused`] when it cannot be one.
pub fn check(load: &str) -> Result<(), Error> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !load.is_empty() && load.len() <= 200 && load.bytes().all(legal) && !load.starts_with('.') {
        return Ok(());
    }
    Err(Error::Refused(format!("load id `{load}`: expected letters, digits, `-`, `_` and `.`, at most 200")))
}

/// The bucket, below the folder of one dataset.
#[derive(Clone)]
pub struct Spool {
    store: Arc<dyn Store>,
    folder: String,
}

impl Spool {
    /// Everything is below `folder`.
    pub fn new(store: Arc<dyn Store>, folder: String) -> Self {
        Self { store, folder }
    }

    /// Where BigQuery finds an object.
    pub fn uri(&self, object: &str) -> String {
        self.store.locate(object)
    }

    /// Writes a load's rows down, unless somebody did: what then stands there is what the load is.
    pub async fn keep(&self, load: &str, rows: &Load) -> Result<Note, Error> {
        let mut objects = BTreeMap::new();
        for table in &TABLES {
            let lines = match table.name {
                "runs" => lines(&rows.runs)?,
                "verdicts" => lines(&rows.verdicts)?,
                _ => lines(&rows.rows)?,
            };
            if lines.is_empty() {
                continue;
            }
            let digest: String = Sha256::digest(&lines).iter().map(|byte| format!("{byte:02x}")).collect();
            let object = format!("{}/loads/{load}/{digest}.{}.ndjson", self.folder, table.name);
            // Whoever was here before wrote the same: the name says what is in it.
            self.store.create(&object, lines).await.map_err(unavailable)?;
            objects.insert(table.name.to_owned(), object);
        }
        let note = Note { load: load.to_owned(), rows: rows.rows.len() as u64, objects };
        let name = format!("loads/{load}/load.json");
        self.put(&name, &note).await?;
        self.get(&name)
            .await?
            .ok_or_else(|| Error::Unavailable(format!("{name} was written and is not there")))
    }

    /// What a load is, if anybody brought it.
    pub async fn note(&self, load: &str) -> Result<Option<Note>, Error> {
        self.get(&format!("loads/{load}/load.json")).await
    }

    /// In which batch a load is, as far as it was marked.
    pub async fn mark(&self, load: &str) -> Result<Option<Mark>, Error> {
        self.get(&format!("loads/{load}/batch.json")).await
    }

    /// Marks a load as being in a batch.
    pub async fn set_mark(&self, load: &str, mark: Mark) -> Result<(), Error> {
        self.put(&format!("loads/{load}/batch.json"), &mark).await.map(drop)
    }

    /// How a load ended, if it did.
    pub async fn end(&self, load: &str) -> Result<Option<End>, Error> {
        self.get(&format!("loads/{load}/end.json")).await
    }

    /// Notes how a load ended.
    pub async fn set_end(&self, load: &str, end: &End) -> Result<(), Error> {
        self.put(&format!("loads/{load}/end.json"), end).await.map(drop)
    }

    /// Notes that a load wants company.
    pub async fn wait(&self, slot: u64, load: &str) -> Result<(), Error> {
        self.put(&format!("waiting/{slot}/{load}"), &()).await.map(drop)
    }

    /// Loads that wanted company then.
    pub async fn waiting(&self, slot: u64) -> Result<Vec<String>, Error> {
        let folder = format!("{}/waiting/{slot}/", self.folder);
        let names = self.store.list(&folder).await.map_err(unavailable)?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(&folder)).map(str::to_owned).collect())
    }

    /// Creates an object, unless it is there. After a lost answer it may be ours and be called there.
    pub async fn put<T: Serialize>(&self, name: &str, value: &T) -> Result<Creation, Error> {
        let body = serde_json::to_vec(value).map_err(|error| Error::Unavailable(chain(&error)))?;
        let name = format!("{}/{name}", self.folder);
        self.store.create(&name, body.into()).await.map_err(unavailable)
    }

    /// What an object says, if it is there.
    pub async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let name = format!("{}/{name}", self.folder);
        let Some(body) = self.store.read(&name).await.map_err(unavailable)? else { return Ok(None) };
        let understood = serde_json::from_slice(&body);
        understood.map(Some).map_err(|error| {
            Error::Unavailable(format!("{} is not understood: {error}", self.store.locate(&name)))
        })
    }
}

fn lines<T: Serialize>(rows: &[T]) -> Result<Bytes, Error> {
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, row).map_err(|error| Error::Refused(chain(&error)))?;
        lines.push(b'\n');
    }
    Ok(lines.into())
}

fn unavailable(error: StoreError) -> Error {
    Error::Unavailable(chain(&error))
}
