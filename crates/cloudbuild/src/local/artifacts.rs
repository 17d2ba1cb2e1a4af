use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::config::ArtifactObjects;

use super::Artifact;

/// Measures the files that match the globs.
///
/// Cloud Build copies files to one folder of a bucket and keeps only the last part of each path. There, a pattern without a match fails and
/// two files with one name lose a file; both cases are errors here.
pub(super) fn collect(workspace: &Path, objects: &ArtifactObjects) -> Result<Vec<Artifact>, String> {
    let root = workspace
        .canonicalize()
        .map_err(|error| format!("cannot read the workspace {}: {error}", workspace.display()))?;
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    for pattern in &objects.paths {
        let files = matching(&root, pattern)?;
        if files.is_empty() {
            return Err(format!(
                "artifacts.objects.paths: no file matches {pattern:?}; correct the pattern, or write the file in a step"
            ));
        }
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(other) = found.insert(name.clone(), file.clone()).filter(|other| *other != file) {
                return Err(format!(
                    "artifacts.objects.paths: {} and {} would both be stored as {name:?}; rename one",
                    other.display(),
                    file.display()
                ));
            }
        }
    }
    found
        .into_iter()
        .map(|(name, path)| {
            let (size_bytes, sha256) =
                measure(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(Artifact { path, name, size_bytes, sha256 })
        })
        .collect()
}

fn matching(root: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let root_text = root.to_str().ok_or_else(|| {
        format!("the path of the workspace {} is not UTF-8; rename the folder", root.display())
    })?;
    let whole = format!("{}/{pattern}", glob::Pattern::escape(root_text));
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    let paths = glob::glob_with(&whole, options).map_err(|error| error.to_string())?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| error.to_string())?;
        let real = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        if !real.starts_with(root) {
            return Err(format!(
                "artifacts.objects.paths: {} is outside the workspace; copy the file into it",
                path.display()
            ));
        }
        if real.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

fn measure(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut size = 0;
    let mut chunk = vec![0; 64 << 10];
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            return Ok((size, hex::encode(hash.finalize())));
        }
        hash.update(&chunk[..length]);
        size += length as u64;
    }
}
