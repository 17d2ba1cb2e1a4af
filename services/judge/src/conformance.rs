//! Conformance suite of [`PastRuns`].

use model::{Timestamp, Verdict};
use warehouse::{Load, MeasurementRow, PastQuery, VerdictRow};

use crate::port::PastRuns;

/// Test runs: load them into the adapter's store in this order.
#[must_use]
pub fn runs() -> Vec<Load> {
    // Not in chronological order; includes runs of another workflow and another fingerprint.
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

/// Checks that the adapter fulfils the port. Its store must contain exactly [`runs`].
///
/// # Panics
/// Panics if a check fails.
pub async fn history(history: &dyn PastRuns) {
    let wanted = |before, oldest, newest| PastQuery {
        workflow: "w".to_owned(),
        identity: "same".to_owned(),
        before: Timestamp::from_millis(before),
        oldest,
        newest,
    };
    let names = |wanted: PastQuery| async move {
        let past = history.past(&wanted).await.expect("the past");
        past.iter().map(|past| past.run.clone()).collect::<Vec<_>>().concat()
    };
    assert_eq!(names(wanted(9_000, 10, 10)).await, "abcde", "oldest first, each once");
    assert_eq!(names(wanted(9_000, 2, 1)).await, "abe", "the oldest and the newest");
    assert_eq!(names(wanted(9_000, 0, 2)).await, "de");
    assert_eq!(names(wanted(3_000, 10, 10)).await, "ab", "only runs requested earlier");
    assert_eq!(names(PastQuery { workflow: "no such".to_owned(), ..wanted(9_000, 9, 9) }).await, "");

    let past = history.past(&wanted(9_000, 3, 0)).await.expect("the past");
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
}
