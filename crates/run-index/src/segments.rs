//! Segments (objects below `view/2/`): summaries of closed runs, stored in groups because they never change.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use ledger::{Digest, Store, StoreError};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::RunSummary;

/// Maximum number of summaries per segment.
pub(crate) const LENGTH: usize = 128;
/// Maximum number of concurrent requests.
pub(crate) const ABREAST: usize = 32;
/// Folder of segments in this format.
const FOLDER: &str = "view/2/";

#[derive(Deserialize, Serialize)]
struct IndexSegment {
    #[serde(rename = "lines")]
    summaries: Vec<RunSummary>,
}

pub(crate) async fn read(store: &dyn Store) -> Result<Vec<RunSummary>, StoreError> {
    let names = store.list(FOLDER).await?;
    let reads = stream::iter(names).map(|name| async {
        let body = store.read(&name).await?;
        Ok::<_, StoreError>((name, body))
    });
    let segments: Vec<_> = reads.buffer_unordered(ABREAST).try_collect().await?;
    let mut summaries = Vec::new();
    for (name, body) in segments {
        match serde_json::from_slice::<IndexSegment>(&body.unwrap_or_default()) {
            Ok(segment) => summaries.extend(segment.summaries),
            // No data is lost: the runs of the segment are folded again and stored in another segment.
            Err(error) => warn!("segment {name} is not used: {error}"),
        }
    }
    Ok(summaries)
}

/// Stores the summaries of closed runs. A segment is named by its content, so that storing it twice has no
/// effect.
pub(crate) async fn keep(store: &dyn Store, mut summaries: Vec<RunSummary>) -> Result<(), StoreError> {
    summaries.sort_by(|a, b| a.run.cmp(&b.run));
    let Ok(body) = serde_json::to_vec(&IndexSegment { summaries }) else { return Ok(()) };
    let digest = Digest::of(&body).sha256;
    let name = format!("{FOLDER}{}.json", digest.get(..16).unwrap_or(&digest));
    store.create(&name, Bytes::from(body)).await.map(drop)
}
