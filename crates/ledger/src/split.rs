//! Combines two stores: names with a given prefix are stored in a separate store.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Creation, Digest, ObjectReader, Store, StoreError};

/// Hints are removed, records never: a bucket with object retention cannot store both.
pub struct Split {
    prefix: &'static str,
    below: Arc<dyn Store>,
    others: Arc<dyn Store>,
}

impl Split {
    /// Names with the prefix `prefix` are stored in `below`, all others in `others`.
    pub fn new(prefix: &'static str, below: Arc<dyn Store>, others: Arc<dyn Store>) -> Self {
        Self { prefix, below, others }
    }

    fn of(&self, name: &str) -> &dyn Store {
        if name.starts_with(self.prefix) { &*self.below } else { &*self.others }
    }
}

#[async_trait::async_trait]
impl Store for Split {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        self.of(name).create(name, body).await
    }

    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        self.of(name).create_from(name, body).await
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        self.of(name).read(name).await
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        self.of(name).open(name).await
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        if prefix.starts_with(self.prefix) {
            return self.below.list_from(prefix, from).await;
        }
        let mut names = self.others.list_from(prefix, from).await?;
        names.retain(|name| !name.starts_with(self.prefix));
        // Objects of both stores may match a prefix shorter than `self.prefix`.
        if self.prefix.starts_with(prefix) {
            names.extend(self.below.list_from(self.prefix, from).await?);
        }
        Ok(names)
    }

    async fn children(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        if folder.starts_with(self.prefix) || !self.prefix.starts_with(folder) {
            return self.of(folder).children(folder).await;
        }
        let mut children = self.others.children(folder).await?;
        children.extend(self.below.children(folder).await?);
        children.sort();
        children.dedup();
        Ok(children)
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.of(name).remove(name).await
    }

    fn locate(&self, name: &str) -> String {
        self.of(name).locate(name)
    }
}
