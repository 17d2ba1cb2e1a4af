//! Finds and reads the logs named on the command line, with limits that bound the memory.

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
/// and folders are skipped, as are pipes and devices: their content is not a log, and reading them could block indefinitely.
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
                "{}: the folder has no files, except hidden ones; name the logs",
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
                return Err(CliError::usage(format!(
                    "{}: more than {DEEPEST} levels below the named folder; name a lower folder",
                    path.display()
                )));
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

/// Maximum number of table rows and findings of several logs, which all stay in memory until the last is read. Hundreds of real logs
/// stay below it; logs crafted to exhaust memory exceed it.
const ROWS: usize = 50_000;
/// Maximum number of metrics of several logs, about 120 MB. 2,048 nodes with 24 metrics of each of 8 GPUs have 393,216.
const METRICS: usize = 500_000;

/// Number of rows and metrics that may still be read.
pub struct RowLimit {
    rows: usize,
    metrics: usize,
}

impl Default for RowLimit {
    fn default() -> Self {
        Self { rows: ROWS, metrics: METRICS }
    }
}

impl RowLimit {
    /// Counts the rows and metrics of a log.
    ///
    /// # Errors
    /// Returns an error if the maximum is exceeded.
    pub fn take(&mut self, log: &Path, reading: &Reading) -> Result<(), CliError> {
        let rows: usize = reading.tables.iter().map(|table| table.rows.len()).sum();
        take(&mut self.rows, rows + reading.findings.len(), log, (ROWS, "rows"))?;
        take(&mut self.metrics, reading.metrics.len(), log, (METRICS, "metrics"))
    }
}

fn take(left: &mut usize, count: usize, log: &Path, (most, what): (usize, &str)) -> Result<(), CliError> {
    *left = left.checked_sub(count).ok_or_else(|| {
        CliError::usage(format!(
            "{}: {count} more {what} exceed the maximum of {most} {what} in all logs together; name fewer logs",
            log.display()
        ))
    })?;
    Ok(())
}

/// A parsed log and its clues. With several logs (`named`), every clue is prefixed with the log's name.
pub fn read_log(log: &Path, format: &ReadFormat, named: bool) -> Result<(Reading, Clues), CliError> {
    let (reading, clues) = parse::read_with_clues(log, format)?;
    if !named {
        return Ok((reading, clues));
    }
    let mut with_name = Clues::default();
    with_name.add(&log.display().to_string(), clues);
    Ok((reading, with_name))
}

#[cfg(test)]
mod tests {
    use model::{
        measurement::Row,
        metric::{Better, Metric, Scope, Subject},
    };

    use super::*;

    fn metrics(count: usize) -> Reading {
        let metric = Metric {
            name: "copy".into(),
            unit: "GB/s".into(),
            better: Better::Higher,
            scope: Scope::Gpu,
            subject: Subject::gpu(0),
            labels: Default::default(),
            value: Some(1.0),
            resolution: None,
            unmeasurable: None,
            line: 1,
        };
        Reading { metrics: vec![metric; count], ..Reading::default() }
    }

    #[test]
    fn the_metrics_of_2048_nodes_are_read_and_metrics_beyond_the_maximum_are_refused() {
        let (mut room, log, of_a_node) = (RowLimit::default(), Path::new("n1.log"), metrics(8 * 24));
        for _ in 0..2_048 {
            room.take(log, &of_a_node).unwrap();
        }
        let error = (0..2_048).find_map(|_| room.take(log, &of_a_node).err()).unwrap();
        assert!(error.message.contains("maximum of 500000 metrics"), "{}", error.message);
    }

    #[test]
    fn metrics_do_not_count_toward_the_maximum_of_rows() {
        let table = |rows| nccl_table(vec![Row::default(); rows]);
        let (mut room, log) = (RowLimit::default(), Path::new("table.log"));
        room.take(log, &metrics(400_000)).unwrap();
        room.take(log, &table(ROWS)).unwrap();
        let error = room.take(log, &table(1)).unwrap_err();
        assert!(error.message.contains("maximum of 50000 rows"), "{}", error.message);
    }

    fn nccl_table(rows: Vec<Row>) -> Reading {
        let mut reading = nccl::read_bytes(b"# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n# Using devices\n");
        assert_eq!(reading.tables.len(), 1);
        reading.tables[0].rows = rows;
        reading
    }
}
