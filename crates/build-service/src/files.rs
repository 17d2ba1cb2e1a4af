//! An image that is a set of files, whoever built it.

use ledger::{ArtefactError, Digest};
use model::{Class, Failure, FileDigest};
use service::PortError;

/// How much of a failed build's log is quoted.
pub(crate) const QUOTED_LINES: usize = 5;

/// Names of ours beside the artifacts of a build.
pub(crate) const LOG: &str = "build.log";
const RESERVED: [&str; 2] = [LOG, "manifest.json"];

/// An artifact must not pass for something of ours.
pub(crate) fn refuse_reserved(name: &str) -> Result<(), PortError> {
    if !RESERVED.contains(&name) {
        return Ok(());
    }
    let why = format!("an artifact must not be called {name}: give the file another name");
    Err(PortError::Final(Failure::new(Class::Input, "ARTIFACT_NAME", why)))
}

pub(crate) fn damaged(error: ArtefactError) -> PortError {
    match error {
        ArtefactError::Store(error) => PortError::passing(error),
        ArtefactError::Damaged { .. } => {
            PortError::Final(Failure::new(Class::Infrastructure, "ARTEFACT_DAMAGED", error.to_string()))
        }
    }
}

/// An image is what is in it, whoever built it and whatever the build said: equal files, equal digest.
pub(crate) fn content(files: &[FileDigest]) -> String {
    let list: String = files.iter().map(|file| format!("{}  {}\n", file.sha256, file.name)).collect();
    format!("sha256:{}", Digest::of(list.as_bytes()).sha256)
}
