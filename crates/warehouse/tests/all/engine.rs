//! Statements and views on an engine that reads GoogleSQL.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bigquery_standin::engine::Engine;
use fastrand::Rng;
use model::{Conclusion, Money, NodeResult, NodeResultKind, RunUsed, Span, Timestamp, Verdict};
use warehouse::{
    FindingRow, Load, MeasurementRow, MetricRow, NodeResultRow, PastQuery, Sqlite, TABLES, VerdictRow,
    Warehouse,
    bigquery::{BigQuery, BigQueryOptions},
};

const DATASET: &str = "burnin";

async fn engine(project: &str) -> (Engine, BigQuery) {
    let engine = Engine::from_env(project).unwrap();
    engine.dataset(DATASET).await.unwrap();
    for table in TABLES {
        engine.table(DATASET, table.name, &table.bigquery()).await.unwrap();
    }
    let (wait_for_others, every, poll_interval) = (Duration::ZERO, Duration::ZERO, Duration::from_millis(5));
    let options = BigQueryOptions { wait_for_others, every, poll_interval, ..BigQueryOptions::default() };
    let store = engine.bucket(project).unwrap();
    let warehouse = BigQuery::new(project, DATASET, Some(engine.endpoint.clone()), store, options);
    (engine, warehouse)
}

