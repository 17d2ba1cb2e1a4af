//! The page of a system, values in lists, comparisons of selected runs, and output of running jobs.

use std::sync::Arc;

use crate::support::{Judged, curve, dashboard_of, get, judged_run, run_of_checks, sample};
use axum::Router;
use ledger::{MemoryStore, Store};
use model::{Timestamp, Verdict};
use pages::{Dashboard, JobOutput, OutputLines, RunningJob};
use service::{Clock, SystemClock};

const DAY: i64 = 86_400_000;

/// Stores a closed run of one check, requested `days` ago, with bandwidths multiplied by `factor`.
async fn run(store: &Arc<dyn Store>, number: i64, days: i64, factor: f64, verdict: Verdict, driver: &str) {
    let at = Timestamp::from_millis(SystemClock.now().as_millis() - days * DAY - number);
    let code = if verdict == Verdict::Fail { "BELOW_BASELINE" } else { "SANE" };
    let check = Judged { name: "all-reduce", reading: curve(factor), verdict, code, driver };
    judged_run(store, &format!("nightly-{number}"), at, vec![check], true).await;
}

/// Ten nights, the last four with another driver and 5 % less bandwidth; on the newest night two runs passed and one failed.
async fn ten_nights() -> Router {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    for night in 0..10 {
        let (factor, driver) = if night < 4 { (0.95, "13.1") } else { (1.0, "13.0") };
        let verdict = if night == 3 { Verdict::Fail } else { Verdict::Pass };
        run(&store, night, night, factor, verdict, driver).await;
    }
    run(&store, 20, 0, 0.95, Verdict::Fail, "13.1").await;
    run(&store, 21, 0, 0.95, Verdict::Pass, "13.1").await;
    dashboard_of(store).routes()
}

