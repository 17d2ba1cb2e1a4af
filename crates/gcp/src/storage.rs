//! Objects on Cloud Storage.
//!
//! An object is created with the precondition that its name is free, and with its CRC32C, so that the service itself
//! rejects duplicates and corrupted uploads. After an unknown outcome the object is read: if the name is taken, the
//! result is [`Creation::Exists`], never `Created`. Equal bytes do not prove their author; on every `Exists`, callers
//! that need the author check a proof in the object (a record's nonce) or compare digests (artefacts). Status 429,
//! returned if a name is written more than once per second, is handled the same way: another process is writing it, so
//! read before retrying.
//!
//! Google's client performs requests with credentials, one-shot uploads and reads. Its retries are disabled, because the duration of an
//! attempt cannot be limited, and no call may take longer than the timeout of a push.

mod download;
mod request_error;
mod rest;
mod upload;

use std::{str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use google_cloud_auth::credentials::{self, anonymous};
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_storage::client::Storage;
use ledger::{Creation, Digest, ObjectReader, Store, StoreError, check_name};
use tokio::sync::OnceCell;

use self::{
    download::Download,
    request_error::{RequestError, Tries},
    rest::JsonApi,
};

const GOOGLE: &str = "https://storage.googleapis.com";

#[derive(Clone, Debug)]
pub struct StorageTimeouts {
    /// Timeout of one request.
    pub attempt: Duration,
    /// Timeout of one call of the port with all attempts, without the check of an unknown outcome.
    pub total: Duration,
    /// Timeout of the check of an unknown outcome.
    pub check: Duration,
    /// Timeout of one chunk of a large upload with all attempts.
    pub stream: Duration,
}

impl Default for StorageTimeouts {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(8),
            total: Duration::from_secs(20),
            check: Duration::from_secs(4),
            stream: Duration::from_secs(60),
        }
    }
}

/// A replacement for one of Google's services, as `http://host:port` or `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator(String);

impl Emulator {
    /// `http://host:port`.
    pub fn url(&self) -> &str {
        &self.0
    }
}

impl FromStr for Emulator {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        match reqwest::Url::parse(&url) {
            Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.path() == "/" => {
                Ok(Self(url.trim_end_matches('/').to_owned()))
            }
            _ => Err("expected http://host:port or host:port"),
        }
    }
}

pub struct CloudStorage {
    inner: Arc<ClientState>,
}

pub(crate) struct ClientState {
    bucket: String,
    emulator: Option<Emulator>,
    timeouts: StorageTimeouts,
    /// Clients, created at first use, so that missing credentials are reported to a caller.
    clients: OnceCell<StorageClients>,
}

struct StorageClients {
    storage: Storage,
    json_api: JsonApi,
}

impl CloudStorage {
    /// A bucket by name, with the credentials of the environment; an emulator is used without credentials.
    pub fn new(bucket: &str, emulator: Option<Emulator>) -> Self {
        Self::with_timeouts(bucket, emulator, StorageTimeouts::default())
    }

    /// Replaces the default timeouts, which are the timeouts for a push.
    pub fn with_timeouts(bucket: &str, emulator: Option<Emulator>, timeouts: StorageTimeouts) -> Self {
        let bucket = bucket.to_owned();
        Self { inner: Arc::new(ClientState { bucket, emulator, timeouts, clients: OnceCell::new() }) }
    }

    fn tries(&self) -> Tries {
        Tries::new(&self.inner.timeouts)
    }

    async fn pages(&self, prefix: &str, from: &str, folded: bool) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let page = self.tries().until_done(|| async {
                self.inner.json_api().await?.page((prefix, from), folded, token.as_deref()).await
            });
            let (more, next) = page.await.map_err(|error| error.store("list", prefix))?;
            names.extend(more);
            if next.is_none() {
                return Ok(names);
            }
            token = next;
        }
    }
}

impl ClientState {
    fn resource(&self) -> String {
        format!("projects/_/buckets/{}", self.bucket)
    }

    async fn clients(&self) -> Result<&StorageClients, RequestError> {
        let made = async || {
            let credentials = match self.emulator {
                Some(_) => anonymous::Builder::new().build(),
                None => credentials::Builder::default().build().map_err(RequestError::unanswered)?,
            };
            let base = self.emulator.as_ref().map_or(GOOGLE, |emulator| &emulator.0);
            let json_api = JsonApi::new(base, &self.bucket, credentials.clone())?;
            let storage = Storage::builder().with_endpoint(base).with_credentials(credentials).build();
            Ok(StorageClients { storage: storage.await.map_err(RequestError::unanswered)?, json_api })
        };
        self.clients.get_or_try_init(made).await
    }

    async fn json_api(&self) -> Result<&JsonApi, RequestError> {
        Ok(&self.clients().await?.json_api)
    }

    /// Uploads in one request.
    async fn insert(&self, name: &str, body: &Bytes) -> Result<(), RequestError> {
        let crc32c = crc32c::crc32c(body);
        let storage = &self.clients().await?.storage;
        let request = storage
            .write_object(self.resource(), name, body.clone())
            .set_if_generation_match(0_i64)
            .set_content_type(content_type(name))
            .with_known_crc32c(crc32c)
            .with_resumable_upload_threshold(usize::MAX)
            .with_retry_policy(NeverRetry);
        let made = request.send_unbuffered().await?;
        let stored = (made.size, made.checksums.and_then(|sums| sums.crc32c));
        if stored == (body.len() as i64, Some(crc32c)) {
            return Ok(());
        }
        let why = format!("{stored:?} is stored, {} bytes with CRC32C {crc32c} were sent", body.len());
        Err(RequestError::damaged(why))
    }

