//! Keys for ssh between the pods of one job, and for nothing else.

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use service::PortError;

/// A fresh private key, as PEM that OpenSSH reads.
///
/// # Errors
/// When the machine has no randomness.
pub fn private_key() -> Result<String, PortError> {
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
    let made = made.map_err(|_| PortError::Passing("no key for ssh could be made".to_owned()))?;
    let text = BASE64_STANDARD.encode(made.as_ref());
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n");
    Ok(format!("-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\n", lines.collect::<String>()))
}
