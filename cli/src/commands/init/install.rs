//! Writes a set of files completely or not at all.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{
    commands::init::{
        exists,
        kinds::{NewFile, StarterFile},
    },
    exit::CliError,
};

/// Written files, relative to the folder, and the number of files that already had the same content.
#[derive(Debug)]
pub struct Installed {
    pub written: Vec<String>,
    pub unchanged: usize,
}

/// Writes the files below `folder`. The workflow is checked before the first of them becomes visible.
///
/// # Errors
/// Returns an error if a file exists with another content and `force` is not set, or if a file cannot be written. The folder is
/// then unchanged.
pub fn install(folder: &Path, starter: &StarterFile, force: bool) -> Result<Installed, CliError> {
    let mut changed = Vec::new();
    let mut existing = Vec::new();
    for file in &starter.files {
        let path = folder.join(&file.name);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() && fs::read(&path).is_ok_and(|content| content == file.content) => {}
            Ok(found) if found.is_dir() => {
                return Err(CliError::usage(format!(
                    "{}: is a folder, but a file of this name is needed; name another --folder",
                    path.display()
                )));
            }
            Ok(_) => {
                existing.push(path.display().to_string());
                changed.push(file);
            }
            Err(_) => changed.push(file),
        }
    }
    if !existing.is_empty() && !force {
        let more = existing.len().saturating_sub(5);
        existing.truncate(5);
        let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
        return Err(CliError::usage(format!(
            "existing files with different content are not overwritten; add --force, or choose another --folder:\n  {}{more}",
            existing.join("\n  ")
        )));
    }
    let cannot =
        |error: io::Error| CliError::usage(format!("{}: cannot be written: {error}", folder.display()));
    let parent = existing_parent(folder);
    let draft = tempfile::Builder::new().prefix(".burnin-init-").tempdir_in(&parent).map_err(cannot)?;
    let staged = draft.path().join("new");
    for file in &starter.files {
        write(&staged, file).map_err(cannot)?;
    }
    check(&staged, starter)?;
    let replaced = draft.path().join("old");
    fs::create_dir(&replaced).map_err(cannot)?;
    let mut done = FolderChanges::default();
    for (number, file) in changed.iter().enumerate() {
        let target = folder.join(&file.name);
        let moved =
            done.replace(&staged.join(&file.name), &target, &replaced.join(number.to_string()), force);
        if let Err(error) = moved {
            done.undo();
            return Err(CliError::usage(format!(
                "{}: cannot be written, nothing was changed: {error}",
                target.display()
            )));
        }
    }
    let written: Vec<_> = changed.iter().map(|file| file.name.clone()).collect();
    Ok(Installed { unchanged: starter.files.len() - written.len(), written })
}

/// The nearest existing folder: a draft there is on the same file system as the target.
fn existing_parent(folder: &Path) -> PathBuf {
    let found = folder.ancestors().find(|folder| folder.is_dir());
    match found {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn write(root: &Path, file: &NewFile) -> io::Result<()> {
    let path = root.join(&file.name);
    fs::create_dir_all(path.parent().unwrap_or(root))?;
    fs::write(&path, &file.content)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
}

/// A file that does not load, or that has a warning, is never written: detected values may be unexpected.
fn check(staged: &Path, starter: &StarterFile) -> Result<(), CliError> {
    let warnings = match workflow::resolve(&staged.join(&starter.workflow), &[]) {
        Ok(resolved) => workflow::FileProblems(resolved.warnings),
        Err(problems) => problems,
    };
    if warnings.0.is_empty() {
        return Ok(());
    }
    Err(CliError::new(
        format!(
            "the new workflow would be invalid, nothing was written; report this with the output of `burnin --version`:\n{warnings}"
        ),
        crate::exit::Exit::Infrastructure,
    ))
}

/// Changes to the folder, recorded for the rollback.
#[derive(Default)]
struct FolderChanges {
    created: Vec<PathBuf>,
    replaced: Vec<(PathBuf, PathBuf)>,
    folders: Vec<PathBuf>,
}

impl FolderChanges {
    fn replace(&mut self, new: &Path, target: &Path, old: &Path, force: bool) -> io::Result<()> {
        self.create_folder(target.parent().unwrap_or(Path::new(".")))?;
        if force && exists(target) {
            fs::rename(target, old)?;
            self.replaced.push((old.to_owned(), target.to_owned()));
        }
        // Unlike a rename, a hard link never replaces a file that another process created meanwhile.
        match fs::hard_link(new, target) {
            Err(error)
                if error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(EPERM) =>
            {
                if exists(target) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                fs::rename(new, target)?;
            }
            linked => linked?,
        }
        self.created.push(target.to_owned());
        Ok(())
    }

    fn create_folder(&mut self, folder: &Path) -> io::Result<()> {
        if folder.as_os_str().is_empty() || folder.is_dir() {
            return Ok(());
        }
        self.create_folder(folder.parent().unwrap_or(Path::new("")))?;
        fs::create_dir(folder)?;
        self.folders.push(folder.to_owned());
        Ok(())
    }

    /// Errors of the rollback are ignored: the caller reports the failure that caused it.
    fn undo(self) {
        self.created.iter().for_each(|path| drop(fs::remove_file(path)));
        self.replaced.iter().for_each(|(old, path)| drop(fs::rename(old, path)));
        self.folders.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// Error of file systems without hard links.
const EPERM: i32 = 1;
