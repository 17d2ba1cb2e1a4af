//! Conformance suite of [`Warehouse`].

use model::{Timestamp, Verdict};

use crate::{
    FindingRow, Load, MeasurementKind, MeasurementRow, MetricRow, NodeResultRow, PastQuery, PastRun,
    VerdictRow, Warehouse,
};

/// Checks loads, and that they are read back unchanged. The warehouse must be empty.
///
/// # Panics
/// Panics if a check fails.
pub async fn loads(warehouse: &dyn Warehouse) {
    let row = |run: &str, row_number, placement: &str| MeasurementRow {
        run: run.into(),
        workflow: "it's; DROP TABLE".into(),
        attempt: 1,
        log: "1/node-0.log".to_owned(),
        row_number,
        placement: placement.to_owned(),
        collective: Some("all_reduce".to_owned()),
        ranks: Some(4),
        size_bytes: 8,
        count: 2,
        dtype: "float".to_owned(),
        time_us: 1.5,
        busbw: 1e-3,
        requested_at: Some(Timestamp::from_millis(1_000)),
        verdict: Some(Verdict::Inconclusive),
        ..MeasurementRow::default()
    };
    let verdict = |run: &str, measurements| VerdictRow {
        run: run.into(),
        workflow: "it's; DROP TABLE".into(),
        attempt: 1,
        requested_at: Some(Timestamp::from_millis(1_000)),
        verdict: Some(Verdict::Inconclusive),
        reasons: "TRUNCATED,UNCHECKED".to_owned(),
        fingerprint: r#"{"nccl":"2.28.9"}"#.into(),
        measurements,
        ..VerdictRow::default()
    };
    let of = |run: &str, rows: &[MeasurementRow]| Load {
        verdicts: vec![verdict(run, rows.len() as u64)],
        rows: rows.to_vec(),
        ..Load::default()
    };

    let first = of("a", &[row("a", 0, "out_of_place"), row("a", 0, "in_place"), row("a", 1, "out_of_place")]);
    let less = of("a", &first.rows[..1]);
    assert_eq!(warehouse.load("load-1", &first).await.expect("loaded"), 3);
    assert_eq!(
        warehouse.load("load-1", &less).await.expect("loaded"),
        3,
        "the second load with the same id has no effect"
    );
    assert_eq!(
        warehouse.rows("a").await.expect("rows"),
        first.rows,
        "every row is read back once and unchanged"
    );
    assert_eq!(warehouse.verdicts("a").await.expect("rows"), first.verdicts);
    let second = of("b", &[row("b", 0, "in_place")]);
    assert_eq!(warehouse.load("load-2", &second).await.expect("loaded"), 1);
    assert_eq!(warehouse.rows("b").await.expect("rows").len(), 1);
    let nothing = of("c", &[]);
    assert_eq!(warehouse.load("load-3", &nothing).await.expect("loaded"), 0, "an empty load is valid");
    assert_eq!(warehouse.rows("c").await.expect("rows"), []);
    assert_eq!(
        warehouse.verdicts("c").await.expect("rows"),
        nothing.verdicts,
        "a run without rows has a verdict"
    );
    metrics(warehouse).await;
    node_results(warehouse).await;
    assert_eq!(warehouse.load("load-4", &Load::default()).await.expect("loaded"), 0);
    assert_eq!(warehouse.verdicts("d").await.expect("rows"), []);
}

/// Checks results of nodes.
async fn node_results(warehouse: &dyn Warehouse) {
    let row = |node: &str, result: &str, detail: &str| NodeResultRow {
        run: "n".into(),
        workflow: "it's; DROP TABLE".into(),
        cluster: (node != "n1").then(|| "hall".into()),
        node: node.into(),
        result: result.into(),
        detail: detail.into(),
        requested_at: Some(Timestamp::from_millis(1_000)),
        verdict: Some(Verdict::Fail),
    };
    let rows = vec![
        row("n1", "suspected", ""),
        row("n2", "drained", "burnin n: \"slow\""),
        row("n2", "suspected", ""),
    ];
    let load = Load { node_results: rows.clone(), ..Load::default() };
    for _ in 0..2 {
        assert_eq!(
            warehouse.load("n.nodes", &load).await.expect("loaded"),
            0,
            "results of nodes are not counted"
        );
    }
    assert_eq!(
        warehouse.node_results("n").await.expect("results"),
        rows,
        "every row is read back once and unchanged"
    );
    assert_eq!(warehouse.node_results("a").await.expect("results"), []);
}

