use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The working directory of a step, created if absent as in Cloud Build.
///
/// The plan has resolved every `..`; this check is for symbolic links that lead out of the workspace.
pub(super) fn enter(workspace: &Path, dir: &Path) -> io::Result<PathBuf> {
    let root = workspace.canonicalize()?;
    let mut here = root.clone();
    for part in dir {
        here.push(part);
        match fs::create_dir(&here) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => here = here.canonicalize()?,
        }
        if !here.starts_with(&root) {
            return Err(io::Error::other(format!(
                "{} is outside the workspace: a part of the path is a symbolic link; remove the link",
                dir.display()
            )));
        }
    }
    Ok(here)
}
