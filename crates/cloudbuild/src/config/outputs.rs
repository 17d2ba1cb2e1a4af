use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Outputs of a build.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Artifacts {
    /// Container images, instead of the config's own `images`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Files to copy to a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<ArtifactObjects>,
    /// Maven packages to upload to Artifact Registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maven_artifacts: Vec<Value>,
    /// Python packages to upload to Artifact Registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub python_packages: Vec<Value>,
    /// npm packages to upload to Artifact Registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub npm_packages: Vec<Value>,
    /// Go modules to upload to Artifact Registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub go_modules: Vec<Value>,
}

/// Files to store after all steps succeeded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactObjects {
    /// Bucket and folder, as `gs://bucket/folder/`.
    pub location: String,
    /// Globs in the workspace; only the last part of a path is kept.
    pub paths: Vec<String>,
}

/// Secrets available to steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AvailableSecrets {
    /// Secrets in Secret Manager.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_manager: Vec<SecretManagerSecret>,
    /// Secrets in the config, encrypted with a key of Cloud KMS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inline: Vec<InlineSecret>,
}

/// A version of a secret, and its environment variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretManagerSecret {
    /// `projects/PROJECT/secrets/NAME/versions/VERSION`.
    pub version_name: String,
    /// Name for `secretEnv`, and name of the variable.
    pub env: String,
}

/// Encrypted values, and their environment variables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InlineSecret {
    /// Resource name of the KMS key that decrypts the values.
    pub kms_key_name: String,
    /// Encrypted value by variable.
    pub env_map: BTreeMap<String, String>,
}
