//! Checking a bundle, with nothing but itself and a key.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signature, VerifyingKey};
use machine::fold;
use sha2::{Digest, Sha256};
use terms::Record;

use crate::{CONTENTS, Contents, PublicKey, SCHEMA, SIGNATURE};

/// The largest first file that is read: some hundred thousand files fit.
const MOST_CONTENTS: u64 = 64 << 20;
/// The largest record of a ledger.
const MOST_RECORD: u64 = 16 << 20;

/// Why a bundle proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// It is none.
    #[error("this is no bundle: {0}")]
    NoBundle(String),
    /// It was changed after it was signed, or signed by nobody.
    #[error("the signature is not that of its key: what it says was changed after it was signed")]
    Signature,
    /// It is signed, but not with the key that is trusted.
    #[error("it is signed with another key than the one that is trusted: {0}")]
    Stranger(String),
    /// A file is not what was signed.
    #[error("{name}: {why}")]
    File {
        /// The file.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The ledger does not say what the bundle says.
    #[error("the ledger: {0}")]
    Ledger(String),
}

/// A bundle that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What is in it.
    pub contents: Contents,
    /// It was signed with the key that is trusted; without one, that is not known.
    pub trusted: bool,
}

/// Checks every byte of a bundle: the signature, each file's digest, that none is missing and none is there besides, and
/// that the ledger says what the bundle says of the run. Streams: logs of any size take no memory.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify(bundle: impl Read, trusted: Option<&PublicKey>) -> Result<Checked, Broken> {
    let no_bundle = |error: io::Error| Broken::NoBundle(error.to_string());
    let mut archive = tar::Archive::new(bundle);
    let mut entries = archive.entries().map_err(no_bundle)?;
    let mut next = |expected: &str, most: u64| {
        let missing = || Broken::NoBundle(format!("{expected} is missing"));
        let mut entry = entries.next().ok_or_else(missing)?.map_err(no_bundle)?;
        if entry.path_bytes().as_ref() != expected.as_bytes() {
            return Err(missing());
        }
        let mut body = Vec::new();
        let read = entry.by_ref().take(most).read_to_end(&mut body).map_err(no_bundle)?;
        if read as u64 == most { Err(missing()) } else { Ok(body) }
    };
    let body = next(CONTENTS, MOST_CONTENTS)?;
    let signature = next(SIGNATURE, 1024)?;
    let contents: Contents =
        serde_json::from_slice(&body).map_err(|error| Broken::NoBundle(format!("{CONTENTS}: {error}")))?;
    if contents.schema != SCHEMA {
        return Err(Broken::NoBundle(format!("{CONTENTS}: its schema is not {SCHEMA}")));
    }
    signed(&contents, &body, &signature, trusted)?;

    let mut expected: BTreeMap<&str, &crate::File> =
        contents.files.iter().map(|file| (file.name.as_str(), file)).collect();
    let prefix = format!("ledger/{}/", contents.run);
    let mut records: BTreeMap<String, Record> = BTreeMap::new();
    for entry in entries {
        let mut entry = entry.map_err(no_bundle)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let wrong = |why: String| Broken::File { name: name.clone(), why };
        let file = expected.remove(name.as_str()).ok_or_else(|| wrong("nobody signed it".to_owned()))?;
        let mut kept = Vec::new();
        let keeps = name.starts_with(&prefix) && file.size_bytes <= MOST_RECORD;
        let mut hasher = Sha256::new();
        let mut piece = vec![0; 64 << 10];
        loop {
            let read = entry.read(&mut piece).map_err(|error| wrong(error.to_string()))?;
            if read == 0 {
                break;
            }
            hasher.update(&piece[..read]);
            if keeps {
                kept.extend_from_slice(&piece[..read]);
            }
        }
        let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if found != file.sha256 {
            return Err(wrong("it is not what was signed".to_owned()));
        }
        if name.starts_with(&prefix) {
            let record = serde_json::from_slice(&kept).map_err(|error| wrong(error.to_string()))?;
            records.insert(name, record);
        }
    }
    if let Some(name) = expected.keys().next() {
        return Err(Broken::File { name: (*name).to_owned(), why: "it is missing".to_owned() });
    }
    told(&contents, records.values())?;
    Ok(Checked { trusted: trusted.is_some(), contents })
}

fn signed(
    contents: &Contents,
    body: &[u8],
    signature: &[u8],
    trusted: Option<&PublicKey>,
) -> Result<(), Broken> {
    let key = STANDARD.decode(&contents.key).ok().and_then(|key| <[u8; 32]>::try_from(key).ok());
    let key = key.and_then(|key| VerifyingKey::from_bytes(&key).ok()).ok_or(Broken::Signature)?;
    let signature = STANDARD.decode(signature).ok().and_then(|bytes| Signature::from_slice(&bytes).ok());
    let signature = signature.ok_or(Broken::Signature)?;
    key.verify_strict(body, &signature).map_err(|_| Broken::Signature)?;
    match trusted {
        Some(trusted) if trusted.0 != key => Err(Broken::Stranger(contents.key.clone())),
        _ => Ok(()),
    }
}

fn told<'a>(contents: &Contents, records: impl Iterator<Item = &'a Record>) -> Result<(), Broken> {
    let records: Vec<&Record> = records.collect();
    let state = fold(records.iter().copied()).map_err(|error| Broken::Ledger(error.to_string()))?;
    let conclusion = state.closed.and(state.settled.as_ref()).map(|(conclusion, _)| conclusion.as_str());
    let says = (
        &state.run,
        records.len() as u64,
        conclusion,
        state.verdict().map(|reached| reached.verdict),
        state.requested_at,
    );
    let said = (
        &contents.run,
        contents.records,
        Some(contents.conclusion.as_str()),
        contents.verdict,
        contents.requested_at,
    );
    if says == said {
        Ok(())
    } else {
        Err(Broken::Ledger(format!("it says {says:?}, the bundle says {said:?}")))
    }
}
