//! Records of a job in the bucket, which remain after the cluster's objects are deleted and the agent has ended.
//!
//! ```text
//! kubernetes/{job}/submitted.json       uid of the JobSet, once observed
//!                  cancelled            the job must not start
//!                  standing.json        its end state
//!                  nodes.json           the nodes it ran on
//!                  waiting/{n}          reasons for waiting
//!                  logs/{stream}/{n}    piece of a container's output from byte n on
//!                  logs/{stream}/end.json
//! ```
//!
//! A piece begins with a line of JSON: the position in the output after this piece. Two agents that read the same container compete for the name of the next
//! piece; the second one continues after the stored piece.

use std::sync::Arc;

use bytes::Bytes;
use cluster_api::JobStatus;
use futures::StreamExt;
use ledger::{Creation, Digest, Digester, ObjectReader, Store};
use model::JobEnd;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use service::PortError;
use tokio_util::io::StreamReader;

/// The recorded end of a job, final once written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordedEnd {
    Ended(JobEnd),
    Lost { code: String, why: String },
    Yielded { why: String },
    Failed(model::Failure),
}

/// End state of a job, or the failure that kept it from running.
pub type Final = Result<JobStatus, model::Failure>;

/// Position in a container's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputCursor {
    /// Number of stored bytes.
    pub bytes: u64,
    /// Timestamp of the last line in the kubelet's format; empty before the first line.
    pub until: String,
    /// Number of stored lines with exactly this timestamp; the last one may be incomplete.
    pub same: u64,
    /// Number of stored bytes of the last line if it is incomplete, otherwise 0.
    #[serde(default)]
    pub incomplete: u64,
    /// Set if lines before this piece may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
}

/// End of a container's stored output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputEnd {
    /// Total size, bytes.
    pub bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
    /// Whether the complete output was read.
    pub whole: bool,
    /// Parts of the output that may be missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

#[derive(Clone)]
pub struct JobNotes {
    store: Arc<dyn Store>,
    folder: String,
}

impl JobNotes {
    pub fn of(store: &Arc<dyn Store>, job: &str) -> Self {
        Self { store: Arc::clone(store), folder: format!("kubernetes/{job}/") }
    }

    async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, PortError> {
        Ok(self.store.read_json(&format!("{}{name}", self.folder)).await?)
    }

    async fn put<T: Serialize + Sync>(&self, name: &str, content: &T) -> Result<Creation, PortError> {
        Ok(self.store.create_json(&format!("{}{name}", self.folder), content).await?)
    }

