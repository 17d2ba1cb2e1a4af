//! All possible arrival orders of the facts of a run.

use lifecycle::{Input, ReceivedFact, RunState, decide, decide_first, evolve, fold};
use model::{Attempt, Fact, RECORD_FORMAT, Record, RecordEntry, Timestamp};

use crate::{Scenario, Simulation};

/// The facts of a run without faults, in ledger order: the request, the work, and the deletion of the
/// cluster.
pub fn facts() -> Vec<ReceivedFact> {
    let records = Simulation::new(Scenario::without_faults(0, 1)).records();
    let accepted = records.into_iter().filter_map(|record| match record.entry {
        RecordEntry::Accepted { event, attempt, fact } => Some(ReceivedFact { event, attempt, fact: *fact }),
        _ => None,
    });
    accepted.collect()
}

const NOW: Timestamp = Timestamp::from_millis(crate::world::START);

fn record(state: Option<&RunState>, run: &model::RunId, entry: RecordEntry) -> Record {
    let seq = state.map_or(1, |state| state.seq + 1);
    Record { format: RECORD_FORMAT, run: run.clone(), seq, nonce: "n".into(), recorded_at: NOW, entry }
}

fn apply(state: &RunState, fact: &ReceivedFact) -> RunState {
    let decision = decide(state, Input::Fact(Box::new(fact.clone())), NOW);
    decision.entries.into_iter().fold(state.clone(), |state, entry| {
        let record = record(Some(&state), &state.run, entry);
        evolve(state, &record)
    })
}

/// Feeds `count` facts of the work in every order, then the deletion of the cluster. Returns the number of
/// orders and all distinct final states as text.
pub fn every(count: usize) -> (u64, Vec<String>) {
    let facts = facts();
    let run: model::RunId = "sim-0".parse().unwrap_or_else(|error| unreachable!("{error}"));
    let is = |fact: &Fact, request: bool| match fact {
        Fact::RunRequested(_) => request,
        Fact::ClusterDeleted(_) | Fact::RunClosed(_) | Fact::RunUsed(_) => false,
        _ => !request,
    };
    let request = facts.iter().find(|fact| is(&fact.fact, true)).cloned();
    let gone = facts.iter().find(|fact| matches!(fact.fact, Fact::ClusterDeleted(_))).cloned();
    // Use the last facts, because the first ones of a run have the fewest effects.
    let mut work: Vec<ReceivedFact> = facts.into_iter().filter(|fact| is(&fact.fact, false)).collect();
    work.drain(..work.len().saturating_sub(count));
    let (Some(request), Some(gone)) = (request, gone) else { return (0, Vec::new()) };
    debug_assert_eq!(request.attempt, Attempt::FIRST);
    let first = record(None, &run, decide_first(request));
    let Ok(state) = fold([&first]) else { return (0, Vec::new()) };
    let mut orders = 0;
    let mut ends: Vec<RunState> = Vec::new();
    walk(&state, &work, 0, &mut |state| {
        orders += 1;
        let end = apply(state, &gone);
        if !ends.contains(&end) {
            ends.push(end);
        }
    });
    (orders, ends.iter().filter_map(|end| serde_json::to_string(end).ok()).collect())
}

/// Orders with a common prefix share its evaluation.
fn walk(state: &RunState, work: &[ReceivedFact], fed: u32, end: &mut impl FnMut(&RunState)) {
    if fed.count_ones() as usize == work.len() {
        return end(state);
    }
    for (number, fact) in work.iter().enumerate().filter(|(number, _)| fed & (1 << number) == 0) {
        walk(&apply(state, fact), work, fed | (1 << number), end);
    }
}
