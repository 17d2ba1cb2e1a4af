use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file, identified by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDigest {
    /// Name relative to the image.
    pub name: String,
    /// Size, bytes.
    pub size_bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
}

/// An image, identified by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// Location: a registry reference, or an object prefix in the artefact bucket that ends in `/`.
    pub reference: String,
    /// `sha256:` and 64 hex digits.
    pub digest: String,
    /// Files of an image that is a set of files; empty for a container image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileDigest>,
    /// SHA-256, hex, of the manifest that lists the files and the build log; `None` in ledgers of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_sha256: Option<String>,
}
