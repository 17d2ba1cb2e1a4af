//! Checks logs, rows and verdicts: each measurement is present exactly once.

use std::collections::BTreeSet;

use cloudevents::AttributesReader;
use events::{Content, Message};
use ledger::Digest;
use model::{
    Attempt, Body, CheckIndex, Fact, Logs, Manifest, Record, RecordEntry, Results, RunId, Stage, Verdict,
};

use super::{CheckedRun, RunFiles, Violation};
use crate::{ExternalEvent, cloud::JobStage, workload};

const LOG_BYTES: &str = "I4 stored logs equal the written ones";
const ROWS_ONCE: &str = "I5 each row once";
const HONEST: &str = "no pass without proof";

pub fn check(evidence: &RunFiles, found: &mut Vec<Violation>) {
    for (id, run) in &evidence.runs {
        for (place, record, fact) in run.facts() {
            let check = check_of(record);
            match fact {
                Fact::LogsCollected(logs) => bytes(evidence, id, run, (place, check), logs, found),
                Fact::VerdictReached(reached) if reached.verdict == Verdict::Pass => {
                    proof(evidence, id, (place, check), found);
                }
                _ => {}
            }
        }
        for (place, record, fact) in run.facts() {
            if let Fact::ResultsLoaded(results) = fact {
                rows(evidence, id, run, (place, check_of(record)), results, found);
            }
        }
        rows_once(evidence, id, found);
    }
}

const fn check_of(record: &Record) -> CheckIndex {
    match &record.entry {
        RecordEntry::Accepted { attempt, .. } => attempt.check,
        _ => CheckIndex::FIRST,
    }
}

fn folder(logs: &Logs) -> &str {
    logs.manifest.strip_suffix("manifest.json").unwrap_or(&logs.manifest)
}

fn manifest(evidence: &RunFiles, logs: &Logs) -> Option<Manifest> {
    serde_json::from_slice(evidence.objects.get(&logs.manifest)?).ok()
}

/// The stored logs contain every byte that the job wrote, and no other.
fn bytes(
    evidence: &RunFiles,
    id: &RunId,
    run: &CheckedRun,
    (place, check): (usize, CheckIndex),
    logs: &Logs,
    found: &mut Vec<Violation>,
) {
    let mut wrong = |what: String| found.push(Violation::new(LOG_BYTES, format!("{id}: {what}")));
    let Some(manifest) = manifest(evidence, logs) else {
        return wrong(format!("{} is missing", logs.manifest));
    };
    for object in &manifest.objects {
        let name = format!("{}{}", folder(logs), object.name);
        let Some(stored) = evidence.objects.get(&name) else {
            wrong(format!("{name} is missing"));
            continue;
        };
        if Digest::of(stored).sha256 != object.sha256 {
            wrong(format!("{name} differs from its manifest"));
        }
        let Some((attempt, file)) = object.name.split_once('/') else { continue };
        if file != workload::LOG {
            continue;
        }
        let job = format!("{id}-job-{attempt}");
        let Some(log) = evidence.clouds.jobs.get(&job).map(|known| known.output.text(&job)) else {
            wrong(format!("{name} belongs to no job"));
            continue;
        };
        // An abandoned job may be read while it is running.
        let given_up = run
            .records
            .iter()
            .any(|(at, record)| *at < place && matches!(record.entry, RecordEntry::TimedOut { .. }));
        let half = given_up || evidence.has_false_fact(id);
        let whole = stored[..] == *log.as_bytes();
        let started = half && log.as_bytes().starts_with(stored);
        if !whole && !started {
            wrong(format!("{name} differs from the job's output"));
        }
    }
    let state = run.state_at(place);
    let done = state.is_some_and(|state| state.job_of(check).is_some());
    let attempt = state.map_or(Attempt::FIRST, |state| state.attempt(Stage::Job.of(check)));
    let job = evidence.clouds.jobs.get(&format!("{id}-job-{attempt}"));
    let began = job.is_some_and(|job| job.began);
    let cluster = job.map(|job| job.cluster.as_str());
    let gone = evidence.indexed_history().take(place).any(
        |(_, event)| matches!(event, ExternalEvent::ClusterEnded { name, .. } if Some(name.as_str()) == cluster),
    );
    let there = manifest.objects.iter().any(|object| object.name == format!("{attempt}/{}", workload::LOG));
    if done && began && !gone && !there {
        wrong(format!("the log of attempt {attempt} is missing"));
    }
}

