//! Verifies a bundle offline, with only a key.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signature, VerifyingKey};
use lifecycle::fold;
use model::Record;
use sha2::{Digest, Sha256};

use crate::{
    BLOCK, BundleFile, CONTENTS, Contents, HANDOVER, PublicKey, REPORT, SCHEMA, SIGNATURE, header, padding,
};

/// Maximum size of the first file; a list of several hundred thousand files fits.
const MOST_CONTENTS: u64 = 64 << 20;
/// Maximum size of a ledger record.
const MOST_RECORD: u64 = 16 << 20;

/// Reason why a bundle is invalid.
#[derive(Debug, thiserror::Error)]
pub enum InvalidBundle {
    /// The file is not a bundle.
    #[error("not a bundle: {0}")]
    NoBundle(String),
    /// The content was changed after signing, or was not signed with the bundle's key.
    #[error("the signature does not match the content and key of the bundle; get an unchanged copy")]
    Signature,
    /// The key of the signature is not the trusted one.
    #[error("the bundle is signed with the key {0}, not with the trusted key")]
    OtherKey(String),
    /// A file differs from the signed list.
    #[error("{name}: {why}")]
    File {
        /// Name in the archive.
        name: String,
        why: String,
    },
    /// The ledger contradicts the bundle.
    #[error("the ledger: {0}")]
    Ledger(String),
}

/// A valid bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedBundle {
    /// The bundle's list of content.
    pub contents: Contents,
    /// Whether it was signed with the trusted key; `false` if none was given.
    pub trusted: bool,
}

/// Verifies every byte of a bundle: the signature, the header and digest of each file, that no file is
/// missing or added, that no data follows the end, and that the ledger agrees with the bundle. Streams, so
/// memory does not depend on the size of the logs.
///
/// Equal files always result in an equal archive. Headers are therefore compared rather than parsed: a
/// different type, mode, owner, time or link target is an error.
///
/// # Errors
/// Returns an error with the first problem if the bundle is invalid.
pub fn verify(bundle: impl Read, trusted: Option<&PublicKey>) -> Result<VerifiedBundle, InvalidBundle> {
    let mut archive = ArchiveReader { bytes: bundle };
    let body = archive.small(CONTENTS, MOST_CONTENTS)?;
    let signature = archive.small(SIGNATURE, 1024)?;
    let contents: Contents = serde_json::from_slice(&body)
        .map_err(|error| InvalidBundle::NoBundle(format!("{CONTENTS}: {error}")))?;
    if contents.schema != SCHEMA {
        return Err(InvalidBundle::NoBundle(format!(
            "{CONTENTS}: expected the schema {SCHEMA}, found {}",
            contents.schema
        )));
    }
    signed(&contents, &body, &signature, trusted)?;
    check_names(&contents)?;

    let prefix = format!("ledger/{}/", contents.run);
    let mut records: BTreeMap<&str, Record> = BTreeMap::new();
    for file in &contents.files {
        let wrong = |why: &str| InvalidBundle::File { name: file.name.clone(), why: why.to_owned() };
        archive.header(&file.name, file.size_bytes)?;
        let mut kept = Vec::new();
        let keeps = file.name.starts_with(&prefix) && file.size_bytes <= MOST_RECORD;
        let mut hasher = Sha256::new();
        archive.content(&file.name, file.size_bytes, |piece| {
            hasher.update(piece);
            if keeps {
                kept.extend_from_slice(piece);
            }
        })?;
        let found = hex::encode(hasher.finalize());
        if found != file.sha256 {
            return Err(wrong("its content differs from the signed digest"));
        }
        if file.name.starts_with(&prefix) {
            let record = serde_json::from_slice(&kept).map_err(|error| wrong(&error.to_string()))?;
            records.insert(&file.name, record);
        }
    }
    archive.end()?;
    check_artifacts(&contents, records.values())?;
    Ok(VerifiedBundle { trusted: trusted.is_some(), contents })
}

/// Checks that all names belong to a bundle of this run and occur once, so that unpacking cannot write
/// elsewhere.
fn check_names(contents: &Contents) -> Result<(), InvalidBundle> {
    let folders = [format!("artefacts/{}/", contents.run), format!("ledger/{}/", contents.run)];
    let mut seen = BTreeSet::new();
    for BundleFile { name, .. } in &contents.files {
        let wrong = |why: &str| Err(InvalidBundle::File { name: name.clone(), why: why.to_owned() });
        let inside = [HANDOVER, REPORT].contains(&name.as_str())
            || folders.iter().any(|folder| name.starts_with(folder));
        if !inside || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return wrong("a bundle of this run cannot contain a file of this name");
        }
        if !seen.insert(name) {
            return wrong("it is listed twice");
        }
    }
    Ok(())
}

/// Reader of an archive in the exact form that [`crate::write()`] writes.
struct ArchiveReader<R> {
    bytes: R,
}

