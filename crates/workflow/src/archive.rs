//! Source folders as archives.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use model::SourceObject;
use sha2::{Digest, Sha256};

/// Maximum size of a source folder, bytes: a larger one probably contains build outputs or a home folder.
const MAX_SOURCE: u64 = 64 << 20;

/// A source folder as a tar archive: sorted, without times or owners, so that equal folders produce equal archives.
#[derive(Clone, Debug)]
pub struct SourceArchive {
    /// Object name in the artefact bucket.
    pub object: String,
    /// Content of the tar archive.
    pub bytes: Bytes,
}

impl SourceArchive {
    /// Packs a source folder, and names the archive after its digest.
    pub(crate) fn pack(folder: &Path) -> io::Result<(Self, SourceObject)> {
        let bytes = pack(folder)?;
        let sha256 = hex::encode(Sha256::digest(&bytes));
        let object = format!("sources/{sha256}.tar");
        Ok((Self { object: object.clone(), bytes: bytes.into() }, SourceObject { object, sha256 }))
    }
}

fn pack(folder: &Path) -> io::Result<Vec<u8>> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.sort();
    let mut archive = tar::Builder::new(Vec::new());
    archive.mode(tar::HeaderMode::Deterministic);
    let mut size = 0;
    for file in files {
        let name = file.strip_prefix(folder).unwrap_or(&file);
        size += fs::metadata(&file)?.len();
        if size > MAX_SOURCE {
            return Err(io::Error::other(format!(
                "it is larger than {} MiB; select a folder without build outputs",
                MAX_SOURCE >> 20
            )));
        }
        archive.append_path_with_name(&file, name)?;
    }
    archive.into_inner()
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        } else {
            // A link could point anywhere, and would have another target after unpacking.
            let path = entry.path();
            let why = format!("{} is neither a file nor a folder; remove it", path.display());
            return Err(io::Error::other(why));
        }
    }
    Ok(())
}
