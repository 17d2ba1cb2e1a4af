//! A bucket with faults.

use std::{io, sync::Arc};

use bytes::Bytes;
use futures::FutureExt;
use ledger::{Creation, Digest, ObjectReader, Store, StoreError};
use model::{Record, RecordEntry, failpoint_is_active};
use tokio::io::AsyncReadExt;

use crate::{
    ExternalEvent,
    effect::{EffectKind, EffectResult, Effects},
};

/// Client of the bucket in one process.
pub struct SimStore {
    effects: Effects,
    bucket: Arc<dyn Store>,
}

/// Resolves a future that is ready immediately, as in memory.
pub fn at_once<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never().unwrap_or_else(|| unreachable!("a store in memory never waits"))
}

fn broken<T>(doing: &'static str, name: &str) -> Result<T, StoreError> {
    let source = io::Error::other("the connection was reset");
    Err(StoreError::Io { doing, name: name.to_owned(), source })
}

impl SimStore {
    /// Client of `bucket` for one process: `effects` decides which requests fail.
    pub fn new(effects: Effects, bucket: Arc<dyn Store>) -> Self {
        Self { effects, bucket }
    }

    async fn read_as<T>(
        &self,
        doing: &'static str,
        name: &str,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.effects.call(EffectKind::Read, || format!("{doing} {name}"), |_| at_once(work)).await {
            EffectResult::Done(found) => found,
            EffectResult::Lost(_) | EffectResult::Refused => broken(doing, name),
        }
    }
}

/// Text of a record for the trace.
fn recorded(name: &str, body: &[u8]) -> String {
    let what = match serde_json::from_slice::<Record>(body).map(|record| record.entry) {
        Ok(RecordEntry::Accepted { attempt, fact, .. }) => {
            let failure = fact.failure().map(|failure| format!(", {:?} {}", failure.class, failure.code));
            format!("{} of attempt {attempt}{}", fact.event_type(), failure.unwrap_or_default())
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    };
    format!("RECORDS {name}: {what}")
}

#[async_trait::async_trait]
impl Store for SimStore {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        let service = self.effects.service;
        let create = |inner: &mut crate::world::WorldState| {
            let created = at_once(self.bucket.create(name, body.clone()))?;
            if created == Creation::Created {
                if name.starts_with("ledger/") {
                    inner.trace(service, || recorded(name, &body));
                }
                inner.note(service, ExternalEvent::Stored { name: name.to_owned() });
            }
            Ok(created)
        };
        match self.effects.call(EffectKind::Write, || format!("create {name}"), create).await {
            EffectResult::Done(created) => created,
            // A client's internal retry may find its own first write.
            EffectResult::Lost(Ok(_)) if self.effects.world.inner().random.once_in(2) => Ok(Creation::Exists),
            EffectResult::Lost(_) | EffectResult::Refused => broken("create", name),
        }
    }

    async fn create_from(
        &self,
        name: &str,
        mut body: ObjectReader,
    ) -> Result<(Creation, Digest), StoreError> {
        let mut bytes = Vec::new();
        if body.read_to_end(&mut bytes).await.is_err() {
            return broken("read the body of", name);
        }
        let digest = Digest::of(&bytes);
        if failpoint_is_active("bytes_are_lost") && self.effects.world.inner().random.once_in(8) {
            return Ok((Creation::Created, digest));
        }
        Ok((self.create(name, bytes.into()).await?, digest))
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        self.read_as("read", name, self.bucket.read(name)).await
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        self.read_as("open", name, self.bucket.open(name)).await
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        let mut names = self.read_as("list", prefix, self.bucket.list_from(prefix, from)).await?;
        self.effects.world.inner().random.shuffle(&mut names); // the listing order is unspecified
        Ok(names)
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        let service = self.effects.service;
        let remove = |inner: &mut crate::world::WorldState| {
            inner.note(service, ExternalEvent::Removed { name: name.to_owned() });
            at_once(self.bucket.remove(name))
        };
        match self.effects.call(EffectKind::Write, || format!("remove {name}"), remove).await {
            EffectResult::Done(removed) => removed,
            EffectResult::Lost(_) | EffectResult::Refused => broken("remove", name),
        }
    }

    fn locate(&self, name: &str) -> String {
        self.bucket.locate(name)
    }
}
