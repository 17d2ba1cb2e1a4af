//! Logs named on the command line.

use std::{
    fs,
    path::{Path, PathBuf},
};

use model::measurement::Reading;
use verdict::Clues;

use crate::{commands::parse, exit::Error};

/// The named files, in order: a folder stands for every regular file in it, by name.
pub fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let entries =
            entries.map_err(|error| Error::usage(format!("{}: cannot be read: {error}", path.display())))?;
        let mut found: Vec<_> =
            entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        if found.is_empty() {
            return Err(Error::usage(format!("{}: the folder has no files; name the logs", path.display())));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

/// Local time at which the log's only table was made: from its JSON, or from the first row with a time.
pub fn started(reading: &Reading) -> Option<&str> {
    let [table] = reading.tables.as_slice() else { return None };
    let row = || table.rows.iter().find_map(|row| row.timestamp.as_deref());
    table.started_at.as_deref().or_else(row)
}

/// Maximum number of rows of several logs, which are all in memory until the last is read. Hundreds of real logs stay below
/// it; a few logs made to fill the memory do not.
pub struct Room {
    rows: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { rows: 50_000 }
    }
}

impl Room {
    /// Takes the rows of a log.
    ///
    /// # Errors
    /// Returns a usage error if the maximum is exceeded.
    pub fn take(&mut self, log: &Path, reading: &Reading) -> Result<(), Error> {
        let rows = reading.tables.iter().map(|table| table.rows.len()).sum();
        let left = self.rows.checked_sub(rows).ok_or_else(|| {
            Error::usage(format!(
                "{}: with its {rows} rows the logs have more than {} in all; take fewer logs at a time",
                log.display(),
                Self::default().rows
            ))
        });
        left.map(|left| self.rows = left)
    }
}

/// A log's reading and clues, with the log's name at every line where there are several logs.
pub fn heard(log: &Path, named: bool) -> Result<(Reading, Clues), Error> {
    let (reading, clues) = parse::listen(log)?;
    if !named {
        return Ok((reading, clues));
    }
    let mut with_name = Clues::default();
    with_name.add(&log.display().to_string(), clues);
    Ok((reading, with_name))
}
