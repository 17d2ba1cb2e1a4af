//! Pages of ledgers that the simulator wrote.

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
    // A workflow file with errors is shown in red with all its errors, and the workflow cannot be started.
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
async fn invalid_queries_and_absent_pages_return_an_error_status() {
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

/// The limit of 2 s is generous, because a page that reads every ledger again would take many times as long.
#[tokio::test]
async fn the_overview_of_2000_runs_keeps_its_limits_of_size_and_time() {
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
    let started = std::time::Instant::now();
    let (_, _, page) = get(&pages, "/").await;
    assert!(page.contains("rel=\"next\""));
    assert!(started.elapsed() < Span::from_secs(2).0, "{:?}", started.elapsed());
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

/// A store with a run on n0 and n1 that drained n1, an older run that passed, and then `later` runs only on n0.
async fn drained_and_then(later: i64) -> Arc<dyn Store> {
    use model::{Cluster, Drained, Fact, Locate, Node, SuspectNode, Suspects, Timestamp, Verdict, Workflow};
    use test_support::good_run::{cluster, job_done, logs, verdict, workflow};

    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let start = SystemClock.now().as_millis() - (later + 2) * 60_000;
    let at = |minute: i64| Timestamp::from_millis(start + minute * 60_000);
    let measured = |names: &[&str], reached| {
        let nodes = names.iter().map(|name| Node::new(*name, 1)).collect();
        let hall = Cluster { name: "hall".to_owned(), nodes, ..cluster() };
        vec![Fact::ClusterReady(hall), job_done(), logs(), verdict(reached)]
    };
    let bad = SuspectNode {
        node: "n1".to_owned(),
        confidence: 0.9,
        drained: Drained::Applied { reason: "burnin old-1: slow or wrong in pairs".to_owned() },
    };
    let located = Fact::NodesLocated(Suspects {
        nodes: vec![bad],
        links: vec![],
        undecided: None,
        tests: 3,
        best_busbw: None,
        object: "o".to_owned(),
        retested: vec![],
    });
    let searching = Workflow { locate: Some(Locate::default()), ..workflow() };
    let both = ["n0", "n1"];
    let put = crate::support::run_on_existing;
    put(&store, "old-0", at(0), workflow(), measured(&both, Verdict::Pass)).await;
    let facts = [measured(&both, Verdict::Fail), vec![located]].concat();
    put(&store, "old-1", at(1), searching, facts).await;
    for number in 0..later {
        put(&store, &format!("new-{number}"), at(2 + number), workflow(), measured(&["n0"], Verdict::Pass))
            .await;
    }
    store
}

#[tokio::test]
async fn a_drained_node_stays_listed_after_more_runs_than_the_page_reads() {
    let store = drained_and_then(310).await;
    let (status, _, page) = get(&dashboard_of(store).routes(), "/nodes").await;
    assert_eq!(status, 200, "{page}");
    for text in [">n1<", ">drained</td>", "/runs/old-1", "drained: burnin old-1: slow or wrong in pairs"] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

/// The stored verdict does not exist here; the record of a verdict lists at most 100 suspects, and the stored verdict lists all of them.
#[tokio::test]
async fn the_suspects_of_a_verdict_are_those_of_its_record() {
    use model::{Cluster, Fact, Node, VerdictSuspect};
    use run_index::NodeState;
    use test_support::good_run::{cluster, job_done, logs, verdict, workflow};

    let suspect = |node: &str| VerdictSuspect {
        node: node.to_owned(),
        evidence: vec!["gpu 3: gemm".to_owned(), String::new()],
    };
    let nodes = (0..120).map(|node| Node::new(format!("n{node}"), 8)).collect();
    let hall = Cluster { name: "hall".to_owned(), nodes, ..cluster() };
    let states = async |count: usize, object: Option<serde_json::Value>| {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        if let Some(object) = object {
            store.create("v", serde_json::to_vec(&object).unwrap().into()).await.unwrap();
        }
        let Fact::VerdictReached(mut reached) = verdict(model::Verdict::Fail) else { unreachable!() };
        reached.suspects = (0..count).map(|node| suspect(&format!("n{node}.hall.example"))).collect();
        let facts = vec![Fact::ClusterReady(hall.clone()), job_done(), logs(), Fact::VerdictReached(reached)];
        crate::support::run_on_existing(&store, "night-1", SystemClock.now(), workflow(), facts).await;
        dashboard_of(store).run_index.nodes(None, 9).await.unwrap().nodes
    };
    let found = states(1, None).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].node.as_str(), found[0].state), ("n0", NodeState::Suspected));
    assert_eq!(found[0].changes[0].evidence, ["gpu 3: gemm"]);
    let all: Vec<_> = (0..120)
        .map(|node| {
            serde_json::json!({
                "rank": null, "bus_id": null, "host": format!("n{node}"), "gpu": 3, "evidence": ["gemm"], "confidence": 0.9,
            })
        })
        .collect();
    let stored = serde_json::json!({
        "schema": "burnin/verdict/v1", "verdict": "fail", "reasons": [], "suspects": all, "criteria": "c", "judged_by": {"metrics": []},
    });
    // The record has the maximum of 100 suspects, or none because an earlier version wrote it.
    for count in [100, 0] {
        let found = states(count, Some(stored.clone())).await;
        assert_eq!(found.len(), 120, "all suspects are listed with {count} in the record");
        assert!(found.iter().all(|node| node.changes[0].evidence == ["gpu 3: gemm"]), "{found:?}");
    }
}

