//! A run as one signed file: an acceptance or RMA record that needs nobody of us to be checked.
//!
//! It is a tar archive, in this order:
//!
//! ```text
//! bundle.json              what is in it, each file with its digest; what the run came to; whose key signed it
//! bundle.sig               Ed25519 over the bytes of bundle.json, base64
//! artefacts/{run}/...      logs, manifests, verdict, and whatever else the run's stages left
//! ledger/{run}/{seq}.json  the run, record by record
//! report.html              the page for people
//! ```
//!
//! A signature says who vouches for it, and nothing says more: whoever checks it has to know the key from elsewhere.

mod artifacts;
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

pub use verify::{Broken, Checked, verify};
pub use write::{BundleError, write};

/// Everything of an entry that stands before its content: its header, and before that the entry of a long name. The same
/// name and size give the same bytes, without times, owners or links.
fn header(name: &str, size: u64) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, name, io::empty())?;
    Ok(archive.get_ref().clone())
}

/// Zeros that fill an entry's content up to a whole block.
const fn padding(size: u64) -> usize {
    (BLOCK - size as usize % BLOCK) % BLOCK
}

/// The schema of [`Contents`].
pub const SCHEMA: &str = "burnin/bundle/v1";

const CONTENTS: &str = "bundle.json";
const REPORT: &str = "report.html";
/// Size of tar's blocks; two empty ones end an archive.
const BLOCK: usize = 512;
const SIGNATURE: &str = "bundle.sig";

/// What is in a bundle: its first file, and all that is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contents {
    /// `burnin/bundle/v1`.
    pub schema: String,
    /// The run.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// How it ended.
    pub conclusion: String,
    /// What the measurements said; null when they were not judged.
    pub verdict: Option<Verdict>,
    /// Records of its ledger.
    pub records: u64,
    /// Version of the program that made the bundle.
    pub version: String,
    /// Whose signature it carries: an Ed25519 public key, base64.
    pub key: String,
    /// Every other file, by name.
    pub files: Vec<File>,
}

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct File {
    /// Its name in the archive.
    pub name: String,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// SHA-256, hex.
    pub sha256: String,
}

/// What bundles are signed with.
pub struct Key(SigningKey);

impl Key {
    /// A key as `openssl genpkey -algorithm ed25519` writes it.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(pem: &str) -> Result<Self, &'static str> {
        SigningKey::from_pkcs8_pem(pem).map(Self).map_err(|_| {
            "expected an Ed25519 private key in PKCS #8 PEM; `openssl genpkey -algorithm ed25519` makes one"
        })
    }

    fn public(&self) -> String {
        STANDARD.encode(self.0.verifying_key().as_bytes())
    }
}

/// A key that whoever checks a bundle trusts.
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// A key as `openssl pkey -pubout` writes it.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(pem: &str) -> Result<Self, &'static str> {
        VerifyingKey::from_public_key_pem(pem)
            .map(Self)
            .map_err(|_| "expected an Ed25519 public key in PEM; `openssl pkey -in KEY -pubout` writes it")
    }
}
