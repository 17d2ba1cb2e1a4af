//! Uploads a stream in chunks, each buffered until the service has stored it.

use bytes::{Bytes, BytesMut};
use ledger::{Creation, Digest, Digester, ObjectReader, StoreError};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{
    ClientState,
    request_error::{RequestError, Tries},
    rest::{CreatedObject, UploadProgress},
};

/// Maximum size of a one-shot upload. Small, so that a request ends within its timeout
/// (`Patience::attempt`) on a slow connection.
pub const AT_ONCE: usize = 1 << 20;
/// Chunk size; must be a multiple of 256 KiB.
const PIECE: usize = 8 << 20;

/// Stores the content of a reader. Memory: two chunks.
pub async fn upload(
    inner: &ClientState,
    name: &str,
    body: ObjectReader,
) -> Result<(Creation, Digest), StoreError> {
    let mut body = Digester::new(body);
    let mut held = BytesMut::new();
    let read = |error| StoreError::Io { doing: "read the body of", name: name.to_owned(), source: error };
    fill(&mut body, &mut held, AT_ONCE).await.map_err(read)?;
    if held.len() <= AT_ONCE {
        let creation = inner.create(name, held.freeze()).await?;
        return Ok((creation, body.finish()));
    }
    let tried =
        Tries::new(&inner.timeouts).until_done(|| async { inner.json_api().await?.begin(name).await }).await;
    let started = match tried {
        Ok(url) => Some(url),
        Err(error) if matches!(error.status, Some(412 | 403)) => {
            inner.check_outcome(name, error).await.map_err(|error| error.store("upload", name))?;
            None
        }
        Err(error) => return Err(error.store("upload", name)),
    };
    let Some(url) = started else {
        drain(&mut body).await.map_err(read)?;
        return Ok((Creation::Exists, body.finish()));
    };
    let mut upload = Upload { inner, url, sum: 0, kept: 0 };
    let outcome = loop {
        if let Err(error) = fill(&mut body, &mut held, PIECE).await {
            upload.give_up().await;
            return Err(read(error));
        }
        let last = held.len() <= PIECE;
        let piece = held.split_to(held.len().min(PIECE)).freeze();
        match upload.put(piece, last).await {
            Ok(None) => {}
            Ok(Some(made)) => break made.check(upload.kept, upload.sum).map(|()| Creation::Created),
            Err(error) => break Err(error),
        }
    };
    let creation = match outcome {
        Ok(creation) => creation,
        Err(error) => {
            upload.give_up().await;
            // A cancelled upload can no longer create the object, so the check is final.
            inner.check_outcome(name, error).await.map_err(|error| error.store("upload", name))?
        }
    };
    if creation == Creation::Exists {
        drain(&mut body).await.map_err(read)?;
    }
    Ok((creation, body.finish()))
}

struct Upload<'a> {
    inner: &'a ClientState,
    url: String,
    /// CRC32C of all sent chunks.
    sum: u32,
    /// Number of bytes stored by the service.
    kept: u64,
}

impl Upload<'_> {
    /// Sends a chunk until it is stored; returns the object after the last chunk.
    async fn put(&mut self, piece: Bytes, last: bool) -> Result<Option<CreatedObject>, RequestError> {
        self.sum = crc32c::crc32c_append(self.sum, &piece);
        let (start, end, sum) = (self.kept, self.kept + piece.len() as u64, last.then_some(self.sum));
        let rest = self.inner.json_api().await?;
        let mut tries = Tries::of_stream(&self.inner.timeouts);
        let mut querying = false;
        loop {
            let progress = if querying {
                tries.one(rest.query_upload(&self.url)).await
            } else {
                let left = piece.slice((self.kept - start) as usize..);
                tries.one(rest.piece(&self.url, self.kept, left, sum)).await
            };
            match progress {
                Ok(UploadProgress::Made(made)) if last => {
                    self.kept = end;
                    return Ok(Some(made));
                }
                Ok(UploadProgress::Made(_)) => {
                    return Err(RequestError::damaged(
                        "the object was created before its last chunk".to_owned(),
                    ));
                }
                Ok(UploadProgress::Kept(kept)) if kept < start || kept > end => {
                    let why =
                        format!("{kept} bytes are stored, {start} were stored before and {end} were sent");
                    return Err(RequestError::damaged(why));
                }
                Ok(UploadProgress::Kept(kept)) => {
                    if kept > self.kept {
                        tries.restart_timeout();
                    } else if !querying {
                        tries
                            .wait_before_retry(RequestError::unanswered("no byte of a chunk was stored"))
                            .await?;
                    }
                    (self.kept, querying) = (kept, false);
                    if kept == end && !last {
                        return Ok(None);
                    }
                }
                Err(error) => {
                    tries.wait_before_retry(error).await?;
                    querying = true;
                }
            }
        }
    }

    async fn give_up(&self) {
        if let Ok(rest) = self.inner.json_api().await {
            rest.give_up(&self.url).await;
        }
    }
}

/// Reads to the end, or one byte more than `limit`, which distinguishes the last chunk from a full chunk.
async fn fill(body: &mut (impl AsyncRead + Unpin), held: &mut BytesMut, limit: usize) -> std::io::Result<()> {
    while held.len() <= limit {
        let room = limit + 1 - held.len();
        held.reserve(room);
        if body.take(room as u64).read_buf(held).await? == 0 {
            break;
        }
    }
    Ok(())
}

/// Computes the digest of all bytes, including those that are not stored.
async fn drain(body: &mut (impl AsyncRead + Unpin)) -> std::io::Result<()> {
    tokio::io::copy(body, &mut tokio::io::sink()).await.map(drop)
}
