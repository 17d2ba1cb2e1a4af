//! Environment variables of a service.
//!
//! | variable | meaning |
//! |---|---|
//! | `PORT` | port to listen on, default 8080 |
//! | `K_SERVICE`, `K_REVISION` | set by Cloud Run; without them `platform` restricts the listener to 127.0.0.1 |
//! | `BURNIN_AUTH` | authentication of callers: `platform` or `oidc`; no default |
//! | `BURNIN_TOKENS` | with `platform` outside Cloud Run: `verified` if a proxy on this host verifies the tokens of callers, as Cloud Run does |
//! | `BURNIN_AUDIENCE`, `BURNIN_CALLERS` | with `oidc`: required audience of tokens and accepted callers, see [`Callers`] |
//! | `BURNIN_PROJECT` | project of the Pub/Sub topics |
//! | `BURNIN_TOPICS` | prefix of the topic names, default `burnin-` |
//! | `BURNIN_ARTEFACTS`, `BURNIN_LEDGER` | a bucket as `gs://NAME`, or a folder as an absolute path |
//! | `BURNIN_PULL`, `BURNIN_CLUSTER` | subscription to pull, see [`crate::pull`], and the cluster whose commands are handled |
//! | `BURNIN_LOG`, `BURNIN_LOG_FORMAT` | log filter, in the syntax of `RUST_LOG`; format: `google`, `json` or `compact` |
//! | `OTEL_EXPORTER_OTLP_ENDPOINT` | endpoint for spans and metrics, see [`crate::otlp`] |
//! | `PUBSUB_EMULATOR_HOST`, `STORAGE_EMULATOR_HOST`, `BIGQUERY_EMULATOR_HOST` | an emulator instead of Google's service, with the semantics of Google's clients |

use std::{path::PathBuf, str::FromStr};

use service::{config::VariableReader, telemetry::LogFormat};

use crate::{
    auth::Callers,
    pull::{IDLE, Pull},
    storage::Emulator,
};

/// Storage of a service's objects: a bucket, or a folder on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageLocation {
    /// Name of a Cloud Storage bucket.
    Bucket(String),
    Folder(PathBuf),
}

impl StorageLocation {
    /// Name of the bucket; `None` for a folder.
    pub fn bucket(&self) -> Option<&str> {
        match self {
            Self::Bucket(name) => Some(name),
            Self::Folder(_) => None,
        }
    }
}

impl FromStr for StorageLocation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("gs://") {
            Some(name) if name.len() >= 3 && !name.contains('/') => Ok(Self::Bucket(name.to_owned())),
            Some(_) => Err("expected gs://NAME, without a path"),
            None if text.starts_with('/') => Ok(Self::Folder(text.into())),
            None => Err("expected gs://NAME or an absolute path"),
        }
    }
}

/// A local absolute path. Other forms are reserved for later versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsolutePath(pub PathBuf);

impl FromStr for AbsolutePath {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('/') {
            Ok(Self(text.into()))
        } else {
            Err("expected an absolute path of a local file")
        }
    }
}

/// Authentication of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The platform restricts callers: on Cloud Run by its invoker check, elsewhere by the loopback address.
    Platform,
    /// The service checks the token in each request.
    Oidc {
        /// Required audience of tokens.
        audience: String,
        callers: Callers,
    },
}

impl Auth {
    fn read(env: &mut VariableReader) -> Option<Self> {
        match env.required::<AuthMode>("BURNIN_AUTH")? {
            AuthMode::Platform => Some(Self::Platform),
            AuthMode::Oidc => {
                let (audience, callers) = (env.required("BURNIN_AUDIENCE"), env.required("BURNIN_CALLERS"));
                Some(Self::Oidc { audience: audience?, callers: callers? })
            }
        }
    }
}

enum AuthMode {
    Platform,
    Oidc,
}

impl FromStr for AuthMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "platform" => Ok(Self::Platform),
            "oidc" => Ok(Self::Oidc),
            _ => Err("expected platform or oidc"),
        }
    }
}

struct NamedSubscription(String);

impl FromStr for NamedSubscription {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split('/').collect::<Vec<_>>().as_slice() {
            ["projects", project, "subscriptions", name] if !project.is_empty() && !name.is_empty() => {
                Ok(Self(text.to_owned()))
            }
            _ => Err("expected projects/PROJECT/subscriptions/NAME"),
        }
    }
}

