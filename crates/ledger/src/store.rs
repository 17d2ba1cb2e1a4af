//! The port of object stores: the operations that a bucket must support.

use std::io;

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::AsyncRead;

use crate::Digest;

/// A stream of an object's bytes.
pub type ObjectReader = Box<dyn AsyncRead + Send + Unpin>;

/// Result of a create-if-absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The object was created by this call.
    Created,
    /// The name exists. After a lost response the object may be the caller's own: read it back.
    Exists,
}

/// A failed store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The name is invalid: a bug in the caller.
    #[error("object name `{name}`: {why}")]
    Name {
        /// The truncated name.
        name: String,
        /// The rule it violates.
        why: &'static str,
    },
    /// The outcome is unknown: read back, then retry.
    #[error("store: {doing} `{name}`")]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// Object name or prefix.
        name: String,
        /// Error of the file or the connection.
        source: io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(doing: &'static str, name: &str) -> impl FnOnce(io::Error) -> Self {
        let name = name.to_owned();
        move |source| Self::Io { doing, name, source }
    }
}

/// A bucket. Objects are immutable; only hints may be removed.
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    /// Creates an object unless the name exists. Atomic, and durable on return.
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError>;

    /// Creates an object from a stream without buffering all of it. The digest covers the bytes read, whether
    /// or not the name was free.
    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError>;

    /// The object's bytes; `None` if absent.
    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError>;

    /// The object as a stream; `None` if absent.
    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError>;

    /// Names with prefix `prefix`, in unspecified order.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.list_from(prefix, "").await
    }

    /// Names with prefix `prefix` that are not less than `from` in byte order, in unspecified order. Cloud
    /// Storage calls `from` the start offset.
    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError>;

    /// Distinct name parts below `folder`, which ends in `/`, up to the next `/`: `ledger/` lists the runs
    /// without reading their records. Unspecified order.
    async fn children(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let names = self.list(folder).await?;
        let first = |name: &String| Some(name.strip_prefix(folder)?.split('/').next()?.to_owned());
        let children: std::collections::BTreeSet<_> = names.iter().filter_map(first).collect();
        Ok(children.into_iter().collect())
    }

    /// Removes a hint. Succeeds if the hint is absent.
    async fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// Address of the object for display.
    fn locate(&self, name: &str) -> String;
}

impl dyn Store + '_ {
    /// Creates an object with `value` as JSON, unless the name exists: the first writer decides.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn create_json<T: Serialize + ?Sized>(
        &self,
        name: &str,
        value: &T,
    ) -> Result<Creation, StoreError> {
        let body =
            serde_json::to_vec_pretty(value).map_err(|error| StoreError::io("write", name)(error.into()))?;
        self.create(name, body.into()).await
    }

    /// The value of a JSON object; `None` if it is absent.
    ///
    /// # Errors
    /// Returns an error if the store request fails or the object is not a valid document.
    pub async fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let body = self.read(name).await?;
        let value = body.map(|body| serde_json::from_slice(&body)).transpose();
        value.map_err(|error| StoreError::io("parse", name)(error.into()))
    }
}

/// Checks that a name is valid on every store: relative, at most 1024 bytes, no empty or dotted part, no
/// control character.
///
/// # Errors
/// Returns an error with the violated rule if the name is invalid.
pub fn check_name(name: &str) -> Result<(), StoreError> {
    let why = if name.is_empty() || name.len() > 1024 {
        "must have 1 to 1024 bytes"
    } else if name.chars().any(|c| c.is_control() || c == '\\') {
        "must not contain control characters or backslashes"
    } else if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        "must be relative, without empty, `.` or `..` parts"
    } else if name.split('/').any(|part| part.len() > 255) {
        "must not have parts longer than 255 bytes"
    } else {
        return Ok(());
    };
    Err(StoreError::Name { name: name.chars().take(80).collect(), why })
}
