//! Images that consist of files: the artifacts of a build.

use ledger::Digest;
use model::{Class, Failure, FileDigest};
use service::PortError;

/// Maximum quoted lines of a failed build's log.
pub(crate) const QUOTED_LINES: usize = 5;

/// Reserved names in the folder of a build's artifacts.
pub(crate) const LOG: &str = "build.log";
const RESERVED: [&str; 2] = [LOG, "manifest.json"];

/// An artifact must not replace one of Burnin's files.
pub(crate) fn refuse_reserved(name: &str) -> Result<(), PortError> {
    if !RESERVED.contains(&name) {
        return Ok(());
    }
    let why = format!("the artifact name {name} is reserved: rename the file");
    Err(PortError::Permanent(Failure::new(Class::Input, "ARTIFACT_NAME", why)))
}

/// The digest of an image depends only on its content: equal files, equal digest.
pub(crate) fn content(files: &[FileDigest]) -> String {
    let list: String = files.iter().map(|file| format!("{}  {}\n", file.sha256, file.name)).collect();
    format!("sha256:{}", Digest::of(list.as_bytes()).sha256)
}