impl<R: Read> ArchiveReader<R> {
    /// Reads one of the first two files, at most `most` bytes. The signed list lacks their sizes, so the size in the tar header is used.
    fn small(&mut self, name: &str, most: u64) -> Result<Vec<u8>, InvalidBundle> {
        let no_bundle = |why: &str| InvalidBundle::NoBundle(format!("{name}: {why}"));
        let mut block = [0; BLOCK];
        self.bytes.read_exact(&mut block).map_err(|error| no_bundle(&error.to_string()))?;
        let size = tar::Header::from_byte_slice(&block)
            .entry_size()
            .map_err(|error| no_bundle(&error.to_string()))?;
        if size > most || header(name, size).map_err(|error| no_bundle(&error.to_string()))? != block {
            return Err(no_bundle("it is missing, or its header in the archive was changed"));
        }
        let mut body = Vec::new();
        self.content(name, size, |piece| body.extend_from_slice(piece))?;
        Ok(body)
    }

    fn header(&mut self, name: &str, size: u64) -> Result<(), InvalidBundle> {
        let wrong = |why: String| InvalidBundle::File { name: name.to_owned(), why };
        let expected = header(name, size).map_err(|error| wrong(error.to_string()))?;
        let mut found = vec![0; expected.len()];
        self.bytes.read_exact(&mut found).map_err(|error| wrong(format!("it is missing: {error}")))?;
        if found == expected {
            return Ok(());
        }
        let why = "it is missing, or its header in the archive (name, size, type, mode, owner, time or link) was changed";
        Err(wrong(why.to_owned()))
    }

    /// Reads the content of an entry in chunks, and its padding.
    fn content(&mut self, name: &str, size: u64, mut take: impl FnMut(&[u8])) -> Result<(), InvalidBundle> {
        let wrong = |why: String| InvalidBundle::File { name: name.to_owned(), why };
        let mut piece = vec![0; 64 << 10];
        let mut left = size;
        while left > 0 {
            let some = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            let read = self.bytes.read_exact(&mut piece[..some]);
            read.map_err(|error| wrong(format!("it is truncated: {error}")))?;
            take(&piece[..some]);
            left -= some as u64;
        }
        let mut zeros = [0; BLOCK];
        let zeros = &mut zeros[..padding(size)];
        self.bytes.read_exact(zeros).map_err(|error| wrong(format!("it is truncated: {error}")))?;
        if zeros.iter().any(|byte| *byte != 0) {
            return Err(wrong("unsigned bytes follow its content".to_owned()));
        }
        Ok(())
    }

    /// Expects two empty blocks and the end of the file.
    fn end(&mut self) -> Result<(), InvalidBundle> {
        let wrong = |why: &str| InvalidBundle::File {
            name: "the end of the archive".to_owned(),
            why: why.to_owned(),
        };
        let mut rest = Vec::new();
        let read = self.bytes.by_ref().take(2 * BLOCK as u64 + 1).read_to_end(&mut rest);
        read.map_err(|error| wrong(&error.to_string()))?;
        match (rest.len() == 2 * BLOCK, rest.iter().all(|byte| *byte == 0)) {
            (true, true) => Ok(()),
            (false, true) if rest.len() < 2 * BLOCK => Err(wrong("it is missing")),
            _ => Err(wrong("unsigned bytes follow")),
        }
    }
}

fn signed(
    contents: &Contents,
    body: &[u8],
    signature: &[u8],
    trusted: Option<&PublicKey>,
) -> Result<(), InvalidBundle> {
    let key = STANDARD.decode(&contents.key).ok().and_then(|key| <[u8; 32]>::try_from(key).ok());
    let key = key.and_then(|key| VerifyingKey::from_bytes(&key).ok()).ok_or(InvalidBundle::Signature)?;
    let signature = STANDARD.decode(signature).ok().and_then(|bytes| Signature::from_slice(&bytes).ok());
    let signature = signature.ok_or(InvalidBundle::Signature)?;
    key.verify_strict(body, &signature).map_err(|_| InvalidBundle::Signature)?;
    match trusted {
        Some(trusted) if trusted.0 != key => Err(InvalidBundle::OtherKey(contents.key.clone())),
        _ => Ok(()),
    }
}

fn check_artifacts<'a>(
    contents: &Contents,
    records: impl Iterator<Item = &'a Record>,
) -> Result<(), InvalidBundle> {
    let records: Vec<&Record> = records.collect();
    let state = fold(records.iter().copied()).map_err(|error| InvalidBundle::Ledger(error.to_string()))?;
    let conclusion = state.closed.and(state.settled.as_ref()).map(|(conclusion, _)| conclusion.as_str());
    let recorded = (
        &state.run,
        records.len() as u64,
        conclusion,
        state.verdict().map(|reached| reached.verdict),
        state.requested_at,
    );
    let listed = (
        &contents.run,
        contents.records,
        Some(contents.conclusion.as_str()),
        contents.verdict,
        contents.requested_at,
    );
    if recorded == listed {
        Ok(())
    } else {
        Err(InvalidBundle::Ledger(format!(
            "run, records, conclusion, verdict and start are {recorded:?}, but {CONTENTS} lists {listed:?}"
        )))
    }
}
