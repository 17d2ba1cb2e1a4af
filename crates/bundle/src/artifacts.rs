//! Compares the artifacts of a run with its manifests and its ledger, so that a signature confirms only
//! unchanged artifacts.

use std::collections::{BTreeMap, BTreeSet};

use lifecycle::RunState;
use model::{Fact, Image, Manifest, Reason, Record, RecordEntry, Verdict};
use serde::Deserialize;

use crate::{BundleError, BundleFile};

const MANIFEST: &str = "manifest.json";

/// The parts of a stored verdict that the ledger repeats.
#[derive(Deserialize)]
struct JudgedFiles {
    verdict: Verdict,
    reasons: Vec<Reason>,
}

/// Compares every artifact with the manifest of its folder and with the ledger. `files` are all objects with their digests,
/// `small` the contents of those that [`is_needed`] names. Returns objects that the manifest of their folder does not list:
/// an interrupted attempt left them, and they are not artifacts.
pub(crate) fn check(
    files: &[BundleFile],
    small: &BTreeMap<String, Vec<u8>>,
    records: &[Record],
    state: &RunState,
) -> Result<BTreeSet<String>, BundleError> {
    let digests: BTreeMap<&str, &BundleFile> = files.iter().map(|file| (file.name.as_str(), file)).collect();
    let checker = Checker { digests, small };
    let left_over = checker.manifests(&format!("artefacts/{}/", state.run))?;
    for record in records {
        let RecordEntry::Accepted { fact, .. } = &record.entry else { continue };
        match &**fact {
            Fact::ImageBuilt(image) => checker.image(image)?,
            Fact::LogsCollected(logs) => checker.is(&logs.manifest, &logs.sha256, "the ledger")?,
            Fact::VerdictReached(reached) => {
                let name = &reached.object;
                let wrong = |why: &str| changed(name, why);
                let body = small.get(name).ok_or_else(|| wrong("it is missing, but the ledger names it"))?;
                let judged: JudgedFiles =
                    serde_json::from_slice(body).map_err(|error| changed(name, &error.to_string()))?;
                if (judged.verdict, &judged.reasons) != (reached.verdict, &reached.reasons) {
                    return Err(wrong("its verdict or reasons differ from the ledger's"));
                }
                if let Some(file) = &reached.measurements {
                    checker.is(&file.object, &file.sha256, "the ledger")?;
                }
            }
            _ => {}
        }
    }
    Ok(left_over)
}

/// Whether the content of an object is needed by [`check`].
pub(crate) fn is_needed(name: &str, records: &[Record]) -> bool {
    let is_verdict = records.iter().any(|record| match &record.entry {
        RecordEntry::Accepted { fact, .. } => {
            matches!(&**fact, Fact::VerdictReached(reached) if reached.object == name)
        }
        _ => false,
    });
    is_verdict || name.ends_with("/manifest.json")
}

fn changed(name: &str, why: &str) -> BundleError {
    BundleError::Artifact { name: name.to_owned(), why: why.to_owned() }
}

struct Checker<'a> {
    digests: BTreeMap<&'a str, &'a BundleFile>,
    small: &'a BTreeMap<String, Vec<u8>>,
}

impl Checker<'_> {
    /// Returns an error if an object that a manifest lists is missing or changed, otherwise the unlisted objects in its folder.
    fn manifests(&self, prefix: &str) -> Result<BTreeSet<String>, BundleError> {
        let mut listed = BTreeSet::new();
        let mut folders = BTreeSet::new();
        for (name, body) in self.small.iter().filter(|(name, _)| name.starts_with(prefix)) {
            let Some(folder) = name.strip_suffix(MANIFEST) else { continue };
            let manifest: Manifest =
                serde_json::from_slice(body).map_err(|error| changed(name, &error.to_string()))?;
            folders.insert(folder.to_owned());
            listed.insert(name.clone());
            for object in &manifest.objects {
                let full = format!("{folder}{}", object.name);
                self.is(&full, &object.sha256, name)?;
                listed.insert(full);
            }
        }
        let in_folder = |name: &&&str| folders.iter().any(|folder| name.starts_with(folder.as_str()));
        let others = self.digests.keys().filter(in_folder).map(|name| (*name).to_owned());
        Ok(others.filter(|name| !listed.contains(name)).collect())
    }

    fn image(&self, image: &Image) -> Result<(), BundleError> {
        if !image.reference.starts_with("artefacts/") {
            return Ok(()); // the image is in a registry, identified by its digest
        }
        if let Some(sha256) = &image.manifest_sha256 {
            self.is(&format!("{}{MANIFEST}", image.reference), sha256, "the ledger")?;
        }
        let mut files = image.files.iter();
        files.try_for_each(|file| {
            self.is(&format!("{}{}", image.reference, file.name), &file.sha256, "the ledger")
        })
    }

    fn is(&self, name: &str, sha256: &str, source: &str) -> Result<(), BundleError> {
        match self.digests.get(name) {
            Some(found) if found.sha256 == sha256 => Ok(()),
            Some(_) => Err(changed(name, &format!("its digest differs from the one in {source}"))),
            None => Err(changed(name, &format!("it is missing, but {source} names it"))),
        }
    }
}
