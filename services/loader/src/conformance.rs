//! Conformance suite of [`LoadTarget`].

use model::{Timestamp, Verdict};
use warehouse::{Load, MeasurementRow, VerdictRow};

use crate::port::LoadTarget;

/// Checks that the adapter fulfils the port. The warehouse must be empty.
///
/// # Panics
/// Panics if a check fails.
pub async fn warehouse(warehouse: &dyn LoadTarget) {
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
        "the second load with the same id changes nothing"
    );
    assert_eq!(warehouse.rows("a").await.expect("rows"), first.rows, "every row once, unchanged");
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
    assert_eq!(warehouse.load("load-4", &Load::default()).await.expect("loaded"), 0);
    assert_eq!(warehouse.verdicts("d").await.expect("rows"), []);
}
