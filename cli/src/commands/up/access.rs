//! Files that give the user's own programs access to `burnin up`, in a folder that other users cannot read:
//! `{data}/host/up/{port}.header`, a header for `curl -H @FILE`, and `{port}.link`, the newest sign-in link.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::exit::CliError;

/// The files of one server, removed when the server ends.
pub struct AccessFiles {
    /// Path of the header file: its `Authorization` line is for `curl -H @FILE`.
    pub header: PathBuf,
    /// Path of the newest sign-in link.
    pub link: PathBuf,
}

impl AccessFiles {
    /// Files of the server on `port`, in the folder `host` of the data folder.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or belongs to another user.
    pub fn new(host: &Path, port: u16) -> Result<Self, CliError> {
        let folder = host.join("up");
        private(host)?;
        private(&folder)?;
        Ok(Self { header: folder.join(format!("{port}.header")), link: folder.join(format!("{port}.link")) })
    }

    /// Writes a file atomically, readable only by its owner.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write(path: &Path, line: &str) -> io::Result<()> {
        let draft = path.with_extension(format!("draft-{}", std::process::id()));
        if let Err(error) = fs::remove_file(&draft)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
        writeln!(file, "{line}")?;
        fs::rename(draft, path)
    }
}

impl Drop for AccessFiles {
    fn drop(&mut self) {
        // A leftover file is useless: its secrets end with the process.
        drop(fs::remove_file(&self.header));
        drop(fs::remove_file(&self.link));
    }
}

/// Creates the folder if absent, and removes all rights of other users.
fn private(folder: &Path) -> Result<(), CliError> {
    let cannot = |error: io::Error| CliError::usage(format!("{}: {error}", folder.display()));
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(error)),
        _ => {}
    }
    // Refuse a symbolic link: it could point to a folder of another user.
    let found = fs::symlink_metadata(folder).map_err(cannot)?;
    let user = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != user {
        let kind = match found.file_type() {
            kind if kind.is_dir() => "a folder",
            kind if kind.is_symlink() => "a symbolic link",
            _ => "a file",
        };
        let why = format!(
            "{}: expected a folder of user {user}, found {kind} of user {}; remove it, or name another data folder with --data",
            folder.display(),
            found.uid()
        );
        return Err(CliError::usage(why));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(cannot)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_private_and_removed_with_the_server() {
        let root = tempfile::tempdir().unwrap();
        let host = root.path().join("host");
        fs::create_dir(&host).unwrap();
        fs::set_permissions(&host, Permissions::from_mode(0o777)).unwrap();
        let files = AccessFiles::new(&host, 8080).unwrap();
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o777;
        // A killed process left this draft.
        fs::write(files.header.with_extension(format!("draft-{}", std::process::id())), "old").unwrap();
        for line in ["Authorization: Bearer a", "Authorization: Bearer b"] {
            AccessFiles::write(&files.header, line).unwrap();
            assert_eq!(fs::read_to_string(host.join("up/8080.header")).unwrap(), format!("{line}\n"));
        }
        assert_eq!((mode(&host), mode(&host.join("up")), mode(&files.header)), (0o700, 0o700, 0o600));
        drop(files);
        assert_eq!(fs::read_dir(host.join("up")).unwrap().count(), 0);
    }

    #[test]
    fn a_symbolic_link_instead_of_the_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let host = root.path().join("host");
        fs::create_dir_all(root.path().join("elsewhere")).unwrap();
        fs::create_dir(&host).unwrap();
        std::os::unix::fs::symlink("../elsewhere", host.join("up")).unwrap();
        let refused = AccessFiles::new(&host, 1).err().unwrap();
        assert!(refused.message.contains("host/up: expected a folder of user"), "{}", refused.message);
    }
}
