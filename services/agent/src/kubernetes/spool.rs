//! What is noted of a job beside the cluster, in the bucket: it outlives the cluster's objects and the agent.
//!
//! ```text
//! kubernetes/{job}/submitted.json       the JobSet's id, once it was seen
//!                  cancelled            it must not begin any more
//!                  standing.json        what was told of its end
//!                  nodes.json           the nodes it ran on
//!                  waiting/{n}          reasons for which it waited
//!                  logs/{stream}/{n}    a piece of a container's output, from byte n on
//!                  logs/{stream}/end.json
//! ```
//!
//! A piece begins with a line of JSON: where reading went on afterwards. Two agents that read the same container meet at
//! the name of the next piece, and one of them goes on behind the other's.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use ledger::{Creation, Digest, Digester, Reader, Store};
use model::JobEnd;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use service::PortError;
use tokio_util::io::StreamReader;

use crate::port::Standing;

/// An end that was told, as it is told ever after.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    Ended(JobEnd),
    Lost { code: String, why: String },
    Failed(model::Failure),
}

/// What was told of a job: where it stands, or why it never did anything.
pub type Final = Result<Standing, model::Failure>;

/// Where reading of a container's output goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Bytes kept so far.
    pub bytes: u64,
    /// The time of the last line, as the kubelet wrote it; empty before the first.
    pub until: String,
    /// Lines of that very time that are kept.
    pub same: u64,
    /// The last line has no end yet.
    #[serde(default)]
    pub open: bool,
    /// Between the line before and the first one here some may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
}

/// How a container's output ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// All of it, bytes.
    pub bytes: u64,
    /// Its SHA-256, hex.
    pub sha256: String,
    /// Everything that the container wrote was read.
    pub whole: bool,
    /// What may be missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A job's notes.
#[derive(Clone)]
pub struct Spool {
    store: Arc<dyn Store>,
    folder: String,
}

impl Spool {
    /// The notes of a job.
    pub fn of(store: &Arc<dyn Store>, job: &str) -> Self {
        Self { store: Arc::clone(store), folder: format!("kubernetes/{job}/") }
    }

    async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, PortError> {
        let found = self.store.read(&format!("{}{name}", self.folder)).await.map_err(PortError::passing)?;
        found.map(|bytes| serde_json::from_slice(&bytes).map_err(PortError::passing)).transpose()
    }

    async fn put<T: Serialize + Sync>(&self, name: &str, content: &T) -> Result<Creation, PortError> {
        let text = serde_json::to_vec(content).map_err(PortError::passing)?;
        self.store.create(&format!("{}{name}", self.folder), text.into()).await.map_err(PortError::passing)
    }

