//! Checks after all runs have ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use bigquery_standin::BigQueryStandIn;
use ledger::Ledger;
use lifecycle::RunState;
use model::{RunId, Verdict};
use warehouse::{Sqlite, Warehouse as _};

/// A closed run, with the number of its records and of its repeated starts.
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

/// Checks the verdict of a closed run, and that its clusters are released.
pub fn ended(state: &RunState, records: usize, expected: Verdict, wrong: &mut Vec<String>) -> Ended {
    let run = &state.run;
    if state.verdict().map(|reached| reached.verdict) != Some(expected) {
        wrong.push(format!("{run}: expected {expected:?}, found {:?}, {:?}", state.settled, state.verdict()));
    }
    if !state.leases_returned() {
        wrong.push(format!("{run}: its cluster is not released"));
    }
    Ended { run: run.clone(), records, attempts: state.leases.len().saturating_sub(1) as u32 }
}

/// Objects that exist only while a run, a request or a notice is open, and parked events.
pub fn left_in_store(names: impl IntoIterator<Item = String>) -> Vec<String> {
    const PREFIXES: [&str; 5] = ["parked/", "open/", "requests/open/", "clusters/open/", "notices/open/"];
    let mut left: Vec<_> = names.into_iter().collect();
    left.retain(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    left
}

/// Content of the services' warehouse, read independently of their code.
pub enum LoadedRows {
    File(Sqlite),
    /// Content of BigQuery's tables.
    BigQuery {
        /// Number of measurements by run, size and placement.
        rows: BTreeMap<Vec<String>, u64>,
        /// Number of verdicts by run.
        verdicts: BTreeMap<Vec<String>, u64>,
    },
}

impl LoadedRows {
    /// The current content of a dataset, by its full name.
    pub fn of(bigquery: &BigQueryStandIn, dataset: &str) -> Result<Self, String> {
        let columns = ["run", "size_bytes", "placement"];
        let rows = bigquery.count(&format!("{dataset}.measurements"), &columns)?;
        let verdicts = bigquery.count(&format!("{dataset}.verdicts"), &["run"])?;
        Ok(Self::BigQuery { rows, verdicts })
    }

    /// Checks that a run has one verdict, and each of the `expected` measurements once.
    pub async fn check(&self, run: &RunId, expected: usize, wrong: &mut Vec<String>) -> Result<(), String> {
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
        if (rows, different) != (expected, expected) {
            wrong.push(format!(
                "{run}: expected {expected} rows, found {rows} rows, {different} of them distinct"
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
