//! Checks of many runs: each requested run exists once, is closed with its verdict, and has its rows, builds, replies and notices once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::Arc,
    time::Duration,
};

use gcp::storage::CloudStorage;
use kill::checks::{self, LoadedRows};
use ledger::Ledger;
use lifecycle::RunState;
use model::{ClusterSpec, Verdict};
use serde_json::Value;

use crate::{
    deployment::{Failed, Rehearsal},
    fixtures::MEASUREMENTS,
    plan::PROJECT,
    requests::commit,
    scenario::wait_for,
};

#[derive(Default)]
pub struct Requested {
    /// Number of runs of a workflow, and their verdict.
    pub workflows: BTreeMap<String, (usize, Verdict)>,
    /// Number of runs that messages requested.
    pub messages: usize,
    /// Number of pushes, each with its own commit.
    pub pushes: usize,
    /// Number of builds of all runs.
    pub builds: usize,
}

impl Requested {
    pub fn count(&self) -> usize {
        self.workflows.values().map(|(count, _)| count).sum()
    }
}

/// Reads the ledger without checks of permissions.
pub fn ledger(rehearsal: &Rehearsal) -> Result<Ledger, String> {
    let emulator = rehearsal.storage.url().parse().map_err(str::to_owned)?;
    let store = CloudStorage::new(&rehearsal.plan.bucket("ledger"), Some(emulator));
    Ok(Ledger::new(Arc::new(store), Arc::new(service::ids::unique)))
}

/// States of all runs with their numbers of records, once `count` runs exist and all are closed.
///
/// # Errors
/// Returns an error if a record cannot be read.
pub async fn closed(
    rehearsal: &Rehearsal,
    ledger: &Ledger,
    count: usize,
) -> Result<Option<Vec<(RunState, usize)>>, Failed> {
    let names = rehearsal.storage.names(&rehearsal.plan.bucket("ledger"));
    let runs: BTreeSet<_> = names.iter().filter_map(|name| name.split('/').nth(1)).collect();
    let open = rehearsal.storage.names(&rehearsal.plan.bucket("artefacts"));
    if runs.len() < count || open.iter().any(|name| name.starts_with("open/")) {
        return Ok(None);
    }
    let mut states = Vec::new();
    for run in runs {
        let run = run.parse().map_err(|error| format!("{run}: {error}"))?;
        match checks::state(ledger, &run).await? {
            Some((state, records)) if state.closed.is_some() => states.push((state, records)),
            _ => return Ok(None),
        }
    }
    Ok(Some(states))
}

/// Existing and closed runs, for the message of a timeout.
pub async fn progress(rehearsal: &Rehearsal, ledger: &Ledger) -> String {
    let runs = ledger.runs().await.unwrap_or_default();
    let mut open = Vec::new();
    for run in &runs {
        if let Ok(Some((state, _))) = checks::state(ledger, run).await
            && state.closed.is_none()
        {
            open.push(format!("{run} ({})", state.stages.len()));
        }
    }
    let hints = checks::left_in_store(rehearsal.storage.names(&rehearsal.plan.bucket("artefacts")));
    format!("{} runs exist; open: {}; hints: {}", runs.len(), open.join(", "), hints.join(", "))
}

/// Checks closed runs against the requests, after all messages are delivered.
///
/// # Errors
/// Returns an error with all differences.
pub async fn check(
    rehearsal: &Rehearsal,
    ledger: &Ledger,
    requested: &Requested,
    states: &[(RunState, usize)],
    patience: Duration,
) -> Result<String, Failed> {
    let failed = || states.iter().filter(|(state, _)| verdict(state) == Some(Verdict::Fail));
    let mut replies = Vec::new();
    wait_for_effects(rehearsal, requested, patience, &mut replies, || {
        failed().all(|(state, _)| rehearsal.receiver.has(state.run.as_str()))
    })
    .await?;

    let mut wrong = Vec::new();
    let runs = ledger.runs().await.map_err(|error| error.to_string())?;
    if runs.len() != requested.count() {
        wrong.push(format!("{} requested runs, but {} runs exist", requested.count(), runs.len()));
    }
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    let warehouse = LoadedRows::of(&rehearsal.bigquery, &format!("{PROJECT}.burnin"))?;
    let (mut records, mut retried) = (0, 0);
    for (state, count) in states {
        let workflow = &state.workflow.name;
        *counted.entry(workflow.clone()).or_default() += 1;
        let expected = requested.workflows.get(workflow).map(|(_, verdict)| *verdict);
        let ended = checks::ended(state, *count, expected.unwrap_or(Verdict::Inconclusive), &mut wrong);
        warehouse.check(&ended.run, MEASUREMENTS, &mut wrong).await?;
        records += ended.records;
        retried += usize::from(ended.attempts > 0);
    }
    for (workflow, (expected, _)) in &requested.workflows {
        let found = counted.get(workflow).copied().unwrap_or(0);
        if found != *expected {
            wrong.push(format!("{workflow}: expected {expected} runs, found {found}"));
        }
    }
    rehearsal.receiver.check(failed().map(|(state, _)| (&state.run, "failed")), &mut wrong);
    builds(rehearsal, requested, &mut wrong);
    check_replies(requested, &replies, &mut wrong);
    benchmarks(rehearsal, states, &mut wrong);
    if wrong.is_empty() {
        let (runs, builds) = (states.len(), rehearsal.builds().len());
        return Ok(format!("{runs} runs, each once; {records} records, {builds} builds, {retried} retried"));
    }
    Err(wrong.join("\n"))
}

