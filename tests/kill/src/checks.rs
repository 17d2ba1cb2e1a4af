//! What must be true when everything has come to rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use bigquery_standin::BigQuery;
use ledger::Ledger;
use lifecycle::RunState;
use model::{RunId, Verdict};
use warehouse::Sqlite;

use crate::runs::{NODES, Requests, SIZES};

/// A run that is closed.
pub struct Ended {
    /// Its name.
    pub run: RunId,
    /// Its records.
    pub records: usize,
    /// How often anything was begun beyond the first time.
    pub attempts: u32,
}

/// The state of a run, and how many records made it; none while it has no record.
pub async fn state(ledger: &Ledger, run: &RunId) -> Result<Option<(RunState, usize)>, String> {
    let loaded = ledger.load(run).await.map_err(|error| format!("{run}: {error}"))?;
    if loaded.records().is_empty() {
        return Ok(None);
    }
    let state = lifecycle::fold(loaded.records()).map_err(|error| format!("{run}: {error}"))?;
    Ok(Some((state, loaded.records().len())))
}

/// Checks a run that is closed.
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
        say("its cluster is not given back".to_owned());
    }
    // Each attempt may begin each thing once, and nothing broke: so one attempt, and once.
    let attempts = state.leases.len();
    let mut expected: BTreeMap<String, usize> = (0..NODES).map(|rank| (format!("rank-{rank}"), 1)).collect();
    expected.insert("builds".to_owned(), 1);
    let counted = counted(&requests.counts(run));
    if counted != expected {
        say(format!("begun {counted:?}, and not {expected:?}; {attempts} lease(s)"));
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

/// What the services' warehouse holds, read in another way than theirs.
pub enum Warehouse {
    /// The file.
    File(Sqlite),
    /// Everything in BigQuery's tables.
    BigQuery {
        /// How often there is a measurement, by run, size and placement.
        rows: BTreeMap<Vec<String>, u64>,
        /// How often there is a verdict, by run.
        verdicts: BTreeMap<Vec<String>, u64>,
    },
}

impl Warehouse {
    /// Everything, as it is now.
    pub fn of(bigquery: &BigQuery) -> Result<Self, String> {
        let rows = bigquery.count("kill.burnin.measurements", &["run", "size_bytes", "placement"])?;
        let verdicts = bigquery.count("kill.burnin.verdicts", &["run"])?;
        Ok(Self::BigQuery { rows, verdicts })
    }

    /// Each row of a run once, and one verdict.
    pub async fn check(&self, run: &RunId, wrong: &mut Vec<String>) -> Result<(), String> {
        let (rows, different, verdicts) = match self {
            Self::File(sqlite) => {
                let told = |error: warehouse::Error| format!("{run}: {error:?}");
                let rows = sqlite.rows(run.as_str()).await.map_err(told)?;
                let keys: BTreeSet<_> =
                    rows.iter().map(|row| (row.size_bytes, row.placement.clone())).collect();
                (rows.len(), keys.len(), sqlite.verdicts(run.as_str()).await.map_err(told)?.len())
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
            wrong.push(format!("{run}: {rows} rows in the warehouse, {different} of them different"));
        }
        if verdicts != 1 {
            wrong.push(format!("{run}: {verdicts} verdicts in the warehouse"));
        }
        Ok(())
    }
}

/// Nothing runs that carries the folder's name, services aside.
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
