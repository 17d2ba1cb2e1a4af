//! The format of a build config.
//!
//! Names are Cloud Build's. An unknown field is an error, as in Cloud Build: a mistyped `waitfor` must not
//! silently change the order of steps. Cloud-only fields are accepted, and [`crate::plan::check`] reports
//! those that the local runner must reject.

mod duration;
mod options;
mod outputs;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use duration::Duration;
pub use options::{ConfigOptions, SubstitutionOption};
pub use outputs::{ArtifactObjects, Artifacts, AvailableSecrets, InlineSecret, SecretManagerSecret};

/// Root object of a Cloud Build config file. Unknown fields are rejected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildConfig {
    /// Steps, at least one.
    pub steps: Vec<BuildStep>,
    /// Time limit of the whole build; 3600s when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Maximum wait in the cloud's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ttl: Option<Duration>,
    /// Bucket for the log in the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs_bucket: Option<String>,
    /// Settings of the whole build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ConfigOptions>,
    /// Default values of user substitutions; names begin with an underscore.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub substitutions: BTreeMap<String, String>,
    /// Labels of the build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Service account of the build in the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Deprecated secrets, encrypted in the config; use `availableSecrets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Value>,
    /// Secrets available to steps through `secretEnv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_secrets: Option<AvailableSecrets>,
    /// Output files of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Artifacts>,
    /// Output container images of the build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

/// One step of a build: a program or a script in a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Step")]
pub struct BuildStep {
    /// The builder image.
    pub name: String,
    /// Name for `waitFor` in other steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Arguments of the entrypoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Replaces the image's entrypoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// A script, instead of `entrypoint` and `args`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Environment, each as `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Environment variables with values from `availableSecrets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_env: Vec<String>,
    /// Working directory, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Ids of the steps that must succeed first; `-` for none; absent for all earlier steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wait_for: Vec<String>,
    /// Time limit of this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Whether the build continues if this step fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_failure: Option<bool>,
    /// Exit codes at which the build continues; overrides `allowFailure`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_exit_codes: Vec<i32>,
    /// Whether all substitutions become environment variables; overrides the option of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automap_substitutions: Option<bool>,
    /// Volumes shared between steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Value>,
}

/// JSON Schema of a config, generated from these types.
pub fn schema() -> Value {
    schemars::schema_for!(BuildConfig).to_value()
}
