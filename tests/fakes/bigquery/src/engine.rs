//! An engine that executes GoogleSQL: an emulator that reads source URIs from a folder. The gate
//! `.ci/bigquery.sh` starts the emulator and sets its address.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use ledger::{Creation, Digest, FolderStore, ObjectReader, Store, StoreError};
use serde_json::{Value, json};

/// Variable with the engine's URL.
pub const URL: &str = "BURNIN_BIGQUERY_ENGINE";
/// Variable with the folder of its buckets.
pub const BUCKETS: &str = "BURNIN_BIGQUERY_BUCKETS";

/// An emulator of BigQuery, with a project for the caller.
pub struct Engine {
    /// Address for the client, `http://host:port`.
    pub endpoint: String,
    project: String,
    buckets: PathBuf,
    http: reqwest::Client,
}

impl Engine {
    /// The engine from the environment, shared by all callers, each with its own project.
    ///
    /// # Errors
    /// Returns an error if the variable is not set.
    pub fn from_env(project: &str) -> Result<Self, String> {
        let of =
            |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set: run .ci/bigquery.sh"));
        let (endpoint, buckets) = (of(URL)?, of(BUCKETS)?.into());
        Ok(Self { endpoint, project: project.to_owned(), buckets, http: reqwest::Client::new() })
    }

    /// Creates a dataset.
    ///
    /// # Errors
    /// Returns an error if the engine rejects it.
    pub async fn dataset(&self, dataset: &str) -> Result<(), String> {
        let reference = json!({"projectId": self.project, "datasetId": dataset});
        let request = json!({"datasetReference": reference, "location": "europe-west4"});
        self.post("datasets", request).await.map(drop)
    }

    /// Creates a table from a schema in `bq mk`'s format, partitioned by day as in Terraform.
    ///
    /// # Errors
    /// Returns an error if the engine rejects it.
    pub async fn table(&self, dataset: &str, table: &str, schema: &Value) -> Result<(), String> {
        let request = json!({
            "tableReference": {"projectId": self.project, "datasetId": dataset, "tableId": table},
            "schema": {"fields": schema},
            "timePartitioning": {"type": "DAY", "field": "requested_at"},
        });
        self.post(&format!("datasets/{dataset}/tables"), request).await.map(drop)
    }

    /// Creates a view.
    ///
    /// # Errors
    /// Returns an error if the engine rejects it, for instance its statement.
    pub async fn view(&self, dataset: &str, view: &str, statement: &str) -> Result<(), String> {
        let request = json!({
            "tableReference": {"projectId": self.project, "datasetId": dataset, "tableId": view},
            "view": {"query": statement, "useLegacySql": false},
        });
        self.post(&format!("datasets/{dataset}/tables"), request).await.map(drop)
    }

    /// Rows of a statement's result: cells as text or null.
    ///
    /// # Errors
    /// Returns an error if the engine rejects the statement.
    pub async fn select(&self, statement: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        let request = json!({"query": statement, "useLegacySql": false, "location": "europe-west4"});
        let mut answer = self.post("queries", request).await?;
        let rows = answer["rows"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let cells = |row: &Value| {
            let cells = row["f"].as_array().map(Vec::as_slice).unwrap_or_default();
            cells.iter().map(|cell| cell["v"].as_str().map(str::to_owned)).collect()
        };
        Ok(rows.iter().map(cells).collect())
    }

    /// A bucket that the engine reads.
    ///
    /// # Errors
    /// Returns an error if its folder cannot be created.
    pub fn bucket(&self, name: &str) -> Result<Arc<dyn Store>, String> {
        let folder = FolderStore::open(self.buckets.join(name)).map_err(|error| error.to_string())?;
        Ok(Arc::new(LoadBucket { name: name.to_owned(), folder }))
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value, String> {
        let url = format!("{}/bigquery/v2/projects/{}/{path}", self.endpoint, self.project);
        let answer = self.http.post(&url).json(&body).send().await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| error.to_string())?;
        if !status.is_success() {
            return Err(format!("{path}: {status}: {text}"));
        }
        serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))
    }
}

/// A folder that serves as a bucket.
struct LoadBucket {
    name: String,
    folder: FolderStore,
}

#[async_trait::async_trait]
impl Store for LoadBucket {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        self.folder.create(name, body).await
    }

    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        self.folder.create_from(name, body).await
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        self.folder.read(name).await
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        self.folder.open(name).await
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        self.folder.list_from(prefix, from).await
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.folder.remove(name).await
    }

    fn locate(&self, name: &str) -> String {
        format!("gs://{}/{name}", self.name)
    }
}
