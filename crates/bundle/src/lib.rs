//! A run as one signed file: an acceptance or RMA record that can be verified offline.
//!
//! It is a tar archive, in this order:
//!
//! ```text
//! bundle.json              list of the other files with digests; conclusion and verdict; public key
//! bundle.sig               Ed25519 over the bytes of bundle.json, base64
//! artefacts/{run}/...      logs, manifests, verdict, and other files of the run's stages
//! ledger/{run}/{seq}.json  the run, record by record
//! handover.md              the request, the measurements with their devices, and the missing measurements
//! report.html              the report page
//! ```
//!
//! A signature only identifies the key: the verifier must have the key from another source.

mod artifacts;
mod error;
mod verify;
mod write;

use std::io;

use base64::{Engine, engine::general_purpose::STANDARD};
use ed25519_dalek::{
    SigningKey, VerifyingKey,
    pkcs8::{DecodePrivateKey, DecodePublicKey},
};
use model::{RunId, Timestamp, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::BundleError;
pub use verify::{InvalidBundle, VerifiedBundle, verify};
pub use write::{Documents, write};

/// Headers of an entry, including the entry for a long name. The headers contain no times, owners or links, so that
/// the same name and size always produce the same bytes.
fn header(name: &str, size: u64) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, name, io::empty())?;
    Ok(archive.get_ref().clone())
}

/// Zeros that pad an entry's content to a whole block.
const fn padding(size: u64) -> usize {
    (BLOCK - size as usize % BLOCK) % BLOCK
}

/// Value of the field `schema` in [`Contents`]; changes with the format.
pub const SCHEMA: &str = "burnin/bundle/v1";

const CONTENTS: &str = "bundle.json";
const HANDOVER: &str = "handover.md";
const REPORT: &str = "report.html";
/// Block size of tar; two empty blocks end an archive.
const BLOCK: usize = 512;
const SIGNATURE: &str = "bundle.sig";

/// List of a bundle's content: its first file, which is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contents {
    /// Schema of the document: always `burnin/bundle/v1`.
    pub schema: String,
    /// Id of the exported run.
    pub run: RunId,
    /// Workflow of the exported run.
    pub workflow: String,
    /// Time at which the run was requested.
    pub requested_at: Timestamp,
    /// Conclusion of the run.
    pub conclusion: String,
    /// Verdict on the measurements; null if not judged.
    pub verdict: Option<Verdict>,
    /// Number of ledger records.
    pub records: u64,
    /// Version of the program that created the bundle.
    pub version: String,
    /// Public key of the signature: Ed25519, base64.
    pub key: String,
    /// All other files, sorted by name.
    pub files: Vec<BundleFile>,
}

/// A file of a bundle, as listed in its signed first file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BundleFile {
    /// Name in the archive.
    pub name: String,
    /// Number of bytes.
    pub size_bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
}

/// A private key for signing bundles.
pub struct BundleKey(SigningKey);

impl BundleKey {
    /// Reads a key in the format of `openssl genpkey -algorithm ed25519`.
    ///
    /// # Errors
    /// Returns an error if the text is not such a key.
    pub fn read(pem: &str) -> Result<Self, &'static str> {
        SigningKey::from_pkcs8_pem(pem).map(Self).map_err(|_| {
            "expected an Ed25519 private key in PKCS #8 PEM; `openssl genpkey -algorithm ed25519` generates a key"
        })
    }

    fn public(&self) -> String {
        STANDARD.encode(self.0.verifying_key().as_bytes())
    }
}

/// A trusted public key for verification.
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads a key in the format of `openssl pkey -pubout`.
    ///
    /// # Errors
    /// Returns an error if the text is not such a key.
    pub fn read(pem: &str) -> Result<Self, &'static str> {
        VerifyingKey::from_public_key_pem(pem)
            .map(Self)
            .map_err(|_| "expected an Ed25519 public key in PEM; `openssl pkey -in KEY -pubout` writes it")
    }
}