    /// Whether the name is taken, after a failed create.
    async fn check_outcome(&self, name: &str, error: RequestError) -> Result<Creation, RequestError> {
        if error.status == Some(412) {
            return Ok(Creation::Exists);
        }
        // It is not documented whether the permission to overwrite is checked before the precondition: without it, the creation of an
        // existing name may return 403.
        if !error.is_transient() && error.status != Some(403) {
            return Err(error);
        }
        let check = async { self.json_api().await?.exists(name).await };
        match tokio::time::timeout(self.timeouts.check, check).await {
            Ok(Ok(true)) => Ok(Creation::Exists),
            _ => Err(error),
        }
    }

    /// Whether a name is certainly free, after a request for the name returned 403. It is not documented whether a request for an
    /// absent object returns 404 or 403 for an account whose right to list is limited to a prefix; such an account may list this prefix.
    async fn is_absent(&self, name: &str) -> bool {
        let check = async {
            let mut token: Option<String> = None;
            loop {
                let (names, next) = self.json_api().await?.page((name, ""), false, token.as_deref()).await?;
                // Names are listed in order, so an existing `name` is the first. A page may be empty although another page follows.
                match names.first() {
                    Some(first) => return Ok::<_, RequestError>(first != name),
                    None if next.is_none() => return Ok(true),
                    None => token = next,
                }
            }
        };
        matches!(tokio::time::timeout(self.timeouts.check, check).await, Ok(Ok(true)))
    }

    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        let mut tries = Tries::new(&self.timeouts);
        loop {
            let error = match tries.one(self.insert(name, &body)).await {
                Ok(()) => return Ok(Creation::Created),
                Err(error) => error,
            };
            let error = match self.check_outcome(name, error).await {
                Ok(creation) => return Ok(creation),
                Err(error) => error,
            };
            tries.wait_before_retry(error).await.map_err(|error| error.store("create", name))?;
        }
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, kind)| kind) {
        Some("json") => "application/json",
        Some("log" | "txt" | "out") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[async_trait::async_trait]
impl Store for CloudStorage {
    async fn create(&self, name: &str, body: Bytes) -> Result<Creation, StoreError> {
        check_name(name)?;
        if body.len() > upload::AT_ONCE {
            return Ok(self.create_from(name, Box::new(std::io::Cursor::new(body))).await?.0);
        }
        self.inner.create(name, body).await
    }

    async fn create_from(&self, name: &str, body: ObjectReader) -> Result<(Creation, Digest), StoreError> {
        check_name(name)?;
        upload::upload(&self.inner, name, body).await
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        check_name(name)?;
        let timeouts = &self.inner.timeouts;
        let reading = async {
            let mut damaged = false;
            loop {
                let Some(download) = Download::begin(&self.inner, name).await? else { return Ok(None) };
                match download.read_all().await {
                    // Data corrupted in transit is usually intact at the second attempt.
                    Err(error) if error.damage && !damaged => damaged = true,
                    read => return read.map(Some),
                }
            }
        };
        let limit = timeouts.total + timeouts.check;
        let read = tokio::time::timeout(limit, reading).await;
        let read = read.unwrap_or_else(|_| {
            Err(RequestError::unanswered(format!("not read within {:.1} s", limit.as_secs_f64())))
        });
        read.map_err(|error| error.store("read", name))
    }

    async fn open(&self, name: &str) -> Result<Option<ObjectReader>, StoreError> {
        check_name(name)?;
        let started = Download::begin(&self.inner, name).await;
        Ok(started.map_err(|error| error.store("open", name))?.map(Download::reader))
    }

    async fn list_from(&self, prefix: &str, from: &str) -> Result<Vec<String>, StoreError> {
        self.pages(prefix, from, false).await
    }

    async fn children(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let names = self.pages(folder, "", true).await?;
        let child = |name: &String| Some(name.strip_prefix(folder)?.trim_end_matches('/').to_owned());
        Ok(names.iter().filter_map(child).collect())
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        check_name(name)?;
        let removed = self.tries().until_done(|| async { self.inner.json_api().await?.remove(name).await });
        match removed.await {
            Err(error) if error.status == Some(403) && self.inner.is_absent(name).await => Ok(()),
            removed => removed.map_err(|error| error.store("remove", name)),
        }
    }

    fn locate(&self, name: &str) -> String {
        format!("gs://{}/{name}", self.inner.bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_is_named_by_its_url_or_its_address() {
        for text in ["http://127.0.0.1:9000", "http://127.0.0.1:9000/", "127.0.0.1:9000"] {
            assert_eq!(text.parse(), Ok(Emulator("http://127.0.0.1:9000".to_owned())));
        }
        assert_eq!("localhost:9".parse(), Ok(Emulator("http://localhost:9".to_owned())));
        for wrong in ["", "http://", "ftp://host", "http://host/path"] {
            assert!(wrong.parse::<Emulator>().is_err(), "{wrong}");
        }
    }
}
