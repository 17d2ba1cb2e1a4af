//! Logs as they are named on the command line.

use std::{
    fs,
    path::{Path, PathBuf},
};

use terms::measurement::Reading;
use verdict::Clues;

use crate::{commands::parse, exit::Error};

/// The files that are named, in order: a folder stands for every regular file in it, by name.
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

/// When a log states that its one table was made, local time: in its JSON, or in the first row that has a time.
pub fn started(reading: &Reading) -> Option<&str> {
    let [table] = reading.tables.as_slice() else { return None };
    let row = || table.rows.iter().find_map(|row| row.timestamp.as_deref());
    table.started_at.as_deref().or_else(row)
}

/// Room for the rows of several logs, which are all held until the last is read. Hundreds of real logs find room in it;
/// a few that somebody made to fill the memory do not.
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
    /// When there is no room for them.
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

/// What a log measured and what else it says; with the log's name at every line where there are several.
pub fn heard(log: &Path, named: bool) -> Result<(Reading, Clues), Error> {
    let (reading, clues) = parse::listen(log)?;
    if !named {
        return Ok((reading, clues));
    }
    let mut with_name = Clues::default();
    with_name.add(&log.display().to_string(), clues);
    Ok((reading, with_name))
}
