//! Checks after all runs have ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use bigquery_standin::BigQuery;
use ledger::Ledger;
use lifecycle::RunState;
use model::{RunId, Verdict};
use warehouse::{Sqlite, Warehouse as _};

use crate::runs::{NODES, Requests, SIZES};

/// A closed run.
pub struct Ended {
    pub run: RunId,
    pub records: usize,
    /// Number of repeated starts.
    pub attempts: u32,
}

/// A run's state and its number of records; `None` without a record.
pub async fn state(ledger: &Ledger, run: &RunId) -> Result<Option<(RunState, usize)>, String> {
    let loaded = ledger.load(run).await.map_err(|error| format!("{run}: {error}"))?;
    if loaded.records().is_empty() {
        return Ok(None);
    }
    let state = lifecycle::fold(loaded.records()).map_err(|error| format!("{run}: {error}"))?;
    Ok(Some((state, loaded.records().len())))
}

/// Checks a closed run.
pub fn run(
    requests: &Requests,
    run: &RunId,
    state: &RunState,
    records: usize,
    wrong: &mut Vec<String>,
) -> Ended {
    let mut say = |what: String| wrong.push(format!("{run}: {what}"));
    if state.verdict().map(|reached| reached.verdict) != Some(Verdict::Pass) {
        say(format!("{:?}, {:?}", state.settled, state.verdict()));
    }
    if !state.leases_returned() {
        say("its cluster is not released".to_owned());
    }
    // Each attempt starts each job once, and nothing failed: one attempt, one start.
    let attempts = state.leases.len();
    let mut expected: BTreeMap<String, usize> = (0..NODES).map(|rank| (format!("rank-{rank}"), 1)).collect();
    expected.insert("builds".to_owned(), 1);
    let counted = counted(&requests.counts(run));
    if counted != expected {
        say(format!("starts: expected {expected:?}, found {counted:?}; {attempts} lease(s)"));
    }
    Ended { run: run.clone(), records, attempts: attempts.saturating_sub(1) as u32 }
}

fn counted(folder: &Path) -> BTreeMap<String, usize> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |entry: fs::DirEntry| {
        let lines = fs::read_to_string(entry.path()).unwrap_or_default().lines().count();
        (entry.file_name().to_string_lossy().into_owned(), lines)
    };
    entries.map(count).collect()
}

/// Content of the services' warehouse, read independently of their code.
pub enum Warehouse {
    File(Sqlite),
    /// Content of BigQuery's tables.
    BigQuery {
        /// Number of measurements by run, size and placement.
        rows: BTreeMap<Vec<String>, u64>,
        /// Number of verdicts by run.
        verdicts: BTreeMap<Vec<String>, u64>,
    },
}

impl Warehouse {
    /// The current content.
    pub fn of(bigquery: &BigQuery) -> Result<Self, String> {
        let rows = bigquery.count("kill.burnin.measurements", &["run", "size_bytes", "placement"])?;
        let verdicts = bigquery.count("kill.burnin.verdicts", &["run"])?;
        Ok(Self::BigQuery { rows, verdicts })
    }

    /// Checks that each row of a run exists once, and one verdict.
    pub async fn check(&self, run: &RunId, wrong: &mut Vec<String>) -> Result<(), String> {
        let (rows, different, verdicts) = match self {
            Self::File(sqlite) => {
                let message = |error: warehouse::Error| format!("{run}: {error:?}");
                let rows = sqlite.rows(run.as_str()).await.map_err(message)?;
                let keys: BTreeSet<_> =
                    rows.iter().map(|row| (row.size_bytes, row.placement.clone())).collect();
                (rows.len(), keys.len(), sqlite.verdicts(run.as_str()).await.map_err(message)?.len())
            }
            Self::BigQuery { rows, verdicts } => {
                let of = |counted: &BTreeMap<Vec<String>, u64>| {
                    let these = counted.iter().filter(|(key, _)| key[0] == run.as_str());
                    these.fold((0, 0), |(all, keys), (_, count)| (all + *count as usize, keys + 1))
                };
                let (all, keys) = of(rows);
                (all, keys, of(verdicts).0)
            }
        };
        // Two placements: out of place, in place.
        if (rows, different) != (SIZES * 2, SIZES * 2) {
            wrong.push(format!(
                "{run}: expected each row once, found {rows} rows, {different} of them distinct"
            ));
        }
        if verdicts != 1 {
            wrong.push(format!("{run}: expected 1 verdict in the warehouse, found {verdicts}"));
        }
        Ok(())
    }
}

/// Checks that no process with the folder's name runs, except the services.
pub fn left_running(folder: &Path) -> Vec<String> {
    let mark = folder.display().to_string();
    let mut left = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let bytes = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&bytes).replace('\0', " ");
        if pid != std::process::id() && command.contains(&mark) {
            left.push(format!("{pid}: {command}"));
        }
    }
    left
}
