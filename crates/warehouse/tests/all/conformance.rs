//! The conformance suite, on SQLite and in memory.

use model::Timestamp;
use warehouse::{
    Error, FindingRow, Load, MeasurementRow, MetricRow, NodeResultRow, RunRow, Sqlite, Warehouse,
    conformance, memory::Memory,
};

#[tokio::test]
async fn the_memory_warehouse_conforms() {
    conformance::loads(&Memory::default()).await;
    conformance::history(&Memory::default()).await;
}

#[tokio::test]
async fn the_sqlite_warehouse_conforms() {
    let folder = tempfile::tempdir().unwrap();
    conformance::loads(&Sqlite::open(&folder.path().join("loads.sqlite")).unwrap()).await;
    conformance::history(&Sqlite::open(&folder.path().join("history.sqlite")).unwrap()).await;
}

fn row(row_number: u32) -> MeasurementRow {
    MeasurementRow {
        run: "a".into(),
        workflow: "w".into(),
        attempt: 1,
        log: "1/node-0.log".into(),
        row_number,
        placement: "in_place".into(),
        size_bytes: 8,
        count: 2,
        dtype: "float".into(),
        time_us: 1.5,
        wrong: Some(0),
        ..MeasurementRow::default()
    }
}

async fn load(warehouse: &Sqlite, id: &str, rows: &[MeasurementRow]) -> Result<u64, Error> {
    warehouse.load(id, &Load { rows: rows.to_vec(), ..Load::default() }).await
}

#[tokio::test]
async fn loads_are_kept_after_the_file_is_reopened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    assert_eq!(load(&Sqlite::open(&path).unwrap(), "one", &[row(0), row(1)]).await.unwrap(), 2);
    let again = Sqlite::open(&path).unwrap();
    assert_eq!(load(&again, "one", &[]).await.unwrap(), 2, "the load is recorded, not only its rows");
    assert_eq!(again.rows("a").await.unwrap(), [row(0), row(1)]);
}

#[tokio::test]
async fn unstorable_rows_are_rejected_and_no_row_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let warehouse = Sqlite::open(&folder.path().join("warehouse.sqlite")).unwrap();
    let too_large = MeasurementRow { size_bytes: u64::MAX, ..row(1) };
    let no_number = MeasurementRow { busbw: f64::NAN, ..row(1) };
    for (load, bad) in [("twice", row(0)), ("too large", too_large), ("no number", no_number)] {
        let refused = self::load(&warehouse, load, &[row(0), bad]).await;
        assert!(matches!(refused, Err(Error::Permanent(_))), "{load}: {refused:?}");
        assert_eq!(warehouse.rows("a").await.unwrap(), [], "{load}: all rows are stored, or none");
    }
    assert_eq!(load(&warehouse, "twice", &[row(0)]).await.unwrap(), 1, "a rejected load is not recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_loads_of_one_id_load_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    let openers = [Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap()];
    let [one, two] = &openers;
    for load in 0..20 {
        let (id, rows) = (format!("load-{load}"), [row(2 * load), row(2 * load + 1)]);
        let (first, second) = tokio::join!(self::load(one, &id, &rows), self::load(two, &id, &rows));
        assert_eq!((first.unwrap(), second.unwrap()), (2, 2));
    }
    assert_eq!(one.rows("a").await.unwrap().len(), 40);
}

#[tokio::test]
async fn a_file_of_an_earlier_version_gets_the_missing_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    let before = Sqlite::open(&path).unwrap();
    load(&before, "one", &[row(0)]).await.unwrap();
    drop(before);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("ALTER TABLE measurements DROP COLUMN fingerprint; DROP TABLE verdicts;").unwrap();
    drop(file);
    let after = Sqlite::open(&path).unwrap();
    load(&after, "two", &[row(1)]).await.unwrap();
    assert_eq!(after.rows("a").await.unwrap(), [row(0), row(1)]);
    assert_eq!(after.verdicts("a").await.unwrap(), []);
}

fn metric(run: &str, check: Option<&str>, node: &str, number: u64, value: Option<f64>) -> MetricRow {
    MetricRow {
        run: run.into(),
        workflow: "w".into(),
        attempt: 1,
        check_name: check.map(Into::into),
        log: format!("1/{node}.log").into(),
        metric_number: number,
        line: number + 1,
        metric: "memory.copy".into(),
        unit: "GB/s".into(),
        better: "higher".into(),
        scope: "node".into(),
        node: Some(node.into()),
        labels: "{}".into(),
        value,
        unmeasurable: value.is_none().then(|| "Waived".into()),
        requested_at: Some(Timestamp::from_millis(if run == "a" { 1_000 } else { 2_000 })),
        ..MetricRow::default()
    }
}

