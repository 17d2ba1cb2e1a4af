//! A bucket in a file, so that the objects of thousands of runs do not use memory.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Cursor},
    ops::Bound,
    os::unix::fs::FileExt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use ledger::{Creation, Digest, ObjectReader, Store, StoreError, check_name};
use tokio::io::AsyncReadExt;

/// Objects in an unnamed file, deleted when this is dropped.
pub struct ObjectFile {
    file: File,
    objects: Mutex<DiskObjects>,
}

#[derive(Default)]
struct DiskObjects {
    /// Offset and length of each object. Only this is in memory.
    ranges: BTreeMap<Box<str>, (u32, u32)>,
    end: u32,
}

fn failed(doing: &'static str, name: &str) -> impl FnOnce(io::Error) -> StoreError {
    let name = name.to_owned();
    move |source| StoreError::Io { doing, name, source }
}

impl ObjectFile {
    /// An empty bucket.
    ///
    /// # Errors
    /// Returns an error if no temporary file can be created.
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile()?, objects: Mutex::default() })
    }

    fn objects(&self) -> MutexGuard<'_, DiskObjects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl Store for ObjectFile {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        check_name(name)?;
        let objects = &mut *self.objects();
        if objects.ranges.contains_key(name) {
            return Ok(Creation::Exists);
        }
        let full =
            || failed("create", name)(io::Error::other("the bucket's file has its maximum size, 4 GiB"));
        let length = u32::try_from(body.len()).map_err(|_| full())?;
        let end = objects.end.checked_add(length).ok_or_else(full)?;
        self.file.write_all_at(&body, objects.end.into()).map_err(failed("create", name))?;
        objects.ranges.insert(name.into(), (objects.end, length));
        objects.end = end;
        Ok(Creation::Created)
    }

    async fn create_from(
        &self,
        name: &str,
        mut body: ObjectReader,
    ) -> Result<(Creation, Digest), StoreError> {
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes).await.map_err(failed("read the body of", name))?;
        let digest = Digest::of(&bytes);
        Ok((self.create(name, bytes.into()).await?, digest))
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        check_name(name)?;
        let Some((begin, length)) = self.objects().ranges.get(name).copied() else { return Ok(None) };
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, begin.into()).map_err(failed("read", name))?;
        Ok(Some(bytes.into()))
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        Ok(self.read(name).await?.map(|bytes| Box::new(Cursor::new(bytes)) as ObjectReader))
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        let objects = self.objects();
        let from = objects.ranges.range::<str, _>((Bound::Included(prefix.max(from)), Bound::Unbounded));
        let names = from.map(|(name, _)| name).take_while(|name| name.starts_with(prefix));
        Ok(names.map(ToString::to_string).collect())
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        check_name(name)?;
        self.objects().ranges.remove(name);
        Ok(())
    }

    fn locate(&self, name: &str) -> String {
        format!("shelf:{name}")
    }
}