    /// The id of the JobSet, if it was ever seen.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn submitted(&self) -> Result<Option<String>, PortError> {
        self.get("submitted.json").await
    }

    /// Notes the id of the JobSet; the first note stands.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn note_submitted(&self, uid: &str) -> Result<(), PortError> {
        self.put("submitted.json", &uid).await.map(drop)
    }

    /// Somebody asked for its end.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn cancelled(&self) -> Result<bool, PortError> {
        Ok(self.get::<bool>("cancelled").await?.is_some())
    }

    /// Notes that it is to end.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn cancel(&self) -> Result<(), PortError> {
        self.put("cancelled", &true).await.map(drop)
    }

    /// The nodes it ran on, once it has ended.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn nodes(&self) -> Result<Option<Vec<String>>, PortError> {
        self.get("nodes.json").await
    }

    /// Notes the nodes it ran on; the first note stands.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn note_nodes(&self, nodes: &[String]) -> Result<(), PortError> {
        self.put("nodes.json", &nodes).await.map(drop)
    }

    /// What was told of its end.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn told(&self) -> Result<Option<Final>, PortError> {
        Ok(self.get::<Told>("standing.json").await?.map(|told| match told {
            Told::Ended(end) => Ok(Standing::Ended(end)),
            Told::Lost { code, why } => Ok(Standing::Lost { code, why }),
            Told::Failed(failure) => Err(failure),
        }))
    }

    /// Notes what is told of its end. The first note stands, and is returned.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn tell(&self, end: Final) -> Result<Final, PortError> {
        let told = match end.clone() {
            Ok(Standing::Ended(end)) => Told::Ended(end),
            Ok(Standing::Lost { code, why }) => Told::Lost { code, why },
            Err(failure) => Told::Failed(failure),
            Ok(other) => return Ok(Ok(other)),
        };
        match self.put("standing.json", &told).await? {
            Creation::Created => Ok(end),
            Creation::Exists => Ok(self.told().await?.unwrap_or(end)),
        }
    }

    /// All of its output is read.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn drained(&self) -> Result<bool, PortError> {
        Ok(self.get::<bool>("drained").await?.is_some())
    }

    /// Notes that all of its output is read.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn note_drained(&self) -> Result<(), PortError> {
        self.put("drained", &true).await.map(drop)
    }

    /// Nothing of it is left on the cluster.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn released(&self) -> Result<bool, PortError> {
        Ok(self.get::<bool>("released").await?.is_some())
    }

    /// Notes that nothing of it is left on the cluster.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn note_released(&self) -> Result<(), PortError> {
        self.put("released", &true).await.map(drop)
    }

    /// Notes why it waits, once for each reason in a row.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn waits(&self, line: &str) -> Result<(), PortError> {
        let noted = self.waiting().await?;
        let reason = |line: &str| line.split_once(' ').map_or(line, |(_, reason)| reason).to_owned();
        if noted.last().is_some_and(|last| reason(last) == reason(line)) {
            return Ok(());
        }
        self.put(&format!("waiting/{:06}", noted.len()), &line).await.map(drop)
    }

    /// The reasons for which it waited, in order.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn waiting(&self) -> Result<Vec<String>, PortError> {
        let mut lines = Vec::new();
        for name in self.names("waiting/").await? {
            lines.extend(self.get::<String>(&format!("waiting/{name}")).await?);
        }
        Ok(lines)
    }

    async fn names(&self, below: &str) -> Result<Vec<String>, PortError> {
        let prefix = format!("{}{below}", self.folder);
        let listed = self.store.list(&prefix).await.map_err(PortError::passing)?;
        let mut names: Vec<_> =
            listed.iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The streams of which there is anything.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn streams(&self) -> Result<Vec<String>, PortError> {
        let names = self.names("logs/").await?;
        let mut streams: Vec<_> =
            names.iter().filter_map(|name| Some(name.rsplit_once('/')?.0.to_owned())).collect();
        streams.dedup();
        Ok(streams)
    }

    /// The pieces of a stream, by their first byte.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn pieces(&self, stream: &str) -> Result<Vec<u64>, PortError> {
        let names = self.names(&format!("logs/{stream}/")).await?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// A piece: where reading went on after it, and its bytes.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn piece(&self, stream: &str, from: u64) -> Result<(Cursor, Bytes), PortError> {
        let name = format!("{}logs/{stream}/{from:015}", self.folder);
        let damaged = || PortError::Passing(format!("{name} is no piece of a log"));
        let bytes = self.store.read(&name).await.map_err(PortError::passing)?.ok_or_else(damaged)?;
        let line = memchr(&bytes).ok_or_else(damaged)?;
        let cursor = serde_json::from_slice(&bytes[..line]).map_err(|_| damaged())?;
        Ok((cursor, bytes.slice(line + 1..)))
    }

    /// Where reading of a stream goes on.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn cursor(&self, stream: &str) -> Result<Cursor, PortError> {
        match self.pieces(stream).await?.last() {
            Some(last) => Ok(Cursor { gap: None, ..self.piece(stream, *last).await?.0 }),
            None => Ok(Cursor::default()),
        }
    }

    /// Keeps the next piece, which begins at byte `from`. False: somebody else was there first.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn keep(
        &self,
        stream: &str,
        from: u64,
        cursor: &Cursor,
        body: &[u8],
    ) -> Result<bool, PortError> {
        let name = format!("{}logs/{stream}/{from:015}", self.folder);
        let mut object = serde_json::to_vec(cursor).map_err(PortError::passing)?;
        object.push(b'\n');
        object.extend_from_slice(body);
        let created = self.store.create(&name, object.clone().into()).await.map_err(PortError::passing)?;
        // After a lost answer it may be ours.
        Ok(created == Creation::Created
            || self.store.read(&name).await.map_err(PortError::passing)?.is_some_and(|there| there == object))
    }

    /// Everything that is kept of a stream.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn open(&self, stream: &str) -> Result<Reader, PortError> {
        self.open_from(stream, 0).await
    }

    /// The same from a byte on.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn open_from(&self, stream: &str, byte: u64) -> Result<Reader, PortError> {
        let mut pieces = self.pieces(stream).await?;
        let first = pieces.partition_point(|from| *from <= byte).saturating_sub(1);
        let pieces = pieces.split_off(first.min(pieces.len()));
        let (spool, stream) = (self.clone(), stream.to_owned());
        let bodies = futures::stream::iter(pieces).then(move |from| {
            let (spool, stream) = (spool.clone(), stream.clone());
            async move {
                let read = spool.piece(&stream, from).await;
                let skipped = usize::try_from(byte.saturating_sub(from)).unwrap_or(usize::MAX);
                match read {
                    Ok((_, body)) => Ok(body.slice(skipped.min(body.len())..)),
                    Err(PortError::Passing(why)) => Err(std::io::Error::other(why)),
                    Err(PortError::Final(failure)) => Err(std::io::Error::other(failure.message)),
                }
            }
        });
        Ok(Box::new(StreamReader::new(Box::pin(bodies))))
    }

    /// How a stream ended, once it has.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn end(&self, stream: &str) -> Result<Option<End>, PortError> {
        self.get(&format!("logs/{stream}/end.json")).await
    }

    /// Ends a stream: hashes what was kept, and says whether that is all. The first end stands.
    ///
    /// # Errors
    /// Those of the bucket.
    pub async fn close(&self, stream: &str, missing: Option<String>) -> Result<(), PortError> {
        let mut gaps = Vec::new();
        for from in self.pieces(stream).await? {
            gaps.extend(self.piece(stream, from).await?.0.gap);
        }
        let mut body = Digester::new(self.open(stream).await?);
        tokio::io::copy(&mut body, &mut tokio::io::sink()).await.map_err(PortError::passing)?;
        let Digest { size_bytes, sha256, .. } = body.finish();
        gaps.extend(missing);
        let end = End { bytes: size_bytes, sha256, whole: gaps.is_empty(), missing: gaps };
        self.put(&format!("logs/{stream}/end.json"), &end).await.map(drop)
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}