/// A run on a cluster, `minutes` minutes ago.
fn run(name: &str, identity: &str, minutes: i64, verdict: Option<Verdict>, busbw: &[f64]) -> Load {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let requested_at = Some(Timestamp::from_millis(now - minutes * 60_000));
    let row = |(row_number, busbw): (u32, &f64)| MeasurementRow {
        run: name.into(),
        workflow: "it's `nightly`".into(),
        attempt: 1,
        log: "1/node-0.log".to_owned(),
        row_number,
        placement: if row_number % 2 == 0 { "out_of_place" } else { "in_place" }.to_owned(),
        collective: Some("all_reduce".to_owned()),
        ranks: Some(16),
        size_bytes: 1 << 30,
        count: 1 << 28,
        dtype: "float".to_owned(),
        time_us: 1e4,
        algbw: busbw / 1.875,
        busbw: *busbw,
        wrong: Some(0),
        requested_at,
        verdict,
        identity: Some(identity.into()),
        fingerprint: Some(r#"{"nccl":"2.28.9"}"#.into()),
        ..MeasurementRow::default()
    };
    let verdict_row = VerdictRow {
        run: name.into(),
        workflow: "it's `nightly`".into(),
        attempt: 1,
        requested_at,
        verdict,
        reasons: "SLOWER".to_owned(),
        identity: Some(identity.into()),
        fingerprint: r#"{"nccl":"2.28.9"}"#.into(),
        measurements: busbw.len() as u64,
        ..VerdictRow::default()
    };
    Load { verdicts: vec![verdict_row], rows: (0..).zip(busbw).map(row).collect(), ..Load::default() }
}

/// A metric of two GPUs on each of two nodes, with one unmeasurable value, and a finding.
fn metrics_of(run: &str, shift: f64) -> Load {
    let values = [("n1", 0, Some(1.0)), ("n1", 1, Some(2.0)), ("n2", 0, Some(4.0)), ("n2", 1, None)];
    let row = |(metric_number, (node, gpu, value)): (u64, (&str, u32, Option<f64>))| MetricRow {
        run: run.into(),
        workflow: "w".into(),
        attempt: 1,
        check_name: Some("memory".into()),
        log: format!("c2a1/{node}.log").into(),
        metric_number,
        line: 3,
        metric: "memory.copy".into(),
        unit: "GB/s".into(),
        better: "higher".into(),
        scope: "gpu".into(),
        node: Some(node.into()),
        gpu: Some(gpu),
        labels: "{}".into(),
        value: value.map(|value| value + shift),
        unmeasurable: value.is_none().then(|| "Waived".into()),
        requested_at: Some(Timestamp::from_millis(if run == "m-1" { 1_000 } else { 2_000 })),
        ..MetricRow::default()
    };
    let finding = FindingRow {
        run: run.into(),
        workflow: "w".into(),
        attempt: 1,
        check_name: Some("memory".into()),
        log: "c2a1/n1.log".into(),
        line: 5,
        code: "XID_79".into(),
        severity: "hardware".into(),
        node: Some("n1".into()),
        gpu: Some(1),
        serial: Some("S1".into()),
        text: format!("fallen off the bus in {run}"),
        requested_at: Some(Timestamp::from_millis(if run == "m-1" { 1_000 } else { 2_000 })),
        ..FindingRow::default()
    };
    Load { metrics: (0..).zip(values).map(row).collect(), findings: vec![finding], ..Load::default() }
}

/// A closed run on 4 nodes at 2.50 per hour.
fn over(name: &str, minutes: u64) -> Load {
    let used = RunUsed {
        workflow: "it's `nightly`".into(),
        requested_at: Timestamp::from_millis(1_000_000),
        closed_at: Timestamp::from_millis(7_200_000),
        conclusion: Conclusion::Completed,
        verdict: Some(Verdict::Pass),
        nodes: 4,
        held: Span::from_secs(60 * minutes),
        busy: Span::from_secs(15 * 60),
        spent: Some(Money::from_micros(2_500_000).for_hours_of(4, Span::from_secs(60 * minutes))),
        currency: Some("EUR".to_owned()),
        cluster: Some("hall".to_owned()),
        node_results: vec![NodeResult {
            node: "n3".to_owned(),
            result: NodeResultKind::Drained,
            detail: "slow".to_owned(),
        }],
    };
    Load::used(&name.parse().unwrap(), &used)
}

#[tokio::test]
#[ignore = "needs an engine: run .ci/bigquery.sh"]
async fn bigquery_and_sqlite_return_the_same_rows() {
    let (_, bigquery) = engine("both").await;
    let folder = tempfile::tempdir().unwrap();
    let sqlite = Sqlite::open(&folder.path().join("warehouse.sqlite")).unwrap();
    let mut dice = Rng::with_seed(7);
    let mut runs = Vec::new();
    for number in 0..40 {
        let name = format!("run-{number}");
        let verdict = dice.choice([None, Some(Verdict::Pass), Some(Verdict::Fail)]).unwrap();
        // Some runs have the same time.
        let load = run(
            &name,
            if dice.u8(..4) == 0 { "b" } else { "a" },
            dice.i64(1..25),
            verdict,
            &[dice.f64(), 1e-9],
        );
        let id = format!("{name}.1");
        assert_eq!((bigquery.load(&id, &load).await, sqlite.load(&id, &load).await), (Ok(2), Ok(2)));
        runs.push(load);
    }
    let mut found = 0;
    for load in &runs {
        let verdict_row = &load.verdicts[0];
        assert_eq!(bigquery.rows(&verdict_row.run).await, sqlite.rows(&verdict_row.run).await);
        assert_eq!(bigquery.verdicts(&verdict_row.run).await, sqlite.verdicts(&verdict_row.run).await);
        let wanted = PastQuery {
            workflow: verdict_row.workflow.to_string(),
            identity: dice.choice(["a", "b", "' OR TRUE --"]).unwrap().to_owned(),
            before: verdict_row.requested_at.unwrap(),
            oldest: dice.u32(..6),
            newest: dice.u32(..6),
            measured: Default::default(),
        };
        let (here, there) = (sqlite.past(&wanted).await.unwrap(), bigquery.past(&wanted).await.unwrap());
        assert_eq!(there, here, "{wanted:?}");
        found += here.len();
    }
    assert!(found > 40, "{found} runs were found, too few to test the queries");
}

#[tokio::test]
#[ignore = "needs an engine: run .ci/bigquery.sh"]
async fn views_have_descriptions() {
    let (engine, bigquery) = engine("views").await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/bigquery/views");
    let mut views = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        // Terraform replaces this placeholder in the same way.
        let statement = std::fs::read_to_string(&path).unwrap().replace("${dataset}", "views.burnin");
        engine.view(DATASET, path.file_stem().unwrap().to_str().unwrap(), &statement).await.unwrap();
        views += 1;
    }
    assert_eq!(views, 10, "each view has a test");
    // Thirteen runs of one cluster, oldest first, and two runs of another cluster; the last one was not judged.
    let curve: Vec<f64> =
        [400., 410., 390., 405., 395., 402., 398., 401., 399., 403., 397., 300., 310.].into();
    let mut loads: Vec<_> = (0..)
        .zip(&curve)
        .map(|(at, busbw)| {
            let verdict = if *busbw < 350. { Verdict::Fail } else { Verdict::Pass };
            run(&format!("a-{at:02}"), "a", 60 * (20 - at), Some(verdict), &[*busbw, busbw - 8.])
        })
        .collect();
    loads.push(run("b-0", "b", 300, Some(Verdict::Fail), &[100.]));
    loads.push(run("b-1", "b", 30, None, &[100.]));
    for load in &loads {
        bigquery.load(&format!("{}.1", load.verdicts[0].run), load).await.unwrap();
    }

    let select = async |columns: &str, view: &str, order: &str| {
        let statement = format!("SELECT {columns} FROM `views.burnin.{view}` ORDER BY {order}");
        engine.select(&statement).await.unwrap()
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        select("identity, run, verdict, reasons", "latest_verdicts", "identity").await,
        [
            [text("a"), text("a-12"), text("fail"), text("SLOWER")],
            [text("b"), text("b-1"), None, text("SLOWER")]
        ]
    );

    for (run, shift) in [("m-1", 0.0), ("m-2", 10.0)] {
        bigquery.load(&format!("{run}.c2a1"), &metrics_of(run, shift)).await.unwrap();
    }
    let cells = |rows: Vec<Vec<Option<String>>>| -> Vec<String> {
        let row = |row: Vec<Option<String>>| row.into_iter().map(|cell| cell.unwrap_or("-".into()));
        rows.into_iter().map(|cells| row(cells).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(
        cells(select("node, gpu, run, value, unmeasurable", "metrics_latest", "node, gpu").await),
        ["n1 0 m-2 11.0 -", "n1 1 m-2 12.0 -", "n2 0 m-2 14.0 -", "n2 1 m-2 - Waived"]
    );
    assert_eq!(
        cells(select("run, measured, unmeasurable, median, min, max", "metrics_trend", "run").await),
        ["m-1 3 1 2.0 1.0 4.0", "m-2 3 1 12.0 11.0 14.0"]
    );
    assert_eq!(
        cells(select("run, node, measured, unmeasurable, median", "metrics_by_node", "run, node").await),
        ["m-1 n1 2 0 1.5", "m-1 n2 1 1 4.0", "m-2 n1 2 0 11.5", "m-2 n2 1 1 14.0"]
    );

    assert_eq!(
        cells(
            select("code, node, gpu, runs, last_run, last_serial, last_text", "findings_by_subject", "gpu")
                .await
        ),
        ["XID_79 n1 1 2 m-2 S1 fallen off the bus in m-2"]
    );

    // A newer result of n3 replaces its first one. Nodes of provisioned clusters are not shown.
    let result = |run: &str, at: i64, cluster: Option<&str>, node: &str, result: &str| NodeResultRow {
        run: run.into(),
        workflow: "nightly".into(),
        cluster: cluster.map(Into::into),
        node: node.into(),
        result: result.into(),
        requested_at: Some(Timestamp::from_millis(at)),
        ..NodeResultRow::default()
    };
    let results = [
        vec![
            result("n-1", 1_000, Some("hall"), "n3", "drained"),
            result("n-1", 1_000, None, "n4", "drained"),
        ],
        vec![result("n-2", 2_000, Some("hall"), "n3", "returned")],
        vec![
            result("n-3", 3_000, Some("hall"), "n3", "suspected"),
            result("n-3", 3_000, Some("hall"), "n5", "suspected"),
        ],
        vec![result("n-4", 4_000, Some("hall"), "n5", "passed")],
    ];
    for node_results in results {
        let load = format!("{}.nodes", node_results[0].run);
        bigquery.load(&load, &Load { node_results, ..Load::default() }).await.unwrap();
    }
    assert_eq!(
        cells(select("cluster, node, state, result, run", "nodes_latest", "node").await),
        ["hall n3 failed_again suspected n-3", "hall n5 good passed n-4"]
    );
    assert_eq!(
        cells(select("node, state, run", "nodes_history", "node, since, state").await),
        [
            "n3 drained n-1",
            "n3 in_retest n-2",
            "n3 returned n-2",
            "n3 failed_again n-3",
            "n5 suspected n-3",
            "n5 good n-4"
        ]
    );

    // A cluster of the second run reappeared after the end: those hours are counted once.
    for (name, minutes) in [("a-00", 30), ("a-01", 30), ("a-01", 60)] {
        bigquery.load(&format!("{name}.used.{minutes}"), &over(name, minutes)).await.unwrap();
    }
    let hours = select("runs, node_hours, idle_node_hours, cost, currency", "cluster_hours", "day").await;
    let [hours] = &hours[..] else { panic!("expected one row, for one workflow and one day: {hours:?}") };
    let figures: Vec<f64> = hours[..4].iter().map(|cell| cell.as_ref().unwrap().parse().unwrap()).collect();
    assert_eq!((figures, hours[4].clone()), (vec![2.0, 6.0, 4.0, 15.0], text("EUR")));

    let trend = select("run, placement, busbw, median_before", "trend", "run, placement").await;
    let number = |cell: &Option<String>| cell.as_ref().map(|text| text.parse::<f64>().unwrap());
    let medians: BTreeMap<_, _> = trend
        .iter()
        .map(|row| ((row[0].clone().unwrap(), row[1].clone().unwrap()), (number(&row[2]), number(&row[3]))))
        .collect();
    assert_eq!(medians.len(), 28, "each run has one row per size and placement: {trend:?}");
    for (at, busbw) in curve.iter().enumerate() {
        let mut before = curve[at.saturating_sub(10)..at].to_vec();
        before.sort_by(f64::total_cmp);
        let middle = before.len() / 2;
        let median = match before.len() {
            0 => None,
            even if even % 2 == 0 => Some((before[middle - 1] + before[middle]) / 2.),
            _ => Some(before[middle]),
        };
        for (placement, less) in [("out_of_place", 0.), ("in_place", 8.)] {
            let levels = medians[&(format!("a-{at:02}"), placement.to_owned())];
            assert_eq!(
                levels,
                (Some(busbw - less), median.map(|median| median - less)),
                "run {at}, {placement}"
            );
        }
    }

    let staleness = select("identity, hours_since_any, hours_since_pass", "staleness", "identity").await;
    let hours: Vec<_> = staleness.iter().map(|row| (number(&row[1]), number(&row[2]))).collect();
    let close =
        |reported: Option<f64>, hours: f64| reported.is_some_and(|reported| (reported - hours).abs() < 0.1);
    // The last passed run of the first cluster is a-10.
    assert!(close(hours[0].0, 8.) && close(hours[0].1, 10.), "{staleness:?}");
    assert!(close(hours[1].0, 0.5) && hours[1].1.is_none(), "the second cluster never passed: {staleness:?}");
}
