//! ssh keys for the pods of one job.

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use service::PortError;

/// A fresh private key as PEM, readable by OpenSSH.
///
/// # Errors
/// Returns an error if the host has no randomness source.
pub fn private_key() -> Result<String, PortError> {
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
    let made = made.map_err(|_| PortError::Transient("cannot generate an ssh key".to_owned()))?;
    let text = BASE64_STANDARD.encode(made.as_ref());
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n");
    Ok(format!("-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\n", lines.collect::<String>()))
}
