//! What every [`Warehouse`] must do, as one suite.

use crate::{port::Warehouse, rows::Row};

/// The adapter keeps the port's promises. Needs an empty warehouse.
///
/// # Panics
/// Where it does not.
pub async fn warehouse(warehouse: &dyn Warehouse) {
    let row = |run: &str, row_number, placement: &str| Row {
        run: run.to_owned(),
        workflow: "it's; DROP TABLE".to_owned(),
        attempt: 1,
        log: "1/node-0.log".to_owned(),
        table_number: 0,
        row_number,
        placement: placement.to_owned(),
        collective: Some("all_reduce".to_owned()),
        ranks: Some(4),
        size_bytes: 8,
        count: 2,
        dtype: "float".to_owned(),
        redop: None,
        time_us: 1.5,
        algbw: 0.0,
        busbw: 1e-3,
        wrong: None,
    };
    let first = [row("a", 0, "out_of_place"), row("a", 0, "in_place"), row("a", 1, "out_of_place")];
    assert_eq!(warehouse.load("load-1", &first).await.expect("loaded"), 3);
    assert_eq!(
        warehouse.load("load-1", &first[..1]).await.expect("loaded"),
        3,
        "a load id is good for one load"
    );
    assert_eq!(warehouse.rows("a").await.expect("rows"), first, "every row once, as it was given");
    assert_eq!(warehouse.load("load-2", &[row("b", 0, "in_place")]).await.expect("loaded"), 1);
    assert_eq!(warehouse.rows("b").await.expect("rows").len(), 1);
    assert_eq!(warehouse.load("load-3", &[]).await.expect("loaded"), 0, "no rows are a load too");
    assert_eq!(warehouse.rows("c").await.expect("rows"), []);
}
