//! Secrets that are known beforehand: whoever can name a secret need not guess it.

use std::{fs, io, path::Path, sync::Arc};

use redact::{Rules, is_secret_name};

/// The rules with everything this process knows to be secret: its own environment's variables whose names say so, and
/// the files of a folder that holds one secret each, where there is one.
///
/// # Errors
/// When a secret cannot be read, naming it: a log would be stored with it.
pub fn rules(folder: &Path) -> io::Result<Arc<Rules>> {
    let mut known: Vec<Vec<u8>> = std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(is_secret_name))
        .map(|(_, value)| value.into_encoded_bytes())
        .collect();
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        entries => {
            for entry in entries.map_err(|error| named(folder, &error))? {
                let path = entry?.path();
                if path.is_file() {
                    known.push(fs::read(&path).map_err(|error| named(&path, &error))?);
                }
            }
        }
    }
    Rules::new(known).map(Arc::new).map_err(io::Error::other)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("secret {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use redact::Redactor;

    use super::*;

    #[test]
    fn the_secrets_of_a_folder_are_known() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("registry"), "tr0ub4dor&3-horse\n").unwrap();
        for (place, expected) in [
            (folder.path().to_path_buf(), "say [redacted:known-value]."),
            (folder.path().join("none"), "say tr0ub4dor&3-horse."),
        ] {
            let (mut redactor, mut out) = (Redactor::new(rules(&place).unwrap()), Vec::new());
            redactor.push(b"say tr0ub4dor&3-horse.", &mut out);
            redactor.finish(&mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