/// Checks metrics of two checks of a run, in addition to measurements.
async fn metrics(warehouse: &dyn Warehouse) {
    let row = |check: &str, metric_number, value: Option<f64>| MetricRow {
        run: "m".into(),
        workflow: "it's; DROP TABLE".into(),
        attempt: 1,
        check_name: Some(check.into()),
        log: "c2a1/node-0.log".into(),
        metric_number,
        line: 3,
        metric: "nvbandwidth.device_local_copy".into(),
        unit: "GB/s".into(),
        better: "higher".into(),
        scope: "pair".into(),
        node: Some("node-0".into()),
        gpu: Some(0),
        link: Some("mlx5_0/1".into()),
        peer: Some("1".into()),
        rank: Some(7),
        serial: Some("GPU-3d4e".into()),
        bus_id: Some("0000:1b:00".into()),
        labels: r#"{"cpu":"it's","part":"\"1\""}"#.into(),
        value,
        resolution: value.map(|_| 0.01),
        unmeasurable: value.is_none().then(|| "Waived".into()),
        requested_at: Some(Timestamp::from_millis(1_000)),
        verdict: Some(Verdict::Fail),
        ..MetricRow::default()
    };
    let finding = |finding_number, gpu| FindingRow {
        run: "m".into(),
        workflow: "it's; DROP TABLE".into(),
        attempt: 1,
        check_name: Some("memory".into()),
        log: "c2a1/node-0.log".into(),
        finding_number,
        line: 9,
        code: "XID_79".into(),
        severity: "hardware".into(),
        node: Some("node-0".into()),
        gpu,
        text: "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', GPU has fallen off the bus.".to_owned(),
        requested_at: Some(Timestamp::from_millis(1_000)),
        verdict: Some(Verdict::Fail),
        ..FindingRow::default()
    };
    let world = MetricRow {
        scope: "world".into(),
        labels: "{}".into(),
        node: None,
        gpu: None,
        link: None,
        peer: None,
        rank: None,
        serial: None,
        bus_id: None,
        ..row("memory", 2, Some(-1e-300))
    };
    let first = Load {
        verdicts: vec![VerdictRow {
            run: "m".into(),
            workflow: "it's; DROP TABLE".into(),
            attempt: 1,
            check_name: Some("memory".into()),
            fingerprint: "{}".into(),
            ..VerdictRow::default()
        }],
        metrics: vec![row("memory", 0, Some(0.1 + 0.2)), row("memory", 1, None), world],
        findings: vec![finding(0, Some(3)), finding(1, None)],
        ..Load::default()
    };
    assert_eq!(warehouse.load("m.c2a1", &first).await.expect("loaded"), 3, "metrics are counted");
    assert_eq!(
        warehouse.load("m.c2a1", &first).await.expect("loaded"),
        3,
        "a repeated load returns the same number"
    );
    assert_eq!(
        warehouse.metrics("m").await.expect("metrics"),
        first.metrics,
        "every row is read back once and unchanged"
    );
    assert_eq!(
        warehouse.findings("m").await.expect("findings"),
        first.findings,
        "every row is read back once and unchanged"
    );
    assert_eq!(warehouse.findings("a").await.expect("findings"), []);
    let measured = MeasurementRow {
        run: "m".into(),
        workflow: "w".into(),
        attempt: 1,
        check_name: Some("both".into()),
        log: "c3a1/node-0.log".to_owned(),
        placement: "in_place".to_owned(),
        dtype: "float".to_owned(),
        ..MeasurementRow::default()
    };
    let later = MetricRow { log: "c3a1/node-0.log".into(), ..row("both", 0, Some(1.0)) };
    let second = Load { rows: vec![measured], metrics: vec![later.clone()], ..Load::default() };
    assert_eq!(
        warehouse.load("m.c3a1", &second).await.expect("loaded"),
        2,
        "measurements and metrics are counted"
    );
    let all: Vec<_> = first.metrics.into_iter().chain([later]).collect();
    assert_eq!(warehouse.metrics("m").await.expect("metrics"), all, "the rows of both checks are returned");
    assert_eq!(warehouse.rows("m").await.expect("rows").len(), 1);
    assert_eq!(warehouse.metrics("a").await.expect("metrics"), []);
}