#[tokio::test]
async fn a_file_without_metrics_is_extended_and_keeps_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(include_str!("../before_metrics.sql")).unwrap();
    drop(file);
    for _ in 0..2 {
        let warehouse = Sqlite::open(&path).unwrap();
        assert_eq!(warehouse.rows("a").await.unwrap(), [row(0)]);
        assert_eq!(warehouse.verdicts("a").await.unwrap()[0].reasons, "SANE");
        let again = Load { rows: vec![row(0)], ..Load::default() };
        assert_eq!(
            warehouse.load("a.1", &again).await,
            Ok(1),
            "the load of the earlier version is recognized"
        );
        let metrics = vec![metric("b", Some("memory"), "n1", 0, Some(1.0))];
        let findings = vec![finding("b", 0, 1)];
        let node_results = vec![node_result("b", "n1")];
        let load = Load {
            metrics: metrics.clone(),
            findings: findings.clone(),
            node_results: node_results.clone(),
            ..Load::default()
        };
        assert_eq!(warehouse.load("b.c2a1", &load).await, Ok(1));
        assert_eq!(warehouse.metrics("b").await.unwrap(), metrics);
        assert_eq!(warehouse.findings("b").await.unwrap(), findings);
        assert_eq!(warehouse.node_results("b").await.unwrap(), node_results);
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    let views = "SELECT count(*) FROM metrics_latest, metrics_trend, metrics_by_node, findings_by_subject, nodes_latest, nodes_history";
    assert_eq!(file.query_row(views, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

/// The states of the table in `run_index::nodes`.
#[tokio::test]
async fn the_view_of_nodes_has_the_states_of_burnin_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    let warehouse = Sqlite::open(&path).unwrap();
    let nights = [
        ("n1", ["suspected", "passed"].as_slice(), "good"),
        ("n2", &["passed", "drained", "retest_passed"], "drained"),
        ("n3", &["drained", "retest_failed"], "failed_again"),
        ("n4", &["drained", "returned", "passed"], "returned"),
        ("n5", &["drained", "passed", "suspected"], "failed_again"),
        ("n6", &["passed", "suspected", "retest_failed"], "suspected"),
        ("n7", &["passed"], "good"),
        ("n8", &["suspected", "returned"], "returned"),
        ("n9", &["suspected", "returned", "suspected"], "failed_again"),
        ("o1", &["suspected", "retest_passed"], "good"),
        ("o2", &["suspected", "returned", "retest_passed"], "returned"),
    ];
    for (node, results, _) in nights {
        for (at, result) in (1..).zip(results) {
            let run = format!("{node}-{at}");
            let requested_at = Some(Timestamp::from_millis(at));
            let row = NodeResultRow { result: (*result).into(), requested_at, ..node_result(&run, node) };
            let load = Load { node_results: vec![row], ..Load::default() };
            warehouse.load(&format!("{run}.nodes"), &load).await.unwrap();
        }
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    let mut states = file.prepare("SELECT node, state, result FROM nodes_latest ORDER BY node").unwrap();
    let states: Vec<(String, String, String)> = states
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let expected: Vec<_> = nights
        .iter()
        .map(|(node, results, state)| {
            ((*node).to_owned(), (*state).to_owned(), (*results.last().unwrap()).to_owned())
        })
        .collect();
    assert_eq!(states, expected);
}

fn node_result(run: &str, node: &str) -> NodeResultRow {
    NodeResultRow {
        run: run.into(),
        workflow: "w".into(),
        cluster: Some("hall".into()),
        node: node.into(),
        result: "drained".into(),
        requested_at: Some(Timestamp::from_millis(2_000)),
        ..NodeResultRow::default()
    }
}

fn finding(run: &str, finding_number: u64, gpu: u32) -> FindingRow {
    FindingRow {
        run: run.into(),
        workflow: "w".into(),
        attempt: 1,
        log: "1/n1.log".into(),
        finding_number,
        line: 1 + finding_number,
        code: "XID_79".into(),
        severity: "hardware".into(),
        node: Some("n1".into()),
        gpu: Some(gpu),
        serial: Some(format!("S{gpu}").into()),
        text: format!("fallen off the bus in {run}"),
        requested_at: Some(Timestamp::from_millis(if run == "a" { 1_000 } else { 2_000 })),
        ..FindingRow::default()
    }
}

#[tokio::test]
async fn a_metric_that_is_loaded_twice_is_rejected_and_no_row_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let warehouse = Sqlite::open(&folder.path().join("warehouse.sqlite")).unwrap();
    let load = |check: Option<&str>| Load {
        rows: vec![row(0)],
        metrics: vec![metric("a", check, "n1", 0, Some(1.0)), metric("a", check, "n1", 0, Some(2.0))],
        ..Load::default()
    };
    for check in [None, Some("memory")] {
        let refused = warehouse.load("a.1", &load(check)).await;
        assert!(matches!(refused, Err(Error::Permanent(_))), "{refused:?}");
    }
    assert_eq!((warehouse.rows("a").await.unwrap(), warehouse.metrics("a").await.unwrap()), (vec![], vec![]));
}

#[tokio::test]
async fn the_views_of_a_file_summarize_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    let warehouse = Sqlite::open(&path).unwrap();
    for (run, shift) in [("a", 0.0), ("b", 10.0)] {
        let mut metrics = vec![
            metric(run, None, "n1", 0, Some(shift + 1.0)),
            metric(run, None, "n1", 1, Some(shift + 2.0)),
            metric(run, None, "n2", 0, Some(shift + 4.0)),
            metric(run, None, "n2", 1, Some(shift + 9.0)),
            metric(run, None, "n3", 0, None),
        ];
        // A node of the first run that is not in the second run.
        metrics.extend((run == "a").then(|| metric(run, None, "n4", 0, Some(3.0))));
        let mut findings = vec![finding(run, 0, 1), finding(run, 1, 1)];
        findings.extend((run == "a").then(|| finding(run, 2, 5)));
        let load = Load { metrics, findings, ..Load::default() };
        warehouse.load(&format!("{run}.1"), &load).await.unwrap();
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    let select = |query: &str| -> Vec<String> {
        let mut query = file.prepare(query).unwrap();
        let columns = query.column_count();
        let rows = query.query_map([], |row| {
            let cell = |at| row.get::<_, rusqlite::types::Value>(at);
            let cells = (0..columns).map(|at| {
                Ok(match cell(at)? {
                    rusqlite::types::Value::Text(text) => text,
                    rusqlite::types::Value::Real(real) => real.to_string(),
                    rusqlite::types::Value::Integer(whole) => whole.to_string(),
                    _ => "-".to_owned(),
                })
            });
            Ok(cells.collect::<rusqlite::Result<Vec<_>>>()?.join(" "))
        });
        rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
    };
    assert_eq!(
        select("SELECT node, run, value, unmeasurable FROM metrics_latest ORDER BY node"),
        ["n1 b 12 -", "n2 b 19 -", "n3 b - Waived", "n4 a 3 -"]
    );
    assert_eq!(
        select("SELECT run, measured, unmeasurable, median, min, max FROM metrics_trend ORDER BY run"),
        ["a 5 1 3 1 9", "b 4 1 13 11 19"]
    );
    assert_eq!(
        select(
            "SELECT run, node, measured, unmeasurable, median, min, max FROM metrics_by_node WHERE run = 'b' ORDER BY node"
        ),
        ["b n1 2 0 11.5 11 12", "b n2 2 0 16.5 14 19", "b n3 0 1 - - -"]
    );
    assert_eq!(
        select(
            "SELECT code, node, gpu, runs, last_run, last_serial, last_text FROM findings_by_subject ORDER BY gpu"
        ),
        ["XID_79 n1 1 2 b S1 fallen off the bus in b", "XID_79 n1 5 1 a S5 fallen off the bus in a",]
    );
    let page = include_str!("../../../../docs/WAREHOUSE.md");
    let (_, example) = page.split_once("```sql\n").unwrap();
    let example = example.split("```").next().unwrap();
    let expected = ["n1 - memory.copy 2 0.5"];
    assert_eq!(select(example), expected, "the example in docs/WAREHOUSE.md");
}

#[tokio::test]
async fn the_history_of_nodes_has_each_change_and_the_time_of_each_retest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    let warehouse = Sqlite::open(&path).unwrap();
    let results = [
        ("n1", ["passed", "passed", "drained", "retest_passed", "returned", "passed"].as_slice()),
        ("n2", &["suspected", "retest_failed"]),
    ];
    for (node, results) in results {
        for (hour, result) in (1..).zip(results) {
            let at = |minutes: i64| Some(Timestamp::from_millis((hour * 60 + minutes) * 60_000));
            let run = format!("{node}-{hour}");
            let row =
                NodeResultRow { result: (*result).into(), requested_at: at(0), ..node_result(&run, node) };
            let load = Load { node_results: vec![row], ..Load::default() };
            warehouse.load(&format!("{run}.nodes"), &load).await.unwrap();
            let closed = RunRow { run: run.clone(), closed_at: at(30), ..RunRow::default() };
            let load = Load { runs: vec![closed], ..Load::default() };
            warehouse.load(&format!("{run}.used"), &load).await.unwrap();
        }
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    let query = "SELECT node || ' ' || state || ' ' || substr(since, 12, 5) || ' ' || run FROM nodes_history ORDER BY node, since";
    let mut changes = file.prepare(query).unwrap();
    let changes: Vec<String> = changes.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(
        changes,
        [
            "n1 good 01:30 n1-1",
            "n1 drained 03:30 n1-3",
            "n1 in_retest 04:00 n1-4",
            "n1 drained 04:30 n1-4",
            "n1 in_retest 05:00 n1-5",
            "n1 returned 05:30 n1-5",
            "n2 suspected 01:30 n2-1",
            "n2 in_retest 02:00 n2-2",
            "n2 suspected 02:30 n2-2",
        ]
    );
}
