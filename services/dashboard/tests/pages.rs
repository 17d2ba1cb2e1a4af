//! Pages over simulated ledgers.

use std::{path::Path, sync::Arc};

use axum::{Router, body::Body, http::Request};
use dashboard::{Dashboard, Plans, WorkflowPlan};
use http_body_util::BodyExt;
use ledger::{Artefacts, Ledger, MemoryStore, Store};
use measurements::{Measurements, ParsedLog};
use model::{
    Attempt, Conclusion, EventKey, Fact, Limits, Logs, RECORD_FORMAT, Reason, Record, RecordEntry,
    RunRequested, Span, Timestamp, Trigger, Verdict, VerdictReached, Workflow,
};
use run_index::{Pace, RunIndex};
use service::{Clock, SystemClock};
use tower::ServiceExt;

struct Two;

#[async_trait::async_trait]
impl Plans for Two {
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

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// Records of a run that started this long ago.
fn records(run: &str, verdict: Option<Verdict>, at: Timestamp) -> Vec<Record> {
    let workflow = Workflow {
        name: "nightly".to_owned(),
        description: HOSTILE.to_owned(),
        image: None,
        cluster: None,
        checks: Vec::new(),
        excluded: Default::default(),
        benchmark: None,
        locate: None,
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

async fn pages(runs: usize) -> Router {
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

fn dashboard_of(store: Arc<dyn Store>) -> Dashboard {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let view = RunIndex::new(
        Ledger::new(Arc::clone(&store), Arc::new(service::ids::unique)),
        Arc::clone(&store),
        Arc::clone(&clock),
        Pace::LOCAL,
    );
    let (view, plans) = (Arc::new(view), Arc::new(Two));
    Dashboard {
        view,
        store,
        plans,
        clock,
        warehouse: "here".to_owned(),
        beside_gateway: true,
        known: Default::default(),
    }
}

async fn get(pages: &Router, path: &str) -> (u16, String, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = pages.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let policy = response.headers().get("content-security-policy");
    let policy = policy.map_or("", |policy| policy.to_str().unwrap()).to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, policy, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn the_overview_escapes_systems_and_runs() {
    let pages = pages(7).await;
    let (status, policy, page) = get(&pages, "/").await;
    assert_eq!(status, 200);
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    for text in ["nightly-0", "never-ran", "never validated", "stale", "/runs/nightly-6"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    // A workflow with problems is red, with every problem, and cannot be started.
    for text in [
        "<b>bad</b> cannot be started",
        "<li>bad.yaml:1:1: ",
        "<b class=\"bad broken\">broken</b>",
        "<b>changed</b> has errors, its last valid version stays in use",
        "<li>changed.yaml:2:1: ",
        "<p class=\"note bad\">the url of `ops` is not set",
        "<option value=\"changed\"",
        "<option value=\"nightly\"",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<option value=\"bad\""), "{page}");
    let (_, _, page) = get(&pages, "/?verdict=fail").await;
    assert!(page.contains(">nightly-1<") && !page.contains(">nightly-0<"), "{page}");
    let (_, _, page) = get(&pages, "/runs/nightly-1").await;
    assert!(page.contains("SANE") && !page.contains("<script>alert") && !page.contains("style="), "{page}");
}

#[tokio::test]
async fn missing_pages_are_reported() {
    let pages = pages(2).await;
    for (path, expected) in [
        ("/?verdict=maybe", 400),
        ("/?state=x", 400),
        ("/?after=x", 400),
        ("/runs/nightly-9", 404),
        ("/runs/%3Cscript%3E", 404),
        ("/runs/nightly-1/logs/1/none.log", 404),
        ("/runs/nightly-1/logs/..%2f..%2fledger", 404),
        ("/compare?a=nightly-0&b=nightly-9", 404),
        ("/assets/passwd", 404),
    ] {
        let (status, _, page) = get(&pages, path).await;
        assert_eq!(status, expected, "{path}: {page}");
        assert!(!page.contains("<script>alert"));
    }
    let (status, _, page) = get(&pages, "/compare?a=nightly-0&b=nightly-1").await;
    assert!(status == 200 && page.contains("expected the measurements of one benchmark"), "{page}");
    assert_eq!(get(&pages, "/compare").await.0, 200);
}

/// The limit is generous, because a page that reads every ledger again would take many times as long.
#[tokio::test]
async fn the_overview_stays_small_and_fast_with_many_runs() {
    let pages = pages(2000).await;
    let (status, _, first) = get(&pages, "/").await;
    assert_eq!(status, 200);
    let mut weight = first.len();
    for asset in ["/assets/style.css", "/assets/script.js"] {
        let (status, _, body) = get(&pages, asset).await;
        assert_eq!(status, 200);
        weight += body.len();
    }
    assert!(weight <= 200 << 10, "{weight} bytes");
    let began = std::time::Instant::now();
    let (_, _, page) = get(&pages, "/").await;
    assert!(page.contains("rel=\"next\""));
    assert!(began.elapsed() < Span::from_secs(2).0, "{:?}", began.elapsed());
}

/// A run with two checks of other programs than nccl-tests: the first passed, in the second a GPU failed.
async fn run_of_checks(store: &Arc<dyn Store>, at: Timestamp) {
    let artefacts = Artefacts::new(store.clone());
    let run: model::RunId = "checked-1".parse().unwrap();
    let check = |name: &str| {
        serde_json::json!({
            "name": name, "command": {"argv": ["true"], "every": "node", "read": {"format": "gpu-burn"}},
            "criteria": {"name": "nothing"},
        })
    };
    let checks = serde_json::json!([check("memory"), check("burn")]);
    let mut facts = Vec::new();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/measure/tests/samples");
    let all = [(1, "nvbandwidth/0.9-h100.json", Verdict::Pass), (2, "gpu-burn/faulty.txt", Verdict::Fail)];
    for (number, sample, verdict) in all {
        let attempt: Attempt = if number == 1 { Attempt::FIRST } else { "c2a1".parse().unwrap() };
        let reading = measure::read(&*std::fs::read(samples.join(sample)).unwrap()).unwrap();
        let logs = Logs { manifest: format!("m{number}"), sha256: String::new(), objects: 1, size_bytes: 1 };
        let log = ParsedLog { log: format!("{attempt}/node-0.log"), sha256: String::new(), reading };
        let document = Measurements::of(&run, &logs, attempt, vec![log]);
        let judging = format!("{run}.verdict.{attempt}.start").parse().unwrap();
        let measurements = measurements::write(&artefacts, &judging, &document).await.unwrap();
        let reason = Reason { code: "SANE".to_owned(), weighs: verdict, text: String::new() };
        facts.push((attempt, Fact::LogsCollected(logs)));
        let reached = VerdictReached {
            verdict,
            reasons: vec![reason],
            criteria: "c".to_owned(),
            baseline: None,
            fingerprint: Default::default(),
            log_sha256: None,
            object: "nowhere".to_owned(),
            measurements,
        };
        facts.push((attempt, Fact::VerdictReached(reached)));
    }
    let mut records = records(run.as_str(), None, at);
    if let RecordEntry::Accepted { fact, .. } = &mut records[0].entry
        && let Fact::RunRequested(requested) = &mut **fact
    {
        requested.workflow.checks = serde_json::from_value(checks).unwrap();
    }
    for (attempt, fact) in facts {
        let seq = records.len() as u64 + 1;
        let event = EventKey { source: "//test".to_owned(), id: format!("checked-{seq}") };
        let entry = RecordEntry::Accepted { event, attempt, fact: Box::new(fact) };
        records.push(Record { seq, entry, ..records[0].clone() });
    }
    for record in records {
        let name = format!("ledger/{}/{:010}.json", record.run, record.seq);
        store.create(&name, serde_json::to_vec(&record).unwrap().into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_run_page_has_the_metrics_of_each_check() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    run_of_checks(&store, SystemClock.now()).await;
    let pages = dashboard_of(store).routes();
    let (status, _, page) = get(&pages, "/runs/checked-1").await;
    assert_eq!(status, 200, "{page}");
    for text in ["<h2>Metrics</h2>", "gpu_burn.passed", "GPU_FAULTY", "wrong data", "?check=memory"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let (status, _, page) = get(&pages, "/runs/checked-1?check=memory").await;
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("nvbandwidth.") && !page.contains("gpu_burn."), "{page}");
    assert_eq!(get(&pages, "/runs/checked-1?check=none").await.0, 404);
}

#[tokio::test]
async fn a_systems_page_has_a_chart_of_each_metric_and_the_values_of_its_runs() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    run_of_checks(&store, SystemClock.now()).await;
    let pages = dashboard_of(store).routes();
    let (_, _, overview) = get(&pages, "/").await;
    let link = overview.split("href=\"/systems/").nth(1).and_then(|rest| rest.split('"').next());
    let link = format!("/systems/{}", link.expect("a link to the system").replace("&amp;", "&"));
    for _ in 0..2 {
        // The second time from memory.
        let (status, _, page) = get(&pages, &link).await;
        assert_eq!(status, 200, "{page}");
        for text in
            ["memory: nvbandwidth.", "burn: gpu_burn.passed", "<circle class=\"bad\"", "GB&#x2f;s", "days=90"]
        {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
    let (status, _, page) = get(&pages, &format!("{link}x")).await;
    assert_eq!(status, 404, "{page}");
    // Of another system there is no page, whatever its name.
    assert_eq!(get(&pages, "/systems/%3Cscript%3E?place=%3Cscript%3E").await.0, 404);
    assert_eq!(get(&pages, &link.replace("?", "?days=many&")).await.0, 400);
}
