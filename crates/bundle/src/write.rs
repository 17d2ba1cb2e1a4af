//! Writes a bundle: a signed list of content, and the files of the run.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use ed25519_dalek::Signer;
use ledger::{Digest, Digester, Store};
use lifecycle::fold;
use model::{Record, RunId};
use tokio::io::AsyncReadExt;
use tokio_util::io::SyncIoBridge;

use crate::{
    BLOCK, BundleError, BundleFile, BundleKey, CONTENTS, Contents, HANDOVER, REPORT, SCHEMA, SIGNATURE,
    artifacts, header, padding,
};

/// Maximum size of a manifest or verdict, which are read completely.
const MOST_SMALL: u64 = 64 << 20;

/// Documents about a run for people, in a bundle.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// The report's HTML page.
    pub report: String,
    /// The hand-over document, Markdown; `None` if the run has no benchmark and no checks.
    pub handover: Option<String>,
}

/// Writes a closed run's bundle to `path`, atomically.
///
/// # Errors
/// Returns an error if the run is not closed, an object cannot be read, or the file cannot be written.
pub async fn write(
    store: &Arc<dyn Store>,
    run: &RunId,
    documents: Documents,
    key: &BundleKey,
    path: &Path,
) -> Result<Contents, BundleError> {
    let damaged = |why: String| BundleError::Damaged { run: run.clone(), why };
    let mut names = store.list(&format!("artefacts/{run}/")).await?;
    let mut records = store.list(&format!("ledger/{run}/")).await?;
    records.sort(); // by number, because the names have leading zeros
    let mut ledger: Vec<Record> = Vec::new();
    for name in &records {
        let body = store.read(name).await?.unwrap_or_default();
        ledger.push(serde_json::from_slice(&body).map_err(|error| damaged(format!("{name}: {error}")))?);
    }
    if ledger.is_empty() {
        return Err(BundleError::NoRun(run.clone()));
    }
    let state = fold(&ledger).map_err(|error| damaged(error.to_string()))?;
    let Some((conclusion, _)) = state.closed.and(state.settled.as_ref()) else {
        return Err(BundleError::Open(run.clone()));
    };
    names.extend(records);
    names.sort();
    let mut files = Vec::new();
    let mut small = BTreeMap::new();
    for name in names {
        let body = store.open(&name).await?.ok_or_else(|| BundleError::Changed(name.clone()))?;
        let mut digester = Digester::new(body);
        if artifacts::is_needed(&name, &ledger) {
            let mut content = Vec::new();
            (&mut digester).take(MOST_SMALL).read_to_end(&mut content).await?;
            small.insert(name.clone(), content);
        }
        tokio::io::copy(&mut digester, &mut tokio::io::sink()).await?;
        let Digest { size_bytes, sha256, .. } = digester.finish();
        files.push(BundleFile { name, size_bytes, sha256 });
    }
    let left_over = artifacts::check(&files, &small, &ledger, &state)?;
    files.retain(|file| !left_over.contains(&file.name));
    let handover = documents.handover.map(|text| (HANDOVER, text));
    let documents: Vec<_> = handover.into_iter().chain([(REPORT, documents.report)]).collect();
    for (name, text) in &documents {
        let Digest { size_bytes, sha256, .. } = Digest::of(text.as_bytes());
        files.push(BundleFile { name: (*name).to_owned(), size_bytes, sha256 });
    }
    let contents = Contents {
        schema: SCHEMA.to_owned(),
        run: run.clone(),
        workflow: state.workflow.name.clone(),
        requested_at: state.requested_at,
        conclusion: conclusion.as_str().to_owned(),
        verdict: state.verdict().map(|reached| reached.verdict),
        records: ledger.len() as u64,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        key: key.public(),
        files,
    };
    let body = serde_json::to_vec_pretty(&contents).map_err(io::Error::from)?;
    let signature = STANDARD.encode(key.0.sign(&body).to_bytes());

    // Write to a new file in the same folder, so that no existing file is changed and no link is followed before the
    // rename.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let draft = tempfile::Builder::new().prefix(".burnin-").suffix(".draft").tempfile_in(folder)?;
    let mut archive = tar::Builder::new(draft);
    append(&mut archive, CONTENTS, body.len() as u64, &body[..])?;
    append(&mut archive, SIGNATURE, signature.len() as u64, signature.as_bytes())?;
    for file in &contents.files {
        if let Some((name, text)) = documents.iter().find(|(name, _)| *name == file.name) {
            append(&mut archive, name, file.size_bytes, text.as_bytes())?;
            continue;
        }
        let body = store.open(&file.name).await?.ok_or_else(|| BundleError::Changed(file.name.clone()))?;
        let (name, size) = (file.name.clone(), file.size_bytes);
        let appending = tokio::task::spawn_blocking(move || {
            let mut bridge = SyncIoBridge::new(Digester::new(body));
            append(&mut archive, &name, size, io::Read::take(&mut bridge, size))?;
            Ok::<_, io::Error>((archive, bridge.into_inner().finish()))
        });
        let (back, digest) = appending.await.map_err(io::Error::other)??;
        archive = back;
        if digest.sha256 != file.sha256 {
            return Err(BundleError::Changed(file.name.clone()));
        }
    }
    let draft = archive.into_inner()?;
    draft.as_file().sync_all()?;
    draft.persist(path).map_err(|error| error.error)?;
    // A temporary file has mode 0600, but other users must be able to read a bundle.
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    Ok(contents)
}

fn append(
    archive: &mut tar::Builder<tempfile::NamedTempFile>,
    name: &str,
    size: u64,
    mut body: impl io::Read,
) -> io::Result<()> {
    let out = archive.get_mut();
    out.write_all(&header(name, size)?)?;
    let copied = io::copy(&mut body, out)?;
    if copied != size {
        let why = format!(
            "{name} changed while it was read: expected {size} bytes, found {copied}; export the run again"
        );
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    out.write_all(&[0; BLOCK][..padding(size)])
}
