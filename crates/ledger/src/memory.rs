//! A bucket in memory, for tests and simulation.

use std::{
    collections::BTreeMap,
    io::Cursor,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::io::AsyncReadExt;

use crate::{Creation, Digest, Digester, ObjectReader, Store, StoreError, check_name};

/// Objects in a map.
#[derive(Debug, Default)]
pub struct MemoryStore {
    objects: Mutex<BTreeMap<String, Bytes>>,
}

impl MemoryStore {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        // The map is consistent between calls, so a panic elsewhere cannot corrupt it.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl Store for MemoryStore {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        check_name(name)?;
        let mut objects = self.objects();
        if objects.contains_key(name) {
            return Ok(Creation::Exists);
        }
        objects.insert(name.to_owned(), body);
        Ok(Creation::Created)
    }

    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        check_name(name)?;
        let mut digester = Digester::new(body);
        let mut bytes = Vec::new();
        digester.read_to_end(&mut bytes).await.map_err(StoreError::io("read the body of", name))?;
        Ok((self.create(name, bytes.into()).await?, digester.finish()))
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        check_name(name)?;
        Ok(self.objects().get(name).cloned())
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        Ok(self.read(name).await?.map(|bytes| Box::new(Cursor::new(bytes)) as ObjectReader))
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        let objects = self.objects();
        let from = objects.range::<str, _>((Bound::Included(prefix.max(from)), Bound::Unbounded));
        Ok(from.map(|(name, _)| name).take_while(|name| name.starts_with(prefix)).cloned().collect())
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        check_name(name)?;
        self.objects().remove(name);
        Ok(())
    }

    fn locate(&self, name: &str) -> String {
        format!("memory:{name}")
    }
}
