//! Errors in the program's environment are all reported together.

use std::process::Command;

fn run_with(variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_burnin-loader"));
    program.env_clear().env("BURNIN_AUTH", "platform").env("BURNIN_PROJECT", "val-prod");
    // No server listens there; the program sends no request before all variables are valid.
    program.env("PUBSUB_EMULATOR_HOST", "127.0.0.1:1").envs(variables.iter().copied());
    let output = program.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_warehouse_is_a_file_or_a_dataset() {
    let (status, output) = run_with(&[
        ("BURNIN_ARTEFACTS", "gs://artefacts"),
        ("BURNIN_WAREHOUSE", "bigquery:val-prod"),
        ("BURNIN_BATCH_EVERY", "soon"),
        ("BIGQUERY_EMULATOR_HOST", "http://host/path"),
    ]);
    assert_eq!(status, Some(64), "{output}");
    for problem in [
        "BURNIN_WAREHOUSE: `bigquery:val-prod` is invalid: in bigquery:PROJECT.DATASET, DATASET is missing",
        "BURNIN_BATCH_EVERY: `soon` is invalid",
        "BIGQUERY_EMULATOR_HOST: `http://host/path` is invalid: expected http://host:port or host:port",
    ] {
        assert!(output.contains(problem), "{output}");
    }
}

#[test]
fn bigquery_needs_a_bucket_to_load_from() {
    let folder = tempfile::tempdir().unwrap();
    let (status, output) = run_with(&[
        ("BURNIN_ARTEFACTS", folder.path().to_str().unwrap()),
        ("BURNIN_WAREHOUSE", "bigquery:val-prod.burnin"),
    ]);
    assert_eq!(
        (status, output.trim()),
        (Some(1), "loader: BURNIN_ARTEFACTS: BigQuery loads from a bucket; set gs://NAME")
    );
}
