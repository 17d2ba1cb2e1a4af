//! What a service finds in its environment.
//!
//! | variable | what it is |
//! |---|---|
//! | `PORT` | where to listen, 8080 |
//! | `K_SERVICE`, `K_REVISION` | set by Cloud Run; without them `platform` means 127.0.0.1 alone |
//! | `BURNIN_AUTH` | who decides who may call: `platform` or `oidc`; there is no default |
//! | `BURNIN_AUDIENCE`, `BURNIN_CALLERS` | with `oidc`: for whom tokens must be, and whose are let in, see [`Callers`] |
//! | `BURNIN_PROJECT` | the project whose Pub/Sub topics carry the events |
//! | `BURNIN_TOPICS` | what the names of the topics begin with, `burnin-` |
//! | `BURNIN_ARTEFACTS`, `BURNIN_LEDGER` | a bucket as `gs://NAME`, or a folder as an absolute path |
//! | `BURNIN_PULL`, `BURNIN_CLUSTER` | a subscription to pull, see [`crate::pull`], and whose commands are meant |
//! | `BURNIN_LOG`, `BURNIN_LOG_FORMAT` | what is logged, in the words of `RUST_LOG`; `google`, `json` or `compact` |
//! | `OTEL_EXPORTER_OTLP_ENDPOINT` | where spans and measurements go, see [`crate::otlp`] |
//! | `PUBSUB_EMULATOR_HOST`, `STORAGE_EMULATOR_HOST`, `BIGQUERY_EMULATOR_HOST` | an emulator in Google's place, as Google's own clients read them |

use std::{path::PathBuf, str::FromStr};

use service::{config::Reader, telemetry::Format};

use crate::{auth::Callers, pull::Pull, storage::Emulator};

/// Where objects are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A bucket's name.
    Bucket(String),
    /// A folder on this machine.
    Folder(PathBuf),
}

impl Place {
    /// The bucket's name, where it is one.
    pub fn bucket(&self) -> Option<&str> {
        match self {
            Self::Bucket(name) => Some(name),
            Self::Folder(_) => None,
        }
    }
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("gs://") {
            Some(name) if name.len() >= 3 && !name.contains('/') => Ok(Self::Bucket(name.to_owned())),
            Some(_) => Err("a bucket is gs://NAME, without a path"),
            None if text.starts_with('/') => Ok(Self::Folder(text.into())),
            None => Err("neither gs://NAME nor an absolute path"),
        }
    }
}

/// Something on this machine, by its absolute path: what is written otherwise is a place that only a later version knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local(pub PathBuf);

impl FromStr for Local {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('/') {
            Ok(Self(text.into()))
        } else {
            Err("expected an absolute path on this machine")
        }
    }
}

/// Who decides who may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The platform: on Cloud Run its own invoker check, elsewhere the loopback address.
    Platform,
    /// The service itself, by the token each caller brings.
    Oidc {
        /// For whom tokens must be.
        audience: String,
        /// Whose tokens are let in.
        callers: Callers,
    },
}

impl Auth {
    fn read(env: &mut Reader) -> Option<Self> {
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
            _ => Err("either platform or oidc"),
        }
    }
}

struct Subscription(String);

impl FromStr for Subscription {
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

/// What every service needs to know.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Where to listen.
    pub port: u16,
    /// Who decides who may call.
    pub auth: Auth,
    /// The process is one of Cloud Run's.
    pub on_cloud_run: bool,
    /// The revision that runs.
    pub revision: Option<String>,
    /// The project of the topics.
    pub project: String,
    /// What topics' names begin with.
    pub topics: String,
    /// An emulator of Pub/Sub, as `host:port`.
    pub pubsub_emulator: Option<String>,
    /// A server in Cloud Storage's place.
    pub storage_emulator: Option<Emulator>,
    /// A server in BigQuery's place.
    pub bigquery_emulator: Option<Emulator>,
    /// What is logged.
    pub log: String,
    /// How it is logged.
    pub log_format: Format,
    /// Where spans and measurements go, if anywhere.
    pub otlp: Option<String>,
    /// What it pulls, if it is not only pushed to.
    pub pull: Option<Pull>,
}

enum LogFormat {
    Google,
    Json,
    Compact,
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "google" => Ok(Self::Google),
            "json" => Ok(Self::Json),
            "compact" => Ok(Self::Compact),
            _ => Err("one of google, json and compact"),
        }
    }
}

impl Platform {
    /// From these variables; what is wrong is remembered by the reader.
    pub fn read(env: &mut Reader) -> Option<Self> {
        let port = env.or("PORT", 8080);
        let auth = Auth::read(env);
        let service = env.optional::<String>("K_SERVICE");
        let revision = env.optional("K_REVISION");
        let project = env.required("BURNIN_PROJECT");
        let topics = env.or("BURNIN_TOPICS", "burnin-".to_owned());
        let pubsub_emulator = env.optional("PUBSUB_EMULATOR_HOST");
        let storage_emulator = env.optional("STORAGE_EMULATOR_HOST");
        let bigquery_emulator = env.optional("BIGQUERY_EMULATOR_HOST");
        let log = env.or("BURNIN_LOG", "info".to_owned());
        let log_format = env.or("BURNIN_LOG_FORMAT", LogFormat::Google);
        let otlp = env.optional("OTEL_EXPORTER_OTLP_ENDPOINT");
        let subscription = env.optional::<Subscription>("BURNIN_PULL");
        let cluster = env.optional("BURNIN_CLUSTER")?;
        let project: String = project?;
        let log_format = match log_format? {
            LogFormat::Google => Format::Google { project: project.clone() },
            LogFormat::Json => Format::Json,
            LogFormat::Compact => Format::Compact,
        };
        Some(Self {
            port: port?,
            auth: auth?,
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
            pull: subscription?.map(|Subscription(subscription)| Pull { subscription, cluster }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_or_an_absolute_path() {
        assert_eq!("gs://logs-1".parse(), Ok(Place::Bucket("logs-1".to_owned())));
        assert_eq!("/var/lib/burnin".parse(), Ok(Place::Folder("/var/lib/burnin".into())));
        for wrong in ["gs://", "gs://a/b", "logs", "", "s3://logs"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
        assert_eq!("/tmp/w.sqlite".parse(), Ok(Local("/tmp/w.sqlite".into())));
        assert!("bigquery:p.burnin".parse::<Local>().is_err() && "cloud-build:p/l".parse::<Local>().is_err());
    }
}