/// Configuration common to all services.
#[derive(Clone, Debug)]
pub struct Platform {
    /// HTTP port; `PORT`, default 8080.
    pub port: u16,
    pub auth: Auth,
    pub on_cloud_run: bool,
    /// Whether the platform has verified the callers' tokens before it forwards a request.
    pub are_tokens_verified: bool,
    pub revision: Option<String>,
    /// Google Cloud project of the Pub/Sub topics.
    pub project: String,
    /// Prefix of the topic names.
    pub topics: String,
    /// An emulator of Pub/Sub, as `host:port`.
    pub pubsub_emulator: Option<String>,
    pub storage_emulator: Option<Emulator>,
    pub bigquery_emulator: Option<Emulator>,
    /// Log filter, in the syntax of `RUST_LOG`.
    pub log: String,
    pub log_format: LogFormat,
    /// Endpoint for spans and metrics, if any.
    pub otlp: Option<String>,
    /// Subscription to pull, if any.
    pub pull: Option<Pull>,
}

struct VerifiedTokens;

impl FromStr for VerifiedTokens {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        (text == "verified").then_some(Self).ok_or("expected verified or no value")
    }
}

enum LogFormatName {
    Google,
    Json,
    Compact,
}

impl FromStr for LogFormatName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "google" => Ok(Self::Google),
            "json" => Ok(Self::Json),
            "compact" => Ok(Self::Compact),
            _ => Err("expected google, json or compact"),
        }
    }
}

impl Platform {
    /// Reads the variables; the reader collects the problems.
    pub fn read(env: &mut VariableReader) -> Option<Self> {
        let port = env.or("PORT", 8080);
        let auth = Auth::read(env);
        let service = env.optional::<String>("K_SERVICE");
        let tokens = env.optional::<VerifiedTokens>("BURNIN_TOKENS");
        let revision = env.optional("K_REVISION");
        let project = env.required("BURNIN_PROJECT");
        let topics = env.or("BURNIN_TOPICS", "burnin-".to_owned());
        let pubsub_emulator = env.optional("PUBSUB_EMULATOR_HOST");
        let storage_emulator = env.optional("STORAGE_EMULATOR_HOST");
        let bigquery_emulator = env.optional("BIGQUERY_EMULATOR_HOST");
        let log = env.or("BURNIN_LOG", "info".to_owned());
        let log_format = env.or("BURNIN_LOG_FORMAT", LogFormatName::Google);
        let otlp = env.optional("OTEL_EXPORTER_OTLP_ENDPOINT");
        let subscription = env.optional::<NamedSubscription>("BURNIN_PULL");
        let cluster = env.optional("BURNIN_CLUSTER")?;
        let project: String = project?;
        let log_format = match log_format? {
            LogFormatName::Google => LogFormat::Google { project: project.clone() },
            LogFormatName::Json => LogFormat::Json,
            LogFormatName::Compact => LogFormat::Compact,
        };
        Some(Self {
            port: port?,
            auth: auth?,
            are_tokens_verified: service.as_ref()?.is_some() || tokens?.is_some(),
            on_cloud_run: service?.is_some(),
            revision: revision?,
            project,
            topics: topics?,
            pubsub_emulator: pubsub_emulator?,
            storage_emulator: storage_emulator?,
            bigquery_emulator: bigquery_emulator?,
            log: log?,
            log_format,
            otlp: otlp?,
            pull: subscription?.map(|NamedSubscription(subscription)| Pull {
                subscription,
                cluster,
                idle: IDLE,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_location_is_a_bucket_or_an_absolute_path() {
        assert_eq!("gs://logs-1".parse(), Ok(StorageLocation::Bucket("logs-1".to_owned())));
        assert_eq!("/var/lib/burnin".parse(), Ok(StorageLocation::Folder("/var/lib/burnin".into())));
        for wrong in ["gs://", "gs://a/b", "logs", "", "s3://logs"] {
            assert!(wrong.parse::<StorageLocation>().is_err(), "{wrong}");
        }
        assert_eq!("/tmp/w.sqlite".parse(), Ok(AbsolutePath("/tmp/w.sqlite".into())));
        assert!(
            "bigquery:p.burnin".parse::<AbsolutePath>().is_err()
                && "cloud-build:p/l".parse::<AbsolutePath>().is_err()
        );
    }
}