#[tokio::test]
async fn runs_with_evidence_against_nodes_are_read_beyond_the_limit() {
    use model::{RunId, Verdict};
    use run_index::NodeState;

    let states = async |store: &Arc<dyn Store>, limit: usize| {
        let nodes = dashboard_of(Arc::clone(store)).run_index.nodes(None, limit).await.unwrap();
        let states: Vec<_> = nodes.nodes.iter().map(|node| (node.node.clone(), node.state)).collect();
        (states, nodes.older_runs)
    };
    let expected = [("n1".to_owned(), NodeState::Drained), ("n0".to_owned(), NodeState::Good)];
    let store = drained_and_then(8).await;
    let (found, older) = states(&store, 2).await;
    assert_eq!(found, expected);
    // Two of the six older runs after the drain were read, because they might have returned the node.
    assert_eq!(older, 5);
    // Summaries of an earlier version do not state which runs have evidence against nodes.
    let store = drained_and_then(300).await;
    let run_index = dashboard_of(Arc::clone(&store)).run_index;
    let all = run_index.all().await.unwrap();
    let marked: Vec<&RunId> = all
        .iter()
        .filter(|summary| summary.changes_nodes == Some(true))
        .map(|summary| &summary.run)
        .collect();
    assert_eq!(marked.iter().map(|run| run.as_str()).collect::<Vec<_>>(), ["old-1"]);
    let segments = store.list("view/").await.unwrap();
    assert_eq!(segments.len(), 2);
    for name in segments {
        let body = store.read(&name).await.unwrap().unwrap();
        let mut segment: serde_json::Value = serde_json::from_slice(&body).unwrap();
        for line in segment["lines"].as_array_mut().unwrap() {
            assert!(line.as_object_mut().unwrap().remove("changes_nodes").is_some());
        }
        store.remove(&name).await.unwrap();
        store.create(&name, serde_json::to_vec(&segment).unwrap().into()).await.unwrap();
    }
    assert_eq!(states(&store, 2).await.0, expected);
    // A passed run on the node, beyond the limit, returned the node to service.
    let returned = drained_and_then(0).await;
    let now = SystemClock.now().as_millis();
    let cluster = |names: &[&str]| model::Cluster {
        name: "hall".to_owned(),
        nodes: names.iter().map(|name| model::Node::new(*name, 1)).collect(),
        ..test_support::good_run::cluster()
    };
    for (number, names) in (0..).zip([&["n0", "n1"][..], &["n0"], &["n0"], &["n0"]]) {
        use test_support::good_run::{job_done, logs, verdict, workflow};
        let facts =
            vec![model::Fact::ClusterReady(cluster(names)), job_done(), logs(), verdict(Verdict::Pass)];
        let at = model::Timestamp::from_millis(now + number * 60_000);
        crate::support::run_on_existing(&returned, &format!("late-{number}"), at, workflow(), facts).await;
    }
    let (found, _) = states(&returned, 2).await;
    assert_eq!(found[0], ("n1".to_owned(), NodeState::Returned));
}
