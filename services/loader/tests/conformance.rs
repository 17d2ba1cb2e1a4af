//! The one suite, on every adapter.

use loader::{Row, Warehouse, WarehouseError, conformance, fake::FakeWarehouse, sqlite::Sqlite};

#[tokio::test]
async fn a_warehouse_in_memory() {
    conformance::warehouse(&FakeWarehouse::default()).await;
}

#[tokio::test]
async fn a_warehouse_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    conformance::warehouse(&Sqlite::open(&folder.path().join("warehouse.sqlite")).unwrap()).await;
}

fn row(row_number: u32) -> Row {
    Row {
        run: "a".into(),
        workflow: "w".into(),
        attempt: 1,
        log: "1/node-0.log".into(),
        table_number: 0,
        row_number,
        placement: "in_place".into(),
        collective: None,
        ranks: None,
        size_bytes: 8,
        count: 2,
        dtype: "float".into(),
        redop: None,
        time_us: 1.5,
        algbw: 0.0,
        busbw: 0.0,
        wrong: Some(0),
    }
}

#[tokio::test]
async fn what_was_loaded_is_there_after_the_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    assert_eq!(Sqlite::open(&path).unwrap().load("one", &[row(0), row(1)]).await.unwrap(), 2);
    let again = Sqlite::open(&path).unwrap();
    assert_eq!(again.load("one", &[]).await.unwrap(), 2, "the load is remembered, not only its rows");
    assert_eq!(again.rows("a").await.unwrap(), [row(0), row(1)]);
}

#[tokio::test]
async fn rows_the_table_cannot_hold_are_refused_and_none_of_them_stays() {
    let folder = tempfile::tempdir().unwrap();
    let warehouse = Sqlite::open(&folder.path().join("warehouse.sqlite")).unwrap();
    let too_large = Row { size_bytes: u64::MAX, ..row(1) };
    let no_number = Row { busbw: f64::NAN, ..row(1) };
    for (load, bad) in [("twice", row(0)), ("too large", too_large), ("no number", no_number)] {
        let refused = warehouse.load(load, &[row(0), bad]).await;
        assert!(matches!(refused, Err(WarehouseError::Refused(_))), "{load}: {refused:?}");
        assert_eq!(warehouse.rows("a").await.unwrap(), [], "{load}: all or none");
    }
    assert_eq!(warehouse.load("twice", &[row(0)]).await.unwrap(), 1, "a refused load was no load");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_openers_load_the_same_id_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    let openers = [Sqlite::open(&path).unwrap(), Sqlite::open(&path).unwrap()];
    let [one, two] = &openers;
    for load in 0..20 {
        let (id, rows) = (format!("load-{load}"), [row(2 * load), row(2 * load + 1)]);
        let (first, second) = tokio::join!(one.load(&id, &rows), two.load(&id, &rows));
        assert_eq!((first.unwrap(), second.unwrap()), (2, 2));
    }
    assert_eq!(one.rows("a").await.unwrap().len(), 40);
}