#[tokio::test]
async fn a_system_page_shows_values_and_changes_and_runs() {
    let pages = ten_nights().await;
    let (status, policy, page) = get(&pages, "/systems/nightly").await;
    let page = page.replace("&#x2f;", "/");
    assert_eq!(status, 200, "{page}");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"));
    for text in [
        "<h2>all-reduce: all_reduce plateau, GB/s <small>higher is better</small></h2>",
        "class=\"p pass\" data-run=\"nightly-9\"",
        "class=\"p fail\" data-run=\"nightly-3\"",
        "<g class=\"m setup\"><title>driver 13.1, was 13.0</title>",
        "<g class=\"m verdict\"><title>BELOW_BASELINE: ",
        "-5.0 %;",
        "driver 13.1, was 13.0</li>",
        "aria-current=\"page\">30 days</a>",
        "value=\"nightly-0\" form=\"compare\"",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<script>alert") && !page.contains("style="), "{page}");
    // In a shorter range, the change is at the first run, which is compared with the run before the range.
    let (_, _, week) = get(&pages, "/systems/nightly?days=7").await;
    assert!(week.contains("data-run=\"nightly-6\"") && !week.contains("data-run=\"nightly-7\""), "{week}");
    let (_, _, night) = get(&pages, &format!("/systems/nightly?night={}", today())).await;
    assert!(night.contains(">nightly-20</a>") && !night.contains(">nightly-5</a>"), "{night}");
    for (path, expected) in [
        ("/systems/none", 404),
        ("/systems/nightly?on=elsewhere", 404),
        ("/systems/nightly?days=8", 400),
        ("/systems/nightly?check=none", 404),
        ("/systems/nightly?days=all&check=all-reduce", 200),
    ] {
        assert_eq!(get(&pages, path).await.0, expected, "{path}");
    }
}

fn today() -> String {
    SystemClock.now().to_string().chars().take(10).collect()
}

#[tokio::test]
async fn cells_and_rows_have_values_and_every_run_of_a_night_is_visible() {
    let pages = ten_nights().await;
    let (status, _, page) = get(&pages, "/").await;
    let page = page.replace("&#x2f;", "/");
    assert_eq!(status, 200, "{page}");
    let today = today();
    for text in [
        "<span class=\"bad\">✗</span><span class=\"good\">2✓</span>",
        &*format!("{today}: 1 fail, 2 pass; the last: all-reduce: all_reduce plateau "),
        &format!("href=\"/systems/nightly?on=&amp;night={today}\""),
        "<a href=\"/systems/nightly?on=\">nightly</a>",
        "<small class=\"quiet metric\">all-reduce: all_reduce plateau, GB/s</small>",
        "<small class=\"quiet\">GB/s</small>",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let first = page.find(&format!("<abbr title=\"{today}\">")).unwrap();
    assert!(page[..first].rfind("<abbr").is_none(), "the newest night comes first");
    let start = page.find("data-begin").unwrap();
    assert!(start < page.find("class=\"nights\"").unwrap(), "the form is above the tables");
}

#[tokio::test]
async fn runs_are_found_by_text() {
    let pages = ten_nights().await;
    let (_, _, page) = get(&pages, "/?q=NIGHTLY-2").await;
    assert!(page.contains(">nightly-20</a>") && page.contains(">nightly-2</a>"), "{page}");
    assert!(!page.contains(">nightly-3</a></th>"), "{page}");
    let (_, _, page) = get(&pages, "/?q=nothing%3Cb%3E").await;
    assert!(
        page.contains("No matching run.") && !page.contains("<b>nothing") && !page.contains("nothing<b>")
    );
}

#[tokio::test]
async fn two_selected_runs_are_compared_with_the_earlier_one_first() {
    let pages = ten_nights().await;
    let (status, _, page) = get(&pages, "/compare?run=nightly-0&run=nightly-9").await;
    let page = page.replace("&#x2f;", "/");
    assert_eq!(status, 200, "{page}");
    for text in [
        "A: <a href=\"/runs/nightly-9\">",
        "B is slower: 336.6 of 354.4 GB/s at 1 GiB, 5.0 % lower",
        "Bus bandwidth by message size",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert_eq!(page.matches("<h1>").count(), 1);
    // With `a` and `b` the given order is kept: the run of the old driver is faster.
    let (_, _, page) = get(&pages, "/compare?a=nightly-0&b=nightly-9").await;
    assert!(page.contains("GB&#x2f;s (5.3 %) faster at 1 GiB"), "{page}");
    let (status, _, page) = get(&pages, "/compare?run=nightly-0&run=nightly-1&run=nightly-2").await;
    assert!(status == 400 && page.contains("Select two runs to compare; 3 are selected."), "{page}");
    let (status, _, page) = get(&pages, "/compare?run=nightly-0").await;
    assert!(status == 200 && page.contains("<option value=\"nightly-0\" selected>"), "{page}");
}

#[tokio::test]
async fn nodes_with_findings_are_listed_first_with_a_link_to_the_line() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    run_of_checks(&store, SystemClock.now()).await;
    let burn = sample("crates/measure/tests/samples/gpu-burn/faulty.txt");
    let at = Timestamp::from_millis(SystemClock.now().as_millis() - DAY);
    let check =
        Judged { name: "burn", reading: burn, verdict: Verdict::Fail, code: "TEST_FAILED", driver: "1" };
    judged_run(&store, "checked-0", at, vec![check], true).await;
    let (status, _, page) = get(&dashboard_of(store).routes(), "/systems/nightly").await;
    let page = page.replace("&#x2f;", "/");
    assert_eq!(status, 200, "{page}");
    let nodes = &page[page.find("<h2>Nodes</h2>").unwrap_or_else(|| panic!("{page}"))..];
    for text in ["GPU_FAULTY", "#L", "2 of 2"] {
        assert!(nodes.contains(text), "{text}: {nodes}");
    }
    assert!(nodes.contains("/runs/checked-1/logs/"), "{nodes}");
}

#[tokio::test]
async fn an_empty_dashboard_shows_the_first_commands() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (status, _, page) = get(&dashboard_of(store).routes(), "/").await;
    assert_eq!(status, 200, "{page}");
    for text in
        ["No runs yet", "<code>burnin init</code>", "<code>burnin run workflows/quickstart.yaml</code>"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[tokio::test]
async fn a_run_page_offers_to_start_the_workflow_again() {
    let pages = ten_nights().await;
    let (_, _, page) = get(&pages, "/runs/nightly-0").await;
    assert!(page.contains("<input type=\"hidden\" name=\"workflow\" value=\"nightly\">"), "{page}");
    assert!(page.contains(">Retry</button>") && !page.contains("data-cancel"), "{page}");
    let title = page.find("<h1>").unwrap();
    assert!(title < page.find("class=\"tools\"").unwrap(), "the controls follow the title");
    let page = page.replace("&#x2f;", "/");
    assert!(page.contains("all-reduce: all_reduce plateau ") && page.contains(" GB/s</p>"), "{page}");
    assert!(page.contains("<time datetime="), "{page}");
    // A dashboard without the gateway cannot start workflows.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    run(&store, 0, 0, 1.0, Verdict::Pass, "1").await;
    let pages = Dashboard { beside_gateway: false, ..dashboard_of(store) }.routes();
    assert!(!get(&pages, "/runs/nightly-0").await.2.contains("Retry"));
    assert_eq!(get(&pages, "/runs/nightly-0/output").await.0, 404);
}

struct NoOutput;

#[async_trait::async_trait]
impl JobOutput for NoOutput {
    async fn lines(&self, _: RunningJob<'_>, _: u64) -> Result<OutputLines, String> {
        Err("no job runs here".to_owned())
    }
}

#[tokio::test]
async fn the_output_of_a_closed_run_is_empty_and_not_polled_again() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    run(&store, 0, 0, 1.0, Verdict::Pass, "1").await;
    let pages = Dashboard { output: Some(Arc::new(NoOutput)), ..dashboard_of(store) }.routes();
    let (status, _, answer) = get(&pages, "/runs/nightly-0/output?after=7").await;
    assert_eq!(status, 200);
    assert_eq!(answer, r#"{"job":null,"check":null,"first":0,"lines":[],"last":0,"open":false}"#);
    assert_eq!(get(&pages, "/runs/none-1/output").await.0, 404);
    assert_eq!(get(&pages, "/runs/nightly-0/output?after=x").await.0, 400);
}