fn runs() -> Vec<Load> {
    // The runs are not in chronological order, and include another workflow and another fingerprint.
    let of = |run: &str, workflow: &str, identity: &str, at: i64| {
        let row = |row_number, placement: &str, time_us| MeasurementRow {
            run: run.into(),
            workflow: workflow.into(),
            attempt: 1,
            log: "1/node-0.log".to_owned(),
            row_number,
            placement: placement.to_owned(),
            collective: Some("all_reduce".to_owned()),
            ranks: Some(4),
            size_bytes: 8 << row_number,
            dtype: "float".to_owned(),
            redop: Some("sum".to_owned()),
            time_us,
            ..MeasurementRow::default()
        };
        let verdict = VerdictRow {
            run: run.into(),
            workflow: workflow.into(),
            attempt: 1,
            requested_at: Some(Timestamp::from_millis(at)),
            verdict: Some(if at == 3_000 { Verdict::Fail } else { Verdict::Pass }),
            identity: Some(identity.into()),
            fingerprint: r#"{"nccl":"2.28.9"}"#.into(),
            measurements: 4,
            ..VerdictRow::default()
        };
        let rows =
            [(0, "out_of_place", 1.0), (0, "in_place", 2.0), (1, "out_of_place", 3.0), (1, "in_place", 4.0)];
        let rows = rows.map(|(number, placement, time)| row(number, placement, time + at as f64)).to_vec();
        Load { verdicts: vec![verdict], rows, ..Load::default() }
    };
    vec![
        of("e", "w", "same", 5_000),
        of("a", "w", "same", 1_000),
        of("c", "w", "same", 3_000),
        of("b", "w", "same", 2_000),
        of("d", "w", "same", 4_000),
        of("f", "w", "other", 2_500),
        of("g", "another", "same", 2_500),
    ]
}

/// Loads seven runs and checks the queries for earlier runs. The warehouse must be empty, or have passed these checks before.
///
/// # Panics
/// Panics if a check fails.
pub async fn history(warehouse: &dyn Warehouse) {
    for (number, run) in runs().iter().enumerate() {
        warehouse.load(&format!("load-{number}"), run).await.expect("loaded");
    }
    let wanted = |before, oldest, newest| PastQuery {
        workflow: "w".to_owned(),
        identity: "same".to_owned(),
        before: Timestamp::from_millis(before),
        oldest,
        newest,
        measured: Default::default(),
    };
    let names = |wanted: PastQuery| async move {
        let past = warehouse.past(&wanted).await.expect("the past");
        past.iter().map(|past| past.run.clone()).collect::<Vec<_>>().concat()
    };
    assert_eq!(names(wanted(9_000, 10, 10)).await, "abcde", "runs are returned oldest first, each once");
    assert_eq!(names(wanted(9_000, 2, 1)).await, "abe", "only the oldest and the newest runs are returned");
    assert_eq!(names(wanted(9_000, 0, 2)).await, "de");
    assert_eq!(names(wanted(3_000, 10, 10)).await, "ab", "only runs requested earlier are returned");
    assert_eq!(names(PastQuery { workflow: "no such".to_owned(), ..wanted(9_000, 9, 9) }).await, "");

    let past = warehouse.past(&wanted(9_000, 3, 0)).await.expect("the past");
    assert_eq!(past[2].verdict, Some(Verdict::Fail));
    assert_eq!(past[0].fingerprint["nccl"], "2.28.9");
    let table = &past[0].table;
    assert_eq!(
        (table.collective.as_deref(), table.ranks, table.rows.len()),
        (Some("all_reduce"), Some(4), 2)
    );
    let times = table.rows.iter().flat_map(|row| [row.out_of_place, row.in_place]).flatten();
    assert_eq!(times.map(|half| half.time_us).collect::<Vec<_>>(), [1_001.0, 1_002.0, 1_003.0, 1_004.0]);
    assert_eq!((table.rows[1].size_bytes, table.rows[1].redop.as_deref()), (16, Some("sum")));
    checks_of_a_run(warehouse).await;
}

