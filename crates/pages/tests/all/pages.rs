//! Pages over simulated ledgers.

use std::sync::Arc;

use crate::support::{dashboard_of, get, pages, run_of_checks};
use ledger::{MemoryStore, Store};
use model::Span;
use service::{Clock, SystemClock};

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
        "<b>bad</b> cannot be started:",
        "<li>bad.yaml:1:1: ",
        "<b class=\"bad broken\">broken</b>",
        "<b>changed</b> has errors; its last valid version stays in use:",
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
async fn nodes_have_their_states_with_dates_and_evidence() {
    use model::{
        AfterPass, Cluster, Drained, Fact, Locate, Retest, RetestedNode, Returned, SuspectNode, Suspects,
        Timestamp, Verdict, Workflow,
    };
    use test_support::good_run::{cluster, job_done, logs, verdict, workflow};

    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let ended = |nodes, retested| {
        let (links, undecided, object) = (vec![], None, "o".to_owned());
        Fact::NodesLocated(Suspects { nodes, links, undecided, tests: 3, best_busbw: None, object, retested })
    };
    let hall = Cluster { name: "hall".to_owned(), ..cluster() };
    let measured = |reached| vec![Fact::ClusterReady(hall.clone()), job_done(), logs(), verdict(reached)];
    let at = |minutes: i64| Timestamp::from_millis(SystemClock.now().as_millis() - minutes * 60_000);
    let drained = Drained::Applied { reason: format!("burnin night-1: {}", crate::support::HOSTILE) };
    let bad = SuspectNode { node: "n1".to_owned(), confidence: 0.9, drained };
    let located = [measured(Verdict::Fail), vec![ended(vec![bad], vec![])]].concat();
    let searching = || Workflow { locate: Some(Locate::default()), ..workflow() };
    crate::support::run_on_existing(&store, "night-0", at(90), workflow(), measured(Verdict::Pass)).await;
    crate::support::run_on_existing(&store, "night-1", at(60), searching(), located).await;
    let pages = dashboard_of(Arc::clone(&store)).routes();
    let (status, policy, page) = get(&pages, "/nodes").await;
    assert_eq!(status, 200, "{page}");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"));
    for text in [
        "2 nodes of existing clusters",
        ">drained</td>",
        "bad in 3 pairs; drained: burnin night-1: ",
        "<summary>1 node</summary>",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert"));
    let retest = Retest { nodes: vec!["n1".to_owned()], after_pass: AfterPass::Return };
    let node = RetestedNode { node: "n1".to_owned(), returned: Returned::Applied };
    let facts = [measured(Verdict::Pass), vec![ended(vec![], vec![node])]].concat();
    crate::support::run_on_existing(
        &store,
        "night-2",
        at(30),
        Workflow { retest: Some(retest), ..workflow() },
        facts,
    )
    .await;
    let (_, _, page) = get(&dashboard_of(store).routes(), "/nodes?cluster=hall").await;
    assert!(page.contains(">returned</td>") && page.contains("passed its re-test"), "{page}");
    let (_, _, none) = get(&pages, "/nodes?cluster=none").await;
    assert!(none.contains("No judged run measured a node of an existing cluster named none"), "{none}");
}
