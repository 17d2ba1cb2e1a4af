//! Streams an object; resumes after an interruption and ends successfully only with the right checksum.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_storage::{
    model_ext::ReadRange, read_object::ReadObjectResponse, read_resume_policy::NeverResume,
};
use ledger::ObjectReader;
use tokio_util::io::StreamReader;

use super::{
    ClientState,
    request_error::{RequestError, Tries},
};

/// An object being read.
pub struct Download {
    inner: Arc<ClientState>,
    name: String,
    generation: i64,
    size: u64,
    crc32c: u32,
    at: u64,
    sum: u32,
    tries: Tries,
    answer: Option<ReadObjectResponse>,
}

impl Download {
    /// Opens an object; `None` if absent.
    pub async fn begin(inner: &Arc<ClientState>, name: &str) -> Result<Option<Self>, RequestError> {
        let tried = Tries::new(&inner.timeouts).until_done(|| request_object(inner, name, None)).await;
        let answer = match tried {
            Ok(answer) => answer,
            Err(error) if error.status == Some(404) => return Ok(None),
            Err(error) if error.status == Some(403) && inner.is_absent(name).await => return Ok(None),
            Err(error) => return Err(error),
        };
        let object = answer.object();
        let crc32c = object.checksums.and_then(|sums| sums.crc32c);
        let crc32c = crc32c.ok_or_else(|| RequestError::damaged("it has no CRC32C".to_owned()))?;
        Ok(Some(Self {
            inner: Arc::clone(inner),
            name: name.to_owned(),
            generation: object.generation,
            size: object.size.unsigned_abs(),
            crc32c,
            at: 0,
            sum: 0,
            tries: Tries::new(&inner.timeouts),
            answer: Some(answer),
        }))
    }

    /// The next bytes; `None` at the verified end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, RequestError> {
        while self.at < self.size {
            let from = (self.at, self.generation);
            let (inner, name, answer) = (&self.inner, &self.name, &mut self.answer);
            let more = async {
                let answer = match answer {
                    Some(answer) => answer,
                    None => answer.insert(request_object(inner, name, Some(from)).await?),
                };
                answer.next().await.transpose().map_err(RequestError::from)
            };
            match self.tries.one(more).await {
                Ok(Some(bytes)) => {
                    self.at += bytes.len() as u64;
                    self.sum = crc32c::crc32c_append(self.sum, &bytes);
                    self.tries.restart_timeout();
                    return Ok(Some(bytes));
                }
                Ok(None) => self.break_off(RequestError::unanswered("the response ended early")).await?,
                Err(error) => self.break_off(error).await?,
            }
        }
        if (self.at, self.sum) == (self.size, self.crc32c) {
            return Ok(None);
        }
        let (at, size, sum, crc32c) = (self.at, self.size, self.sum, self.crc32c);
        Err(RequestError::damaged(format!(
            "expected {size} bytes with CRC32C {crc32c:08x}, received {at} with {sum:08x}"
        )))
    }

    async fn break_off(&mut self, error: RequestError) -> Result<(), RequestError> {
        self.answer = None;
        self.tries.wait_before_retry(error).await
    }

    pub async fn read_all(mut self) -> Result<Bytes, RequestError> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            whole.extend_from_slice(&bytes);
        }
        Ok(whole.into())
    }

    pub fn reader(self) -> ObjectReader {
        let pieces = stream::try_unfold(self, async |mut download| {
            let next = download.next().await?;
            Ok::<_, std::io::Error>(next.map(|bytes| (bytes, download)))
        });
        Box::new(StreamReader::new(Box::pin(pieces)))
    }
}

/// Requests an object, or the rest of one generation of it.
async fn request_object(
    inner: &ClientState,
    name: &str,
    from: Option<(u64, i64)>,
) -> Result<ReadObjectResponse, RequestError> {
    let client = &inner.clients().await?.storage;
    let mut request = client
        .read_object(inner.resource(), name)
        .compute_crc32c(false) // computed here over all responses
        .with_retry_policy(NeverRetry)
        .with_read_resume_policy(NeverResume);
    if let Some((at, generation)) = from {
        request = request.set_generation(generation).set_read_range(ReadRange::offset(at));
    }
    Ok(request.send().await?)
}
