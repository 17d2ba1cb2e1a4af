//! Input of the checks: the history, the bucket, and the final state of the external systems.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use ledger::Store;
use lifecycle::RunState;
use model::{Fact, Record, RecordEntry, RunId};

use crate::{ExternalEvent, Scenario, cloud::Clouds, store::at_once, world::WorldState};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimEnd {
    pub run: RunId,
    /// `completed`, `failed`, ...; `open` if the run did not end.
    pub conclusion: String,
    /// `pass`, ...; `None` without a verdict.
    pub verdict: Option<String>,
    pub records: usize,
}

/// A run, from its ledger.
pub struct CheckedRun {
    /// Records of the run, each with its position in the history.
    pub records: Vec<(usize, Record)>,
    /// The state after each record.
    pub states: Vec<RunState>,
    /// Problem of the ledger itself, if any.
    pub damage: Option<String>,
}

impl CheckedRun {
    /// Number of records at a position of the history.
    pub fn known_at(&self, index: usize) -> usize {
        self.records.partition_point(|(at, _)| *at < index)
    }

    pub fn state_at(&self, index: usize) -> Option<&RunState> {
        self.states.get(self.known_at(index).checked_sub(1)?)
    }

    /// The accepted facts, each with its position in the history.
    pub fn facts(&self) -> impl Iterator<Item = (usize, &Record, &Fact)> {
        self.records.iter().filter_map(|(place, record)| match &record.entry {
            RecordEntry::Accepted { fact, .. } => Some((*place, record, &**fact)),
            _ => None,
        })
    }
}

/// All input of the checks.
pub struct RunFiles {
    /// Requested runs and faults.
    pub scenario: Scenario,
    /// All events, with their time.
    pub history: Vec<(i64, ExternalEvent)>,
    pub runs: BTreeMap<RunId, CheckedRun>,
    pub objects: BTreeMap<String, Bytes>,
    /// Final state of the external systems.
    pub clouds: Clouds,
}

impl RunFiles {
    /// Takes the history and the external systems, and reads the bucket.
    pub fn gather(scenario: &Scenario, inner: &mut WorldState, bucket: &Arc<dyn Store>) -> Self {
        let history = std::mem::take(&mut inner.history);
        let mut objects = BTreeMap::new();
        for name in at_once(bucket.list("")).unwrap_or_default() {
            let body = at_once(bucket.read(&name)).ok().flatten().unwrap_or_default();
            objects.insert(name, body);
        }
        let mut runs: BTreeMap<RunId, CheckedRun> = BTreeMap::new();
        for (place, (_, event)) in history.iter().enumerate() {
            let ExternalEvent::Stored { name } = event else { continue };
            let Some((run, _)) = name.strip_prefix("ledger/").and_then(|rest| rest.split_once('/')) else {
                continue;
            };
            let Ok(id) = run.parse::<RunId>() else { continue };
            let known = runs.entry(id).or_insert_with(|| CheckedRun {
                records: vec![],
                states: vec![],
                damage: None,
            });
            match objects.get(name).map(|body| serde_json::from_slice::<Record>(body)) {
                Some(Ok(record)) => known.records.push((place, record)),
                Some(Err(error)) => known.damage = Some(format!("{name}: {error}")),
                None => known.damage = Some(format!("{name} is missing")),
            }
        }
        for run in runs.values_mut() {
            for (_, record) in &run.records {
                let next = match run.states.last() {
                    None => lifecycle::fold([record]).map_err(|error| error.to_string()),
                    Some(state) => Ok(lifecycle::evolve(state.clone(), record)),
                };
                match next {
                    Ok(state) => run.states.push(state),
                    Err(why) => {
                        run.damage = Some(why);
                        break;
                    }
                }
            }
        }
        let clouds = std::mem::take(&mut inner.clouds);
        Self { scenario: scenario.clone(), history, runs, objects, clouds }
    }

    pub fn endings(&self) -> Vec<SimEnd> {
        let ending = |run: &RunId| {
            let known = self.runs.get(run);
            let state = known.and_then(|known| known.states.last());
            let settled =
                state.filter(|state| state.closed.is_some()).and_then(|state| state.settled.as_ref());
            SimEnd {
                run: run.clone(),
                conclusion: settled.map_or("open", |(conclusion, _)| conclusion.as_str()).to_owned(),
                verdict: state.and_then(|state| Some(state.verdict()?.verdict.to_string())),
                records: known.map_or(0, |known| known.records.len()),
            }
        };
        self.scenario.requested_runs.iter().map(|requested| ending(&requested.run)).collect()
    }

    /// All events with their position.
    pub fn indexed_history(&self) -> impl Iterator<Item = (usize, &ExternalEvent)> {
        self.history.iter().enumerate().map(|(index, (_, event))| (index, event))
    }

    /// Whether a false message about the run was published.
    pub fn has_false_fact(&self, run: &RunId) -> bool {
        let lied = |event: &ExternalEvent| matches!(event, ExternalEvent::Contradicted { run: about, .. } if about == run);
        self.history.iter().any(|(_, event)| lied(event))
    }
}
