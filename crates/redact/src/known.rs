//! Secrets known to this process, which need no pattern.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, LazyLock},
};

use crate::{Redactor, Rules, is_secret_name};

impl Rules {
    /// The patterns, and all secrets known to this process: variables of its environment with secret names,
    /// and the files of `folder`, one secret each, if the folder exists.
    ///
    /// # Errors
    /// Returns an error, with the secret's name, if a secret is unreadable: otherwise it could be stored unredacted.
    pub fn of_this_process(folder: Option<&Path>) -> io::Result<Arc<Self>> {
        let mut known = in_environment();
        match folder.map(fs::read_dir) {
            None => {}
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Some(entries) => {
                let folder = folder.unwrap_or(Path::new(""));
                for entry in entries.map_err(|error| with_path(folder, &error))? {
                    let path = entry?.path();
                    if path.is_file() {
                        known.push(fs::read(&path).map_err(|error| with_path(&path, &error))?);
                    }
                }
            }
        }
        Self::new(known).map(Arc::new).map_err(io::Error::other)
    }
}

/// Redacts a short text by the patterns and the environment of this process.
#[must_use]
pub fn redacted(text: &str) -> String {
    static RULES: LazyLock<Arc<Rules>> =
        LazyLock::new(|| Rules::new(in_environment()).map_or_else(|_| Rules::of_patterns(), Arc::new));
    let (mut redactor, mut out) = (Redactor::new(Arc::clone(&RULES)), Vec::with_capacity(text.len()));
    redactor.push(text.as_bytes(), &mut out);
    redactor.finish(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn in_environment() -> Vec<Vec<u8>> {
    let secret = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_secret_name));
    secret.map(|(_, value)| std::os::unix::ffi::OsStringExt::into_vec(value)).collect()
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("secret {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secrets_of_a_folder_are_redacted() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("registry"), "tr0ub4dor&3-horse\n").unwrap();
        for (place, expected) in [
            (folder.path().to_path_buf(), "say [redacted:known-value]."),
            (folder.path().join("none"), "say tr0ub4dor&3-horse."),
        ] {
            let rules = Rules::of_this_process(Some(&place)).unwrap();
            let (mut redactor, mut out) = (Redactor::new(rules), Vec::new());
            redactor.push(b"say tr0ub4dor&3-horse.", &mut out);
            redactor.finish(&mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
