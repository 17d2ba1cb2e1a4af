//! Tests `burnin-gateway` as a process: its environment, and a request that reaches the buckets.

use std::path::Path;

use test_support::program::{ServiceProcess, program, refuses};

const PROGRAM: &str = env!("CARGO_BIN_EXE_burnin-gateway");

#[test]
fn all_errors_in_the_environment_are_reported_together() {
    let mut program = program(PROGRAM);
    program
        .env("BURNIN_LEDGER", "gs://ledger")
        .env("BURNIN_RATES", "fast")
        .env("BURNIN_SERVES", "cake")
        .env("BURNIN_GITHUB_SECRETS", "short");
    refuses(
        program,
        &[
            "BURNIN_ARTEFACTS: is not set",
            "BURNIN_WORKFLOWS: is not set",
            "BURNIN_RATES: `fast` is invalid: expected requests per second and changes per second",
            "BURNIN_SERVES: `cake` is invalid: expected everything or hooks",
            "BURNIN_GITHUB_SECRETS:",
        ],
    );
}

/// Starts the gateway over the folders of `root`, with the workflows of this repository.
fn served(root: &Path, serves: &str) -> ServiceProcess {
    let mut program = program(PROGRAM);
    program
        .env("BURNIN_SERVES", serves)
        .env("BURNIN_LEDGER", root.join("ledger"))
        .env("BURNIN_ARTEFACTS", root.join("artefacts"))
        .env("BURNIN_WORKFLOWS", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows"));
    ServiceProcess::start(program)
}

#[test]
fn the_public_service_serves_only_webhooks() {
    let folder = tempfile::tempdir().unwrap();
    let served = served(folder.path(), "hooks");
    assert_eq!(served.send("POST", "/hooks/github", "{}").0, 401, "a webhook without a signature is refused");
    for (method, path) in [
        ("GET", "/"),
        ("POST", "/"),
        ("GET", "/about"),
        ("GET", "/api/v1/runs"),
        ("POST", "/api/v1/runs"),
        ("GET", "/api/v1/openapi.json"),
        ("POST", "/chores/schedule"),
        ("POST", "/chores/requests"),
    ] {
        let body = r#"{"workflow":"quickstart"}"#;
        assert_eq!(served.send(method, path, body).0, 404, "{method} {path}");
    }
}

#[test]
fn the_program_serves_its_api_and_its_chores_over_folders() {
    let folder = tempfile::tempdir().unwrap();
    let served = served(folder.path(), "everything");
    let get = |path: &str| served.get(path);
    let (status, about) = get("/about");
    assert!(
        status == 200
            && about.contains("dev.burnin.run.request.v1")
            && about.contains("requests")
            && about.contains("\"workflows_broken\":0"),
        "{about}"
    );
    assert_eq!(get("/api/v1/runs").0, 200);
    assert!(get("/api/v1/workflows").1.contains("quickstart"));
    for periodic_task in ["schedule", "refs", "requests"] {
        assert_eq!(served.send("POST", &format!("/chores/{periodic_task}"), "").0, 204, "{periodic_task}");
    }
    // A webhook without a signature is rejected by the service itself.
    assert_eq!(served.send("POST", "/hooks/github", "{}").0, 401);
    // Pub/Sub is unavailable: the request is stored and published later.
    let (status, _) = served.send("POST", "/api/v1/runs", r#"{"workflow":"quickstart"}"#);
    assert_eq!(status, 503);
    assert_eq!(std::fs::read_dir(folder.path().join("artefacts/requests/open")).unwrap().count(), 1);
}
