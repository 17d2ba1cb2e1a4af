use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Settings of the whole build.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigOptions {
    /// Environment of every step, each as `KEY=VALUE`; overridden by a step's own `env`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Secret environment of every step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_env: Vec<String>,
    /// Handling of missing and unused substitutions.
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
    /// Machine type in the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// Disk size of that machine; a number, or a number as a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_size_gb: Option<Value>,
    /// Log destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<String>,
    /// Whether the log is streamed to its bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_streaming_option: Option<String>,
    /// Owner of the default log bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_logs_bucket_behavior: Option<String>,
    /// Private worker pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Value>,
    /// Private worker pool, deprecated spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_pool: Option<String>,
    /// Pub/Sub topic for status updates of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pubsub_topic: Option<String>,
    /// Whether provenance is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_verify_option: Option<String>,
    /// Hashes of the source to record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_provenance_hash: Vec<String>,
}

/// Handling of missing and unused substitutions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SubstitutionOption {
    /// A missing or unused substitution fails the build.
    #[default]
    MustMatch,
    /// A missing substitution is empty; an unused one is ignored.
    AllowLoose,
}
