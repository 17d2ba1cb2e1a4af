//! `complete.json`, which the A4 chart writes last (`workflows/a4-gke-testbed/chart/files/launch.py`): exit status, nodes, and
//! the size and SHA-256 of each file. Logs of other programs have no such file.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, Read},
    path::Path,
};

use model::{JobEnd, Timestamp};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use supervisor::files;

pub const NAME: &str = "complete.json";
const SCHEMA: &str = "testbed/complete/v1";
/// Maximum size, bytes: the file of 4096 nodes has a tenth of this size.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Debug, Deserialize)]
pub struct Marker {
    schema: String,
    exit_status: i32,
    /// End, seconds since 1970.
    ended: i64,
    pub pods: Vec<Pod>,
    files: BTreeMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
pub struct Pod {
    pub node: String,
}

#[derive(Debug, Deserialize)]
struct Entry {
    bytes: u64,
    sha256: String,
}

impl Marker {
    /// Reads the marker; `None` if the folder has no `complete.json`, or one written by another program.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Self>, String> {
        let path = folder.join(NAME);
        let failed = |why: String| format!("{}: {why}", path.display());
        let file = match files::open_file(folder, NAME) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| failed(error.to_string()))?,
        };
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text).map_err(|error| failed(error.to_string()))?;
        let json: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
        if json["schema"] != SCHEMA {
            return Ok(None);
        }
        serde_json::from_value(json).map(Some).map_err(|error| failed(error.to_string()))
    }

    /// Checks that every file is complete and unchanged: an interrupted copy leaves truncated files.
    ///
    /// # Errors
    /// Returns an error if a file is missing or differs.
    pub fn check(&self, folder: &Path) -> Result<(), String> {
        debug_assert_eq!(self.schema, SCHEMA);
        for (name, Entry { bytes, sha256 }) in &self.files {
            let stated = (*bytes, sha256.clone());
            let found = files::open_file(folder, name).and_then(digest);
            let found = found.map_err(|error| format!("{}: {error}", folder.join(name).display()))?;
            if found != stated {
                return Err(format!(
                    "{}: found {} bytes with SHA-256 {}, {NAME} states {bytes} with {sha256}; copy the logs again",
                    folder.join(name).display(),
                    found.0,
                    found.1
                ));
            }
        }
        Ok(())
    }

    /// The end of the job. Any exit status but 0 is a failure.
    pub fn end(&self) -> JobEnd {
        let state = if self.exit_status == 0 { "COMPLETED" } else { "FAILED" };
        let ended_at = self.ended.checked_mul(1000).map(Timestamp::from_millis);
        JobEnd {
            state: state.to_owned(),
            exit_code: Some(self.exit_status),
            signal: None,
            started_at: None,
            ended_at,
            nodes: Vec::new(),
        }
    }
}

fn digest(mut file: std::fs::File) -> io::Result<(u64, String)> {
    let (mut digest, mut bytes, mut piece) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((bytes, hex::encode(digest.finalize()))),
            length => {
                bytes += length as u64;
                digest.update(&piece[..length]);
            }
        }
    }
}
