//! Lines that never change, kept many at a time.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use ledger::{Digest, Store, StoreError};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::Line;

/// Lines of one chapter.
pub(crate) const LENGTH: usize = 128;
/// Requests under way at a time.
pub(crate) const ABREAST: usize = 32;
/// Where chapters of this format lie.
const FOLDER: &str = "view/2/";

#[derive(Deserialize, Serialize)]
struct Chapter {
    lines: Vec<Line>,
}

/// Every line that was kept.
pub(crate) async fn read(store: &dyn Store) -> Result<Vec<Line>, StoreError> {
    let names = store.list(FOLDER).await?;
    let reads = stream::iter(names).map(|name| async {
        let body = store.read(&name).await?;
        Ok::<_, StoreError>((name, body))
    });
    let chapters: Vec<_> = reads.buffer_unordered(ABREAST).try_collect().await?;
    let mut lines = Vec::new();
    for (name, body) in chapters {
        match serde_json::from_slice::<Chapter>(&body.unwrap_or_default()) {
            Ok(chapter) => lines.extend(chapter.lines),
            // Nothing is lost: its runs are folded again and kept in another chapter.
            Err(error) => warn!("{name} is not used: {error}"),
        }
    }
    Ok(lines)
}

/// Keeps the lines of closed runs. A chapter is named by what is in it, so that twice the same is once.
pub(crate) async fn keep(store: &dyn Store, mut lines: Vec<Line>) -> Result<(), StoreError> {
    lines.sort_by(|a, b| a.run.cmp(&b.run));
    let Ok(body) = serde_json::to_vec(&Chapter { lines }) else { return Ok(()) };
    let digest = Digest::of(&body).sha256;
    let name = format!("{FOLDER}{}.json", digest.get(..16).unwrap_or(&digest));
    store.create(&name, Bytes::from(body)).await.map(drop)
}