fn verdict(state: &RunState) -> Option<Verdict> {
    state.verdict().map(|reached| reached.verdict)
}

/// Waits until every message is acknowledged, no hint is left, and rows, replies and notices have arrived.
async fn wait_for_effects(
    rehearsal: &Rehearsal,
    requested: &Requested,
    patience: Duration,
    replies: &mut Vec<pubsub_standin::PubsubMessage>,
    reported: impl Fn() -> bool,
) -> Result<(), Failed> {
    let bucket = rehearsal.plan.bucket("artefacts");
    let listening = format!("projects/{PROJECT}/subscriptions/burnin-replies-team");
    let left = || {
        let mut left = checks::left_in_store(rehearsal.storage.names(&bucket));
        for of in &rehearsal.plan.subscriptions {
            let handled = of.push.is_some() || of.filter.is_some() || of.id.ends_with("/burnin-dead");
            match rehearsal.broker.backlog(&of.id) {
                count if handled && count > 0 => {
                    left.push(format!("{count} unacknowledged messages of {}", of.id))
                }
                _ => {}
            }
        }
        if !reported() {
            left.push("notices".to_owned());
        }
        left
    };
    let outcome = wait_for(rehearsal, "all messages are handled", patience, async || {
        replies.extend(rehearsal.broker.drain(&listening));
        let ended = replies.iter().filter_map(ended).collect::<BTreeSet<_>>();
        let rows = rehearsal.bigquery.count(&format!("{PROJECT}.burnin.verdicts"), &["run"])?;
        let complete = ended.len() >= requested.messages && rows.len() >= requested.count();
        Ok((complete && left().is_empty()).then_some(()))
    })
    .await;
    outcome.map_err(|why| format!("{why}; left: {}", left().join(", ")))
}

/// Id of the request whose run a reply reports as ended.
fn ended(reply: &pubsub_standin::PubsubMessage) -> Option<String> {
    let answer: Value = serde_json::from_slice(&reply.data).ok()?;
    answer["ended"].is_object().then(|| answer["request"]["id"].as_str().unwrap_or_default().to_owned())
}

/// Checks that all replies to a request name one run, and that the end of the run was published as one event.
fn check_replies(requested: &Requested, replies: &[pubsub_standin::PubsubMessage], wrong: &mut Vec<String>) {
    let mut runs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut ends: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for reply in replies {
        let answer: Value = serde_json::from_slice(&reply.data).unwrap_or_default();
        let request = answer["request"]["id"].as_str().unwrap_or_default().to_owned();
        runs.entry(request.clone()).or_default().insert(answer["run"].to_string());
        if ended(reply).is_some() {
            let event = reply.attributes.get("ce-id").cloned().unwrap_or_default();
            ends.entry(request).or_default().insert(event);
        }
    }
    for (what, found) in [("runs", &runs), ("events of its end", &ends)] {
        for (request, found) in found {
            if found.len() != 1 {
                wrong.push(format!("request {request}: {what}: {found:?}"));
            }
        }
        if found.len() != requested.messages {
            wrong.push(format!("expected replies to {} requests, found {}", requested.messages, found.len()));
        }
    }
}

/// Checks that each requested build was created once, and that each push built its own commit.
fn builds(rehearsal: &Rehearsal, requested: &Requested, wrong: &mut Vec<String>) {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut revisions = BTreeSet::new();
    for build in rehearsal.builds() {
        let tags = build["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let ours = |tag: &&str| {
            tag.starts_with("burnin.") && !tag.starts_with("burnin.run.") && !tag.starts_with("burnin.claim.")
        };
        let key = tags.filter(ours).collect::<Vec<_>>().join(" ");
        let status = build["status"].as_str().unwrap_or_default().to_owned();
        keys.entry(key).or_default().push(status);
        revisions.extend(build["source"]["gitSource"]["revision"].as_str().map(str::to_owned));
    }
    if keys.len() != requested.builds {
        wrong.push(format!("expected {} builds, found {}", requested.builds, keys.len()));
    }
    for (key, statuses) in keys {
        if statuses.as_slice() != ["SUCCESS"] {
            wrong.push(format!("{key}: expected one build, found {statuses:?}"));
        }
    }
    let expected: BTreeSet<_> = (0..requested.pushes).map(commit).collect();
    if revisions != expected {
        wrong.push(format!("expected builds of {expected:?}, found {revisions:?}"));
    }
}

/// Checks that the benchmark of each deployed cluster ran once. If the agent is killed during the submission of a job, the job may be
/// submitted twice; the second job then ends before its benchmark.
fn benchmarks(rehearsal: &Rehearsal, states: &[(RunState, usize)], wrong: &mut Vec<String>) {
    let mut expected: Vec<_> = states
        .iter()
        .filter(|(state, _)| matches!(state.workflow.cluster, Some(ClusterSpec::Provisioned(_))))
        .map(|(state, _)| format!("{}-job-1", state.run))
        .collect();
    let started = fs::read_to_string(rehearsal.folder().join("benchmarks")).unwrap_or_default();
    let mut found: Vec<_> = started.lines().map(str::to_owned).collect();
    expected.sort();
    found.sort();
    if found != expected {
        wrong.push(format!("expected the benchmarks {expected:?} on deployed clusters, found {found:?}"));
    }
}
