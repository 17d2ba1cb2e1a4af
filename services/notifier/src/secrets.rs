//! Addresses and keys by name. They are read at each use, so that a change needs no restart, and never printed.
//!
//! | secret | variable | file in the folder |
//! |---|---|---|
//! | address of `ops-channel` | `BURNIN_CHANNEL_OPS_CHANNEL_URL` | `ops-channel.url` |
//! | signing keys for it, one per line | `BURNIN_CHANNEL_OPS_CHANNEL_KEY` | `ops-channel.key` |
//! | GitHub token | `BURNIN_CHANNEL_GITHUB_TOKEN` | `github.token` |

use std::{collections::BTreeMap, fmt, fs, io::Read, path::PathBuf};

pub use channels::SecretOrigin;
use model::Notify;

const PREFIX: &str = "BURNIN_CHANNEL_";
/// Maximum length of a secret, bytes.
const LONGEST: u64 = 16 << 10;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// The text, which may only be sent to its receiver.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the secret replaced.
    pub fn hidden_in(&self, text: &str) -> String {
        text.replace(&self.0, "[secret]")
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[derive(Debug, Default)]
pub struct Secrets {
    folder: Option<PathBuf>,
    variables: BTreeMap<String, SecretText>,
}

impl Secrets {
    /// Searches `variables` with the prefix first, then the folder.
    pub fn new(
        variables: impl IntoIterator<Item = (String, String)>,
        folder: impl Into<Option<PathBuf>>,
    ) -> Self {
        let ours = variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX));
        let variables = ours.map(|(name, value)| (name, SecretText(value.trim().to_owned()))).collect();
        Self { folder: folder.into(), variables }
    }

    /// Uses the environment of the process, then a folder.
    pub fn of_process(folder: impl Into<Option<PathBuf>>) -> Self {
        let texts = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::new(std::env::vars_os().filter_map(texts), folder)
    }

    /// Missing address or key of a channel, with the variable or file to set; `None` if complete.
    pub fn missing_setting(&self, target: &Notify) -> Option<String> {
        let (name, kinds) = match target {
            Notify::Github(_) => ("github", &[SecretOrigin::Token][..]),
            Notify::Channel(channel) => (channel.name.as_str(), needed(&channel.kind)),
        };
        let missing: Vec<_> = kinds.iter().filter_map(|kind| self.find(name, *kind).err()).collect();
        (!missing.is_empty()).then(|| missing.join("; "))
    }

    /// The secret of a channel name: letters, digits and `-`.
    ///
    /// # Errors
    /// Returns an error if the secret is absent or unreadable, with the searched places.
    pub fn find(&self, name: &str, kind: SecretOrigin) -> Result<SecretText, String> {
        let variable = format!("{PREFIX}{}_{}", name.replace('-', "_"), kind.as_str()).to_ascii_uppercase();
        let known = self.variables.get(&variable).cloned();
        let file = self.folder.as_ref().map(|folder| folder.join(format!("{name}.{}", kind.as_str())));
        let secret = match (known, &file) {
            (Some(secret), _) => Some(secret),
            (None, Some(file)) if file.is_file() => {
                let mut text = String::new();
                let read = fs::File::open(file).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
                // Omit the error's own text: it could quote the file.
                read.map_err(|error| format!("{} cannot be read: {}", file.display(), error.kind()))?;
                Some(SecretText(text.trim().to_owned()))
            }
            (None, _) => None,
        };
        secret.filter(|secret| !secret.0.is_empty()).ok_or_else(|| {
            let or = file.map(|file| format!(" or put it into {}", file.display())).unwrap_or_default();
            format!("the {} of `{name}` is not set: set {variable}{or}", kind.as_str())
        })
    }
}

/// Secrets that a kind of channel needs.
pub(crate) fn needed(kind: &str) -> &'static [SecretOrigin] {
    channels::kind(kind).map_or(&[], |kind| kind.form().secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_by_its_name_and_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let set = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        set("ops-channel.url", "https://hooks.example/T/s3cret\n");
        set("pager.key", "\n");
        let variables = [("BURNIN_CHANNEL_PAGER_URL", "https://pager.example/s3cret"), ("HOME", "/")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = Secrets::new(variables, folder.path().to_owned());
        let found = secrets.find("ops-channel", SecretOrigin::Url).unwrap();
        assert_eq!(found.reveal(), "https://hooks.example/T/s3cret");
        assert_eq!(
            secrets.find("pager", SecretOrigin::Url).unwrap().reveal(),
            "https://pager.example/s3cret"
        );
        assert!(!format!("{secrets:?} {found:?}").contains("s3cret"));
        let text = found.hidden_in("POST https://hooks.example/T/s3cret failed");
        assert_eq!(text, "POST [secret] failed");
        // Secrets are read at each use, so a changed file takes effect immediately.
        set("ops-channel.url", "https://hooks.example/new");
        assert_eq!(
            secrets.find("ops-channel", SecretOrigin::Url).unwrap().reveal(),
            "https://hooks.example/new"
        );
        let why = secrets.find("pager", SecretOrigin::Key).unwrap_err();
        assert!(
            why.starts_with("the key of `pager` is not set: set BURNIN_CHANNEL_PAGER_KEY or put it into "),
            "{why}"
        );
        fs::write(folder.path().join("bad.token"), [0xff, b's', b'3']).unwrap();
        let why = secrets.find("bad", SecretOrigin::Token).unwrap_err();
        assert!(
            why.ends_with("bad.token cannot be read: stream did not contain valid UTF-8")
                || why.ends_with("invalid data"),
            "{why}"
        );
    }
}
