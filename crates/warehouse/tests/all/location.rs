//! Locations of warehouses.

use warehouse::WarehouseLocation;

#[test]
fn a_warehouse_is_a_file_or_a_dataset() {
    assert_eq!("/var/w.sqlite".parse(), Ok(WarehouseLocation::File("/var/w.sqlite".into())));
    for (project, dataset) in [("val-prod", "burnin"), ("example.com:val", "Burnin_2")] {
        let expected = WarehouseLocation::BigQuery { project: project.into(), dataset: dataset.into() };
        assert_eq!(format!("bigquery:{project}.{dataset}").parse(), Ok(expected));
    }
    for (wrong, hint) in [
        ("", "expected the absolute path"),
        ("warehouse.sqlite", "expected the absolute path"),
        ("gs://bucket", "expected the absolute path"),
        ("bigquery:", "DATASET is missing"),
        ("bigquery:project", "DATASET is missing"),
        ("bigquery:p.", "DATASET has"),
        ("bigquery:p.burn-in", "DATASET has"),
        ("bigquery:p.d.t`; --", "DATASET has"),
        ("bigquery:.burnin", "PROJECT is"),
        ("bigquery:123.burnin", "PROJECT is"),
        ("bigquery:My Project.burnin", "PROJECT is"),
    ] {
        let result = wrong.parse::<WarehouseLocation>();
        assert!(result.as_ref().is_err_and(|why| why.contains(hint)), "{wrong}: {result:?}");
    }
}