/// A pass requires a successful job and a complete log.
fn proof(evidence: &RunFiles, id: &RunId, (place, check): (usize, CheckIndex), found: &mut Vec<Violation>) {
    let judged = evidence.indexed_history().take(place).filter_map(|(_, event)| match event {
        ExternalEvent::Published { event, .. } if event.ty() == "dev.burnin.run.judge.v1" => {
            Message::from_event(event).ok()
        }
        _ => None,
    });
    let judged = judged.filter(|message| message.run == *id).find_map(|message| match message.content {
        Content::Command(command) => match command.body {
            Body::RunJudge { logs, job_attempt, .. } if job_attempt.check == check => {
                Some((logs, job_attempt))
            }
            _ => None,
        },
        Content::Fact(_) => None,
    });
    let proven = judged.is_some_and(|(logs, attempt)| {
        let name = format!("{}{attempt}/{}", folder(&logs), workload::LOG);
        let log = evidence.objects.get(&name).map(|body| String::from_utf8_lossy(body).into_owned());
        let job = evidence.clouds.jobs.get(&format!("{id}-job-{attempt}"));
        let well = job.is_some_and(
            |job| matches!(&job.stage, JobStage::Ended(end) if end.state == "COMPLETED" && end.exit_code == Some(0)),
        );
        well && log.is_some_and(|log| log.contains("# Avg bus bandwidth")) && manifest(evidence, &logs).is_some()
    });
    if !proven {
        found.push(Violation::new(HONEST, format!("{id} passed")));
    }
}

/// No row is in the warehouse twice.
fn rows_once(evidence: &RunFiles, id: &RunId, found: &mut Vec<Violation>) {
    let mut keys = BTreeSet::new();
    let rows = evidence.clouds.loads.values().flat_map(|load| &load.rows);
    for row in rows.filter(|row| *row.run == *id.as_str()) {
        let key = (row.attempt, &row.check_name, &row.log, row.table_number, row.row_number, &row.placement);
        if !keys.insert(key) && !evidence.has_false_fact(id) {
            let what = format!("{id}: row {} of {} is loaded twice", row.row_number, row.log);
            found.push(Violation::new(ROWS_ONCE, what));
        }
    }
}

/// The warehouse contains exactly the rows of the checks' committed logs.
fn rows(
    evidence: &RunFiles,
    id: &RunId,
    run: &CheckedRun,
    (place, check): (usize, CheckIndex),
    results: &Results,
    found: &mut Vec<Violation>,
) {
    let mut wrong = |what: String| found.push(Violation::new(ROWS_ONCE, format!("{id}: {what}")));
    let Some(state) = run.state_at(place) else { return };
    let name = state.workflow.check(check).map(|_| state.workflow.check_name(check));
    let mine = evidence.clouds.loads.values().flat_map(|load| &load.rows);
    let mine = mine.filter(|row| *row.run == *id.as_str() && row.check_name.as_deref() == name.as_deref());
    let keys: BTreeSet<_> =
        mine.map(|row| (row.attempt, &row.log, row.table_number, row.row_number, &row.placement)).collect();
    let Some(logs) = state.logs_of(check) else { return wrong("rows are loaded without logs".to_owned()) };
    let attempt = state.attempt(Stage::Job.of(check));
    let mut expected = 0;
    for object in manifest(evidence, logs).into_iter().flat_map(|manifest| manifest.objects) {
        if !object.name.starts_with(&format!("{attempt}/")) {
            continue;
        }
        let body = evidence.objects.get(&format!("{}{}", folder(logs), object.name));
        let Some(Ok(reading)) = body.map(|body| nccl::read(&body[..])) else { continue };
        let halves = |row: &model::measurement::Row| {
            usize::from(row.out_of_place.is_some()) + usize::from(row.in_place.is_some())
        };
        expected += reading.tables.iter().flat_map(|table| &table.rows).map(halves).sum::<usize>();
    }
    if results.rows != expected as u64 || keys.len() != expected {
        wrong(format!(
            "expected {expected} measured rows, found {} reported and {} in the warehouse",
            results.rows,
            keys.len()
        ));
    }
}
