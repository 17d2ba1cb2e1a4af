//! A store whose requests are reported to a function: to count them, or to log them.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Creation, Digest, ObjectReader, Store, StoreError};

/// Operation of a store, as counted in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// Creation of an object.
    Create,
    /// Read of an object, whole or as a stream.
    Read,
    /// Listing of names or of folders.
    List,
    /// Removal of a hint.
    Remove,
}

/// A completed store request.
#[derive(Clone, Copy, Debug)]
pub struct StoreRequest<'a> {
    /// Operation, such as a read or a list.
    pub kind: RequestKind,
    /// Name of the object, or listed prefix.
    pub name: &'a str,
    /// Result of a read: whether the object exists. True for other requests.
    pub found: bool,
}

/// Called with every request.
pub type OnRequest = Arc<dyn Fn(StoreRequest<'_>) + Send + Sync>;

/// A store that reports its requests.
pub struct ObservedStore {
    inner: Arc<dyn Store>,
    on: OnRequest,
}

impl ObservedStore {
    /// Forwards each request to `inner`, and reports it to `on`.
    pub fn new(inner: Arc<dyn Store>, on: OnRequest) -> Self {
        Self { inner, on }
    }

    fn report(&self, kind: RequestKind, name: &str) {
        (self.on)(StoreRequest { kind, name, found: true });
    }

    fn report_read<T>(&self, name: &str, read: &Result<Option<T>, StoreError>) {
        let found = matches!(read, Ok(Some(_)));
        (self.on)(StoreRequest { kind: RequestKind::Read, name, found });
    }
}

#[async_trait::async_trait]
impl Store for ObservedStore {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        self.report(RequestKind::Create, name);
        self.inner.create(name, body).await
    }

    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        self.report(RequestKind::Create, name);
        self.inner.create_from(name, body).await
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let read = self.inner.read(name).await;
        self.report_read(name, &read);
        read
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        let opened = self.inner.open(name).await;
        self.report_read(name, &opened);
        opened
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        self.report(RequestKind::List, prefix);
        self.inner.list_from(prefix, from).await
    }

    async fn children(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        self.report(RequestKind::List, folder);
        self.inner.children(folder).await
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.report(RequestKind::Remove, name);
        self.inner.remove(name).await
    }

    fn locate(&self, name: &str) -> String {
        self.inner.locate(name)
    }
}
