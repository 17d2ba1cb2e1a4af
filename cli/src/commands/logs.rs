//! Logs named on the command line.

use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use model::measurement::Reading;
use verdict::Clues;

use crate::{
    commands::{
        parse::{self, ReadFormat},
        status,
    },
    exit::CliError,
};

/// Maximum depth of folders below a folder of the command line.
const DEEPEST: usize = 32;

/// The named files, in order; a folder is replaced by all regular files in it and below, sorted by path. Hidden files
/// and folders are skipped, as are pipes and devices: their content is not a log, and reading them could wait forever.
pub fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            if fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
                status(format_args!("{}: a pipe; waiting for its content", path.display()));
            }
            files.push(path.clone());
            continue;
        }
        let mut found = Vec::new();
        below(path, DEEPEST, &mut found)?;
        if found.is_empty() {
            return Err(CliError::usage(format!(
                "{}: the folder has no files; name the logs",
                path.display()
            )));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

/// Adds the regular files of a folder and its subfolders. Links to folders are not followed: they may form a cycle.
fn below(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let cannot =
        |error: std::io::Error| CliError::usage(format!("{}: cannot be read: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(cannot)?);
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() {
            if depth == 0 {
                return Err(CliError::usage(format!("{}: more than {DEEPEST} folders deep", path.display())));
            }
            below(&path, depth - 1, found)?;
        } else if path.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

/// Local start time of the log's only table: from its JSON, or from the first row with a time.
pub fn started(reading: &Reading) -> Option<&str> {
    let [table] = reading.tables.as_slice() else { return None };
    let row = || table.rows.iter().find_map(|row| row.timestamp.as_deref());
    table.started_at.as_deref().or_else(row)
}

/// Maximum number of rows of several logs, which all stay in memory until the last is read. Hundreds of real logs stay
/// below it; logs crafted to exhaust memory exceed it.
pub struct RowLimit {
    rows: usize,
}

impl Default for RowLimit {
    fn default() -> Self {
        Self { rows: 50_000 }
    }
}

impl RowLimit {
    /// Counts the rows of a log.
    ///
    /// # Errors
    /// Returns an error if the maximum is exceeded.
    pub fn take(&mut self, log: &Path, reading: &Reading) -> Result<(), CliError> {
        let rows: usize = reading.tables.iter().map(|table| table.rows.len()).sum();
        let rows = rows + reading.metrics.len() + reading.findings.len();
        let left = self.rows.checked_sub(rows).ok_or_else(|| {
            CliError::usage(format!(
                "{}: its {rows} rows exceed the maximum of {} rows over all logs; name fewer logs",
                log.display(),
                Self::default().rows
            ))
        });
        left.map(|left| self.rows = left)
    }
}

/// A log's reading and clues; with several logs, every line is prefixed with the log's name.
pub fn read_log(log: &Path, format: &ReadFormat, named: bool) -> Result<(Reading, Clues), CliError> {
    let (reading, clues) = parse::listen(log, format)?;
    if !named {
        return Ok((reading, clues));
    }
    let mut with_name = Clues::default();
    with_name.add(&log.display().to_string(), clues);
    Ok((reading, with_name))
}
