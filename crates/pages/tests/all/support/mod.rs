//! A store of runs in memory, and the dashboard that shows these runs.
use std::{path::Path, sync::Arc};

use axum::{Router, body::Body, http::Request};
use http_body_util::BodyExt;
use ledger::{Artefacts, Ledger, MemoryStore, Store};
use measurements::{Measurements, ParsedLog};
use model::{
    Attempt, ClusterSpec, Conclusion, EventKey, Fact, Limits, Logs, RECORD_FORMAT, Reason, Record,
    RecordEntry, RunRequested, System, Timestamp, Trigger, Verdict, VerdictReached, Workflow,
    measurement::Reading,
};
use pages::{Dashboard, Plans, WorkflowPlan};
use run_index::{RefreshIntervals, RunIndex};
use service::{Clock, SystemClock};
use tower::ServiceExt;

pub struct TwoWorkflows;

#[async_trait::async_trait]
impl Plans for TwoWorkflows {
    async fn plans(&self) -> Result<Vec<WorkflowPlan>, String> {
        let plan = |workflow: &str| WorkflowPlan {
            workflow: workflow.to_owned(),
            stale: true,
            ..WorkflowPlan::default()
        };
        let problems = |text: &str| vec![format!("{text}: {HOSTILE}")];
        let bad = WorkflowPlan { broken: true, problems: problems("bad.yaml:1:1"), ..plan("bad") };
        let changed = WorkflowPlan { problems: problems("changed.yaml:2:1"), ..plan("changed") };
        Ok(vec![plan("nightly"), plan("never-ran"), bad, changed])
    }

    async fn warnings(&self) -> Vec<String> {
        vec![format!("the url of `ops` is not set {HOSTILE}")]
    }
}

pub const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// Records of a run that was requested at `at`.
pub fn records(run: &str, verdict: Option<Verdict>, at: Timestamp) -> Vec<Record> {
    let workflow = Workflow {
        name: "nightly".to_owned(),
        description: HOSTILE.to_owned(),
        image: None,
        cluster: None,
        checks: Vec::new(),
        excluded: Default::default(),
        soak: None,
        benchmark: None,
        locate: None,
        retest: None,
        limits: Limits::default(),
        cost: None,
        notify: Vec::new(),
    };
    let trigger = Trigger { kind: "manual".to_owned(), by: HOSTILE.to_owned() };
    let mut entries = vec![Fact::RunRequested(Box::new(RunRequested { workflow, trigger, origin: None }))]
        .into_iter()
        .chain(verdict.map(|verdict| {
            let weighs = verdict;
            Fact::VerdictReached(VerdictReached {
                verdict,
                reasons: vec![Reason { code: "SANE".to_owned(), weighs, text: HOSTILE.to_owned() }],
                criteria: "c".to_owned(),
                baseline: None,
                fingerprint: Default::default(),
                log_sha256: None,
                suspects: Vec::new(),
                object: "nowhere".to_owned(),
                measurements: None,
            })
        }))
        .enumerate()
        .map(|(number, fact)| RecordEntry::Accepted {
            event: EventKey { source: "//test".to_owned(), id: format!("{run}-{number}") },
            attempt: Attempt::FIRST,
            fact: Box::new(fact),
        })
        .collect::<Vec<_>>();
    if verdict.is_some() {
        entries.push(RecordEntry::Closed { conclusion: Conclusion::Completed });
    }
    let record = |(number, entry): (usize, RecordEntry)| Record {
        format: RECORD_FORMAT,
        run: run.parse().unwrap(),
        seq: number as u64 + 1,
        nonce: "n".to_owned(),
        recorded_at: at,
        entry,
    };
    entries.into_iter().enumerate().map(record).collect()
}

/// Stores a closed run with these facts of its workers, on the existing cluster `hall`.
pub async fn run_on_existing(
    store: &Arc<dyn Store>,
    run: &str,
    at: Timestamp,
    workflow: Workflow,
    facts: Vec<Fact>,
) {
    let system = System::processes(2);
    let cluster = Some(ClusterSpec::Existing { system, name: "hall".to_owned() });
    let workflow = Workflow { image: None, cluster, ..workflow };
    let accepted = |(number, fact): (usize, Fact)| RecordEntry::Accepted {
        event: EventKey { source: "//test".to_owned(), id: format!("{run}-{number}") },
        attempt: Attempt::FIRST,
        fact: Box::new(fact),
    };
    let facts = std::iter::once(test_support::good_run::requested(workflow)).chain(facts);
    let closed = RecordEntry::Closed { conclusion: Conclusion::Completed };
    let entries = facts.enumerate().map(accepted).chain([closed]);
    for (seq, entry) in (1..).zip(entries) {
        let run = run.parse().unwrap();
        let record =
            Record { format: RECORD_FORMAT, run, seq, nonce: "n".to_owned(), recorded_at: at, entry };
        let name = format!("ledger/{}/{seq:010}.json", record.run);
        store.create(&name, serde_json::to_vec(&record).unwrap().into()).await.unwrap();
    }
}

pub async fn pages(runs: usize) -> Router {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let now = SystemClock.now();
    for number in 0..runs {
        let verdict = [Some(Verdict::Pass), Some(Verdict::Fail), Some(Verdict::Inconclusive)][number % 3];
        let at = Timestamp::from_millis(now.as_millis() - number as i64 * 600_000);
        for record in records(&format!("nightly-{number}"), verdict, at) {
            let name = format!("ledger/{}/{:010}.json", record.run, record.seq);
            store.create(&name, serde_json::to_vec(&record).unwrap().into()).await.unwrap();
        }
    }
    dashboard_of(store).routes()
}

