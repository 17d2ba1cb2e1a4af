//! Requests that Google's client does not support: without gRPC that client can neither list nor remove, and its
//! streaming upload retries forever if the server stored part of a chunk.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use google_cloud_auth::credentials::{CacheableResource, Credentials};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode,
    header::{CONTENT_RANGE, LOCATION, RANGE},
};
use serde::Deserialize;

use super::request_error::RequestError;

/// Characters that are not escaped in a path segment.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The JSON API of one bucket.
pub struct JsonApi {
    http: Client,
    /// `https://host`, without a path.
    base: String,
    bucket: String,
    credentials: Credentials,
}

#[derive(Debug, Deserialize)]
pub struct CreatedObject {
    /// Base64 of the four bytes, big-endian.
    crc32c: String,
    /// 64-bit numbers are strings in this API.
    size: String,
}

impl CreatedObject {
    /// Compares the stored size and checksum with the size and checksum of the sent data.
    pub fn check(&self, size: u64, crc32c: u32) -> Result<(), RequestError> {
        let (stored, sent) = (&self.crc32c, STANDARD.encode(crc32c.to_be_bytes()));
        if *stored == sent && self.size.parse() == Ok(size) {
            return Ok(());
        }
        let size_stored = &self.size;
        Err(RequestError::damaged(format!(
            "{size_stored} bytes with CRC32C {stored} are stored, {size} with {sent} were sent"
        )))
    }
}

pub enum UploadProgress {
    /// Number of stored bytes.
    Kept(u64),
    Made(CreatedObject),
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectPage {
    items: Vec<Item>,
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
}

impl JsonApi {
    pub fn new(base: &str, bucket: &str, credentials: Credentials) -> Result<Self, RequestError> {
        let http = Client::builder()
            .connect_timeout(Duration::from_secs(5))
            // Status 308 means `continue` for an upload, and the API never redirects.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { http, base: base.to_owned(), bucket: bucket.to_owned(), credentials })
    }

    fn objects(&self) -> String {
        format!("{}/storage/v1/b/{}/o", self.base, self.bucket)
    }

    fn object(&self, name: &str) -> String {
        format!("{}/{}", self.objects(), utf8_percent_encode(name, SEGMENT))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, RequestError> {
        let headers = self.credentials.headers(Default::default()).await.map_err(RequestError::unanswered)?;
        let CacheableResource::New { data, .. } = headers else {
            return Err(RequestError::unanswered("the credentials are missing"));
        };
        Ok(request.headers(data).send().await?)
    }

    /// Returns a successful response unchanged, any other status as an error.
    async fn checked(answer: Response) -> Result<Response, RequestError> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        Err(RequestError::answered(status.as_u16(), &answer.text().await.unwrap_or_default()))
    }

    pub async fn exists(&self, name: &str) -> Result<bool, RequestError> {
        let answer = self.send(self.http.get(self.object(name)).query(&[("fields", "generation")])).await?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(false),
            _ => Self::checked(answer).await.map(|_| true),
        }
    }

    /// A page of names that begin with `prefix` and are not less than `from`, and the token of the next page.
    /// With `folded`, names in a folder below `prefix` are replaced by the folder's name.
    pub async fn page(
        &self,
        (prefix, from): (&str, &str),
        folded: bool,
        token: Option<&str>,
    ) -> Result<(Vec<String>, Option<String>), RequestError> {
        let mut request = self.http.get(self.objects());
        request = request.query(&[("prefix", prefix), ("fields", "items(name),prefixes,nextPageToken")]);
        if !from.is_empty() {
            request = request.query(&[("startOffset", from)]);
        }
        if folded {
            request = request.query(&[("delimiter", "/")]);
        }
        if let Some(token) = token {
            request = request.query(&[("pageToken", token)]);
        }
        let page: ObjectPage = Self::checked(self.send(request).await?).await?.json().await?;
        let names = page.items.into_iter().map(|item| item.name).chain(page.prefixes);
        Ok((names.collect(), page.next_page_token))
    }

    /// Removes an object. An absent object is not an error.
    pub async fn remove(&self, name: &str) -> Result<(), RequestError> {
        let answer = self.send(self.http.delete(self.object(name))).await?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(()),
            _ => Self::checked(answer).await.map(drop),
        }
    }

    /// Starts an upload with the precondition that the name is free; returns its URL.
    pub async fn begin(&self, name: &str) -> Result<String, RequestError> {
        let url = format!("{}/upload/storage/v1/b/{}/o", self.base, self.bucket);
        let query = [("uploadType", "resumable"), ("name", name), ("ifGenerationMatch", "0")];
        let metadata = serde_json::json!({"name": name, "contentType": super::content_type(name)});
        let answer =
            Self::checked(self.send(self.http.post(url).query(&query).json(&metadata)).await?).await?;
        let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        location.map(str::to_owned).ok_or_else(|| {
            RequestError::unanswered("the response to the start of an upload has no `Location` header")
        })
    }

    /// Sends a chunk that starts at `from`. The CRC32C of the whole object marks the last chunk.
    pub async fn piece(
        &self,
        upload: &str,
        from: u64,
        body: Bytes,
        last: Option<u32>,
    ) -> Result<UploadProgress, RequestError> {
        let end = from + body.len() as u64;
        let mut request = self.http.put(upload);
        request = match last {
            None => request.header(CONTENT_RANGE, format!("bytes {from}-{}/*", end - 1)),
            Some(crc32c) => {
                let hash = format!("crc32c={}", STANDARD.encode(crc32c.to_be_bytes()));
                let span = if body.is_empty() { "*".to_owned() } else { format!("{from}-{}", end - 1) };
                request.header(CONTENT_RANGE, format!("bytes {span}/{end}")).header("x-goog-hash", hash)
            }
        };
        Self::progress(self.send(request.body(body)).await?).await
    }

    /// Queries the progress of an upload.
    pub async fn query_upload(&self, upload: &str) -> Result<UploadProgress, RequestError> {
        let request = self.http.put(upload).header(CONTENT_RANGE, "bytes */*").body(Bytes::new());
        Self::progress(self.send(request).await?).await
    }

    async fn progress(answer: Response) -> Result<UploadProgress, RequestError> {
        if answer.status() != StatusCode::PERMANENT_REDIRECT {
            return Ok(UploadProgress::Made(Self::checked(answer).await?.json().await?));
        }
        let Some(range) = answer.headers().get(RANGE) else { return Ok(UploadProgress::Kept(0)) };
        let last = range.to_str().ok().and_then(|range| range.strip_prefix("bytes=0-")?.parse::<u64>().ok());
        let last = last.ok_or_else(|| RequestError::unanswered(format!("{range:?} is not a valid range")))?;
        Ok(UploadProgress::Kept(last + 1))
    }

    /// Cancels an upload. If that fails, the service discards it within a week.
    pub async fn give_up(&self, upload: &str) {
        let request = self.http.request(Method::DELETE, upload).timeout(Duration::from_secs(5));
        drop(self.send(request).await);
    }
}
