//! Kinds of secrets, and their counts.

use std::collections::BTreeMap;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Kind of a secret. Its name is written to the marker and the manifest.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SecretKind { $($(#[$doc])* $name,)* }

        impl SecretKind {
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];

            /// Spelling in the marker and the manifest.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

kinds! {
    /// A value known beforehand, in any encoding.
    KnownValue = "known-value",
    /// A token of GitHub or GitLab.
    GitToken = "git-token",
    GoogleApiKey = "google-api-key",
    /// An access token or client secret of Google.
    GoogleToken = "google-token",
    /// A private key in PEM.
    PrivateKey = "private-key",
    /// A JSON Web Token.
    Jwt = "jwt",
    /// An access key id of AWS.
    AwsKey = "aws-key",
    /// A token or web hook of Slack.
    SlackToken = "slack-token",
    NgcKey = "ngc-key",
    HuggingFaceToken = "hugging-face-token",
    /// An API key of a model provider.
    ApiKey = "api-key",
    /// A token of npm, PyPI or Docker Hub.
    RegistryToken = "registry-token",
    VaultToken = "vault-token",
    /// A password given to a command: `docker login -p`, `curl -u`.
    CommandPassword = "command-password",
    /// A token after `Bearer`.
    BearerToken = "bearer-token",
    /// The content of an `Authorization` or `Cookie` header.
    Header = "header",
    UrlPassword = "url-password",
    /// The value of a name that indicates a secret.
    Assignment = "assignment",
    /// The value of a variable in the environment block of a JSON document.
    Environment = "environment",
}

/// Number of replaced secrets by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally([u64; SecretKind::ALL.len()]);

impl Tally {
    pub(crate) fn count(&mut self, kind: SecretKind) {
        self.0[kind as usize] += 1;
    }

    /// Adds the counts of another stream.
    pub fn add(&mut self, other: &Self) {
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            *mine += other;
        }
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Counts by name of the kind, without zeros.
    pub fn by_kind(&self) -> BTreeMap<String, u64> {
        let counted =
            SecretKind::ALL.into_iter().map(|kind| (kind.as_str().to_owned(), self.0[kind as usize]));
        counted.filter(|(_, count)| *count > 0).collect()
    }
}