pub fn dashboard_of(store: Arc<dyn Store>) -> Dashboard {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let run_index = RunIndex::new(
        Ledger::new(Arc::clone(&store), Arc::new(service::ids::unique)),
        Arc::clone(&store),
        Arc::clone(&clock),
        RefreshIntervals::LOCAL,
    );
    let (run_index, plans) = (Arc::new(run_index), Arc::new(TwoWorkflows));
    Dashboard {
        run_index,
        store,
        plans,
        clock,
        output: None,
        warehouse: "here".to_owned(),
        beside_gateway: true,
    }
}

pub async fn get(pages: &Router, path: &str) -> (u16, String, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = pages.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let policy = response.headers().get("content-security-policy");
    let policy = policy.map_or("", |policy| policy.to_str().unwrap()).to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, policy, String::from_utf8(body.to_vec()).unwrap())
}

/// A check of a closed run.
pub struct Judged<'a> {
    pub name: &'a str,
    pub reading: Reading,
    pub verdict: Verdict,
    /// Code of the reason, and the driver in the fingerprint.
    pub code: &'a str,
    pub driver: &'a str,
}

/// Path of a sample below the repository's root.
pub fn sample(path: &str) -> Reading {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    measure::read(&*std::fs::read(root.join(path)).unwrap()).unwrap()
}

/// A curve of nccl-tests with another bandwidth at all sizes.
pub fn curve(factor: f64) -> Reading {
    let mut reading = sample("tests/data/nccl/h200/healthy-1.log");
    for row in reading.tables.iter_mut().flat_map(|table| &mut table.rows) {
        for half in [&mut row.out_of_place, &mut row.in_place].into_iter().flatten() {
            half.time_us /= factor;
            half.algbw *= factor;
            half.busbw *= factor;
        }
    }
    reading
}

/// A run with two checks of programs other than nccl-tests: the first passed, in the second a GPU failed.
pub async fn run_of_checks(store: &Arc<dyn Store>, at: Timestamp) {
    let samples = "crates/measure/tests/samples";
    let memory = sample(&format!("{samples}/nvbandwidth/0.9-h100.json"));
    let burn = sample(&format!("{samples}/gpu-burn/faulty.txt"));
    let check = |name, reading, verdict| Judged { name, reading, verdict, code: "SANE", driver: "1" };
    let checks = vec![check("memory", memory, Verdict::Pass), check("burn", burn, Verdict::Fail)];
    judged_run(store, "checked-1", at, checks, false).await;
}

/// Stores a closed run with these checks.
pub async fn judged_run(
    store: &Arc<dyn Store>,
    run: &str,
    at: Timestamp,
    judged: Vec<Judged<'_>>,
    closed: bool,
) {
    let artefacts = Artefacts::new(store.clone());
    let run: model::RunId = run.parse().unwrap();
    let check = |name: &str| {
        serde_json::json!({
            "name": name, "command": {"argv": ["true"], "every": "node", "read": {"format": "gpu-burn"}},
            "criteria": {"name": "nothing"},
        })
    };
    let checks: Vec<_> = judged.iter().map(|judged| check(judged.name)).collect();
    let mut facts = Vec::new();
    for (at, Judged { reading, verdict, code, driver, .. }) in judged.into_iter().enumerate() {
        let number = at + 1;
        let attempt: Attempt =
            if number == 1 { Attempt::FIRST } else { format!("c{number}a1").parse().unwrap() };
        let logs = Logs { manifest: format!("m{number}"), sha256: String::new(), objects: 1, size_bytes: 1 };
        let log = ParsedLog { log: format!("{attempt}/node-0.log"), sha256: String::new(), reading };
        let document = Measurements::of(&run, &logs, attempt, vec![log]);
        let judging = format!("{run}.verdict.{attempt}.start").parse().unwrap();
        let measurements = measurements::write(&artefacts, &judging, &document).await.unwrap();
        let reason = Reason { code: code.to_owned(), weighs: verdict, text: HOSTILE.to_owned() };
        facts.push((attempt, Fact::LogsCollected(logs)));
        let reached = VerdictReached {
            verdict,
            reasons: vec![reason],
            criteria: "c".to_owned(),
            baseline: None,
            fingerprint: [("driver".to_owned(), driver.to_owned())].into(),
            log_sha256: None,
            suspects: Vec::new(),
            object: "nowhere".to_owned(),
            measurements: measurements.map(Box::new),
        };
        facts.push((attempt, Fact::VerdictReached(reached)));
    }
    let mut records = records(run.as_str(), None, at);
    if let RecordEntry::Accepted { fact, .. } = &mut records[0].entry
        && let Fact::RunRequested(requested) = &mut **fact
    {
        requested.workflow.checks = serde_json::from_value(serde_json::json!(checks)).unwrap();
    }
    let mut entries: Vec<_> = facts
        .into_iter()
        .enumerate()
        .map(|(number, (attempt, fact))| RecordEntry::Accepted {
            event: EventKey { source: "//test".to_owned(), id: format!("checked-{number}") },
            attempt,
            fact: Box::new(fact),
        })
        .collect();
    if closed {
        entries.push(RecordEntry::Closed { conclusion: Conclusion::Completed });
    }
    for entry in entries {
        let seq = records.len() as u64 + 1;
        records.push(Record { seq, entry, ..records[0].clone() });
    }
    for record in records {
        let name = format!("ledger/{}/{:010}.json", record.run, record.seq);
        store.create(&name, serde_json::to_vec(&record).unwrap().into()).await.unwrap();
    }
}
