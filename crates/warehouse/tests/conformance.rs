//! The conformance suite, on SQLite and in memory.

use warehouse::{Error, Load, MeasurementRow, Sqlite, Warehouse, conformance, memory::Memory};

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
async fn loads_survive_reopening_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warehouse.sqlite");
    assert_eq!(load(&Sqlite::open(&path).unwrap(), "one", &[row(0), row(1)]).await.unwrap(), 2);
    let again = Sqlite::open(&path).unwrap();
    assert_eq!(load(&again, "one", &[]).await.unwrap(), 2, "the load is remembered, not only its rows");
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
        assert_eq!(warehouse.rows("a").await.unwrap(), [], "{load}: all or none");
    }
    assert_eq!(load(&warehouse, "twice", &[row(0)]).await.unwrap(), 1, "a refused load is not recorded");
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