    /// Uid of the JobSet; `None` if it was never recorded.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn submitted(&self) -> Result<Option<String>, PortError> {
        self.get("submitted.json").await
    }

    /// Records the uid of the JobSet; the first record is final.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn note_submitted(&self, uid: &str) -> Result<(), PortError> {
        self.put("submitted.json", &uid).await.map(drop)
    }

    /// Whether the job was cancelled.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn cancelled(&self) -> Result<bool, PortError> {
        Ok(self.get::<bool>("cancelled").await?.is_some())
    }

    /// Records the cancellation.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn cancel(&self) -> Result<(), PortError> {
        self.put("cancelled", &true).await.map(drop)
    }

    /// The job's nodes; `None` before it has ended.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn nodes(&self) -> Result<Option<Vec<String>>, PortError> {
        self.get("nodes.json").await
    }

    /// Records the job's nodes; the first record is final.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn note_nodes(&self, nodes: &[String]) -> Result<(), PortError> {
        self.put("nodes.json", &nodes).await.map(drop)
    }

    /// The recorded end state.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn recorded_end(&self) -> Result<Option<Final>, PortError> {
        Ok(self.get::<RecordedEnd>("standing.json").await?.map(|recorded| match recorded {
            RecordedEnd::Ended(end) => Ok(JobStatus::Ended(end)),
            RecordedEnd::Lost { code, why } => Ok(JobStatus::Lost { code, why }),
            RecordedEnd::Yielded { why } => Ok(JobStatus::Yielded { why }),
            RecordedEnd::Failed(failure) => Err(failure),
        }))
    }

    /// Records an end state. Returns the first recorded end state, which is final.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn record_end(&self, end: Final) -> Result<Final, PortError> {
        let recorded = match end.clone() {
            Ok(JobStatus::Ended(end)) => RecordedEnd::Ended(end),
            Ok(JobStatus::Lost { code, why }) => RecordedEnd::Lost { code, why },
            Ok(JobStatus::Yielded { why }) => RecordedEnd::Yielded { why },
            Err(failure) => RecordedEnd::Failed(failure),
            Ok(other) => return Ok(Ok(other)),
        };
        match self.put("standing.json", &recorded).await? {
            Creation::Created => Ok(end),
            Creation::Exists => Ok(self.recorded_end().await?.unwrap_or(end)),
        }
    }

    /// Whether the complete output is stored.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn drained(&self) -> Result<bool, PortError> {
        Ok(self.get::<bool>("drained").await?.is_some())
    }

    /// Records that the complete output is stored.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn note_drained(&self) -> Result<(), PortError> {
        self.put("drained", &true).await.map(drop)
    }

    /// Whether all objects of the job are deleted.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn released(&self) -> Result<bool, PortError> {
        Ok(self.get::<bool>("released").await?.is_some())
    }

    /// Records that all objects of the job are deleted.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn note_released(&self) -> Result<(), PortError> {
        self.put("released", &true).await.map(drop)
    }

    /// Records a reason for waiting; equal consecutive reasons are recorded once.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn waits(&self, line: &str) -> Result<(), PortError> {
        let noted = self.waiting().await?;
        let reason = |line: &str| line.split_once(' ').map_or(line, |(_, reason)| reason).to_owned();
        if noted.last().is_some_and(|last| reason(last) == reason(line)) {
            return Ok(());
        }
        self.put(&format!("waiting/{:06}", noted.len()), &line).await.map(drop)
    }

    /// The reasons for waiting, in order.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn waiting(&self) -> Result<Vec<String>, PortError> {
        let mut lines = Vec::new();
        for name in self.names("waiting/").await? {
            lines.extend(self.get::<String>(&format!("waiting/{name}")).await?);
        }
        Ok(lines)
    }

    async fn names(&self, below: &str) -> Result<Vec<String>, PortError> {
        let prefix = format!("{}{below}", self.folder);
        let listed = self.store.list(&prefix).await.map_err(PortError::transient)?;
        let mut names: Vec<_> =
            listed.iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Names of the stored streams.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn streams(&self) -> Result<Vec<String>, PortError> {
        let names = self.names("logs/").await?;
        let mut streams: Vec<_> =
            names.iter().filter_map(|name| Some(name.rsplit_once('/')?.0.to_owned())).collect();
        streams.dedup();
        Ok(streams)
    }

    /// Start offsets of the pieces of a stream.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn pieces(&self, stream: &str) -> Result<Vec<u64>, PortError> {
        let names = self.names(&format!("logs/{stream}/")).await?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Reads a piece; returns the position after it and its bytes.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn piece(&self, stream: &str, from: u64) -> Result<(OutputCursor, Bytes), PortError> {
        let name = format!("{}logs/{stream}/{from:015}", self.folder);
        let damaged = || PortError::Transient(format!("{name} is not a valid log piece"));
        let bytes = self.store.read(&name).await.map_err(PortError::transient)?.ok_or_else(damaged)?;
        let line = memchr(&bytes).ok_or_else(damaged)?;
        let cursor = serde_json::from_slice(&bytes[..line]).map_err(|_| damaged())?;
        Ok((cursor, bytes.slice(line + 1..)))
    }

    /// Position after the last stored piece of a stream.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn cursor(&self, stream: &str) -> Result<OutputCursor, PortError> {
        match self.pieces(stream).await?.last() {
            Some(last) => Ok(OutputCursor { gap: None, ..self.piece(stream, *last).await?.0 }),
            None => Ok(OutputCursor::default()),
        }
    }

    /// Stores the next piece, starting at byte `from`. Returns false if another agent stored it first.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn keep(
        &self,
        stream: &str,
        from: u64,
        cursor: &OutputCursor,
        body: &[u8],
    ) -> Result<bool, PortError> {
        let name = format!("{}logs/{stream}/{from:015}", self.folder);
        let mut object = serde_json::to_vec(cursor).map_err(PortError::transient)?;
        object.push(b'\n');
        object.extend_from_slice(body);
        let created = self.store.create(&name, object.clone().into()).await.map_err(PortError::transient)?;
        // After a lost response the existing piece may be the caller's own.
        Ok(created == Creation::Created
            || self
                .store
                .read(&name)
                .await
                .map_err(PortError::transient)?
                .is_some_and(|there| there == object))
    }

    /// Opens the stored content of a stream.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn open(&self, stream: &str) -> Result<ObjectReader, PortError> {
        self.open_from(stream, 0).await
    }

    /// Opens the stored content of a stream from `byte` on.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn open_from(&self, stream: &str, byte: u64) -> Result<ObjectReader, PortError> {
        let mut pieces = self.pieces(stream).await?;
        let first = pieces.partition_point(|from| *from <= byte).saturating_sub(1);
        let pieces = pieces.split_off(first.min(pieces.len()));
        let (notes, stream) = (self.clone(), stream.to_owned());
        let bodies = futures::stream::iter(pieces).then(move |from| {
            let (notes, stream) = (notes.clone(), stream.clone());
            async move {
                let read = notes.piece(&stream, from).await;
                let skipped = usize::try_from(byte.saturating_sub(from)).unwrap_or(usize::MAX);
                match read {
                    Ok((_, body)) => Ok(body.slice(skipped.min(body.len())..)),
                    Err(PortError::Transient(why)) => Err(std::io::Error::other(why)),
                    Err(PortError::Permanent(failure)) => Err(std::io::Error::other(failure.message)),
                }
            }
        });
        Ok(Box::new(StreamReader::new(Box::pin(bodies))))
    }

    /// End of a stream; `None` while it is open.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn end(&self, stream: &str) -> Result<Option<OutputEnd>, PortError> {
        self.get(&format!("logs/{stream}/end.json")).await
    }

    /// Closes a stream: records its digest and its missing parts. The first end recorded is final.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn close(&self, stream: &str, missing: Option<String>) -> Result<(), PortError> {
        let mut gaps = Vec::new();
        for from in self.pieces(stream).await? {
            gaps.extend(self.piece(stream, from).await?.0.gap);
        }
        let mut body = Digester::new(self.open(stream).await?);
        tokio::io::copy(&mut body, &mut tokio::io::sink()).await.map_err(PortError::transient)?;
        let Digest { size_bytes, sha256, .. } = body.finish();
        gaps.extend(missing);
        let end = OutputEnd { bytes: size_bytes, sha256, whole: gaps.is_empty(), missing: gaps };
        self.put(&format!("logs/{stream}/end.json"), &end).await.map(drop)
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}
