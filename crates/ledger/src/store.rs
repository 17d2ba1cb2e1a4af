//! The port: what a bucket has to be able to do.

use std::io;

use bytes::Bytes;
use tokio::io::AsyncRead;

use crate::Digest;

/// A stream of an object's bytes.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// What a create-if-absent did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The object is new, and it is ours.
    Created,
    /// The name was taken. After a lost answer it may have been taken by us: read it back.
    Exists,
}

/// Why a store did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The name can never be an object: correct the caller.
    #[error("object name `{name}`: {why}")]
    Name {
        /// The name, shortened.
        name: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// It may or may not have happened: read back, then try again.
    #[error("store: {doing} `{name}`")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The object.
        name: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(doing: &'static str, name: &str) -> impl FnOnce(io::Error) -> Self {
        let name = name.to_owned();
        move |source| Self::Io { doing, name, source }
    }
}

/// A bucket. Objects are created once and never rewritten; only hints may be removed.
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    /// Creates an object, unless the name is taken. All or nothing, and durable when it returns.
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError>;

    /// Creates an object from a stream without holding it in memory. The digest is of what was read, whether or not
    /// the name was free.
    async fn create_from(&self, name: &str, body: Reader) -> Result<(Creation, Digest), StoreError>;

    /// The object's bytes; none when there is no such object.
    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError>;

    /// The object as a stream; none when there is no such object.
    async fn open(&self, name: &str) -> Result<Option<Reader>, StoreError>;

    /// Names that begin with `prefix`, in no order that means anything.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError>;

    /// What the names below `folder`, which ends in `/`, go on with up to the next `/`: `ledger/` gives the runs, without a
    /// look at any of their records. In no order that means anything, each once.
    async fn children(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let names = self.list(folder).await?;
        let first = |name: &String| Some(name.strip_prefix(folder)?.split('/').next()?.to_owned());
        let children: std::collections::BTreeSet<_> = names.iter().filter_map(first).collect();
        Ok(children.into_iter().collect())
    }

    /// Removes a hint. Absent is done.
    async fn remove(&self, name: &str) -> Result<(), StoreError>;

    /// Where a person finds the object.
    fn locate(&self, name: &str) -> String;
}

/// Checks that a name is an object name that is safe on every store: relative, at most 1024 bytes, no empty or dotted
/// part, no control character.
///
/// # Errors
/// Names the rule that is broken.
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
