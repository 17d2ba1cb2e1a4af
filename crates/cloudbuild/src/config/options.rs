use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of the whole build.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    /// Environment of every step, each as `KEY=VALUE`; a step's own `env` wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Secret environment of every step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_env: Vec<String>,
    /// What a substitution that does not match means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substitution_option: Option<SubstitutionOption>,
    /// Whether the value of a substitution may refer to other substitutions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_substitutions: Option<bool>,
    /// Whether all substitutions become environment variables of every step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automap_substitutions: Option<bool>,
    /// Volumes mounted into every step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Value>,
    /// Machine of the cloud to run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// Disk of that machine; a number, or a number as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_size_gb: Option<Value>,
    /// Where the log goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<String>,
    /// Whether the log is streamed to its bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_streaming_option: Option<String>,
    /// Who owns the default bucket of logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_logs_bucket_behavior: Option<String>,
    /// Private pool to run in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Value>,
    /// Private pool to run in, the old spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_pool: Option<String>,
    /// Topic to notify.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pubsub_topic: Option<String>,
    /// Whether provenance is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_verify_option: Option<String>,
    /// Hashes of the source to record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_provenance_hash: Vec<String>,
}

/// What a substitution that does not match means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SubstitutionOption {
    /// One that is used and not given, or given and not used, fails the build.
    #[default]
    MustMatch,
    /// The first is replaced by nothing, the second is ignored.
    AllowLoose,
}