/// Checks that the history of a check has no rows of the other checks of the same run.
async fn checks_of_a_run(warehouse: &dyn Warehouse) {
    for (check, size_bytes) in [("one", 8), ("two", 64)] {
        let of = |metric_number| MetricRow {
            run: "n".into(),
            workflow: "several".into(),
            attempt: 1,
            check_name: Some(check.into()),
            log: format!("{check}.log").into(),
            metric_number,
            metric: format!("metric.{check}").into(),
            unit: "GB/s".into(),
            better: "lower".into(),
            scope: "link".into(),
            node: Some("node-0".into()),
            labels: r#"{"size":"8"}"#.into(),
            value: Some(2.5),
            requested_at: Some(Timestamp::from_millis(1_000)),
            ..MetricRow::default()
        };
        let row = MeasurementRow {
            run: "n".into(),
            workflow: "several".into(),
            attempt: 1,
            check_name: Some(check.into()),
            log: format!("{check}.log"),
            collective: Some(check.into()),
            size_bytes,
            placement: "in_place".to_owned(),
            dtype: "float".to_owned(),
            requested_at: Some(Timestamp::from_millis(1_000)),
            ..MeasurementRow::default()
        };
        let verdict = VerdictRow {
            run: "n".into(),
            workflow: "several".into(),
            attempt: 1,
            check_name: Some(check.into()),
            identity: Some(check.into()),
            fingerprint: "{}".into(),
            requested_at: Some(Timestamp::from_millis(1_000)),
            ..VerdictRow::default()
        };
        let load =
            Load { verdicts: vec![verdict], rows: vec![row], metrics: vec![of(0), of(1)], ..Load::default() };
        warehouse.load(&format!("n.{check}"), &load).await.expect("loaded");
    }
    for (check, size_bytes) in [("one", 8), ("two", 64)] {
        let wanted = |measured| PastQuery {
            workflow: "several".to_owned(),
            identity: check.to_owned(),
            before: Timestamp::from_millis(9_000),
            oldest: 9,
            newest: 9,
            measured,
        };
        let past = warehouse.past(&wanted(MeasurementKind::Table)).await.expect("the past");
        let sizes: Vec<_> = past[0].table.rows.iter().map(|row| row.size_bytes).collect();
        assert_eq!((past.len(), sizes), (1, vec![size_bytes]), "only the rows of {check} are returned");
        let past = warehouse.past(&wanted(MeasurementKind::Metrics)).await.expect("the past");
        let metrics = &past[0].metrics;
        assert_eq!((past.len(), metrics.len(), &*metrics[1].name), (1, 2, &*format!("metric.{check}")));
        assert_eq!(
            (metrics[0].better, metrics[0].scope),
            (model::metric::Better::Lower, model::metric::Scope::Link)
        );
        assert_eq!((metrics[0].labels["size"].as_str(), metrics[0].value), ("8", Some(2.5)));
        let [listed] = <[PastRun; 1]>::try_from(
            warehouse.past(&wanted(MeasurementKind::Nothing)).await.expect("the past"),
        )
        .expect("one run");
        assert_eq!((&*listed.run, listed.requested_at), ("n", Some(Timestamp::from_millis(1_000))));
        assert_eq!((listed.metrics, listed.table.rows), (vec![], vec![]), "only the verdict is returned");
    }
}
