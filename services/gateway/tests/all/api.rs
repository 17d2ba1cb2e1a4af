//! Requests over HTTP and their responses.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, atomic::Ordering},
};

use crate::support::GatewayBed;
use futures::future::join_all;
use gateway::Catalogue;
use model::ClusterSpec;
use serde_json::{Value, json};

const OPEN: &str = "parameters: [limits.job, limits.attempts]\n";

#[tokio::test]
async fn a_repeated_key_returns_the_same_run_and_another_request_under_it_is_refused() {
    let mut bed = GatewayBed::new(&[("w", OPEN), ("v", "")]);
    let request = json!({"workflow": "w", "set": {"limits.job": "5m"}});
    let (status, first) = bed.post("/api/v1/runs", Some("k"), request.clone()).await;
    assert_eq!((status, &first["new"]), (202, &json!(true)), "{first}");
    // After a change of the file and a restart, the key still returns the started run.
    bed.write("w", "parameters: [limits.job]\nlimits: {attempts: 7}\n");
    bed.restart();
    let again = bed.post("/api/v1/runs", Some("k"), request.clone()).await;
    assert_eq!((again.0, &again.1["run"], &again.1["new"]), (202, &first["run"], &json!(false)));
    for other in [
        json!({"workflow": "v"}),
        json!({"workflow": "w"}),
        json!({"workflow": "w", "set": {"limits.job": "6m"}}),
    ] {
        let (status, problem) = bed.post("/api/v1/runs", Some("k"), other).await;
        assert_eq!(status, 422, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(first["run"].as_str().unwrap()), "{problem}");
    }
    assert_eq!(bed.runs().await.len(), 1);
    let run = bed.runs().await.remove(0);
    let records = crate::support::ledger(&bed.store).load(&run.parse().unwrap()).await.unwrap();
    let requested = serde_json::to_value(&records.records()[0].entry).unwrap();
    let workflow = &requested["accepted"]["fact"]["data"]["workflow"];
    assert_eq!((&workflow["limits"]["job"], &workflow["limits"]["attempts"]), (&json!("5m"), &json!(2)));
    let (_, other) = bed.post("/api/v1/runs", Some("k2"), request.clone()).await;
    let (_, without) = bed.post("/api/v1/runs", None, request.clone()).await;
    assert!(other["run"] != first["run"] && without["run"] != first["run"]);
}

#[tokio::test]
async fn only_one_of_several_concurrent_requests_starts_a_run() {
    let bed = GatewayBed::new(&[("w", OPEN)]);
    let requests = (0..20).map(|_| bed.post("/api/v1/runs", Some("k"), json!({"workflow": "w"})));
    let answers = join_all(requests).await;
    let new = answers.iter().filter(|(_, answer)| answer["new"] == true).count();
    assert_eq!((new, bed.runs().await.len()), (1, 1));
    assert!(answers.iter().all(|(status, answer)| (*status, &answer["run"]) == (202, &answers[0].1["run"])));
}

#[tokio::test]
async fn an_unpublished_request_is_published_later() {
    let bed = GatewayBed::new(&[("w", OPEN)]);
    bed.bus.broken.store(true, Ordering::Relaxed);
    let (status, problem) = bed.post("/api/v1/runs", Some("k"), json!({"workflow": "w"})).await;
    assert_eq!((status, problem["status"].as_u64()), (503, Some(503)));
    assert_eq!(bed.periodic_task("requests").await, 503, "still cut");
    bed.bus.broken.store(false, Ordering::Relaxed);
    assert_eq!(bed.periodic_task("requests").await, 204);
    assert_eq!(bed.runs().await.len(), 1, "the caller did not repeat the request");
    assert_eq!(bed.store.list("requests/open/").await.unwrap().len(), 1);
    assert_eq!(bed.periodic_task("requests").await, 204);
    assert_eq!(
        bed.store.list("requests/open/").await.unwrap(),
        [""; 0],
        "the run is recorded, and its hint is removed"
    );
    let (_, again) = bed.post("/api/v1/runs", Some("k"), json!({"workflow": "w"})).await;
    assert_eq!(again["run"].as_str().unwrap(), bed.runs().await[0]);
}

#[tokio::test]
async fn a_lossy_bus_loses_no_run() {
    let bed = GatewayBed::new(&[("w", OPEN)]);
    *bed.bus.conductor.lock().unwrap() = None;
    assert_eq!(bed.post("/api/v1/runs", Some("k"), json!({"workflow": "w"})).await.0, 202);
    assert_eq!(bed.runs().await, [""; 0]);
    bed.conduct();
    assert_eq!(bed.periodic_task("requests").await, 204);
    assert_eq!(bed.runs().await.len(), 1);
}

#[tokio::test]
async fn invalid_requests_are_refused_with_the_reason() {
    let bed = GatewayBed::new(&[("w", OPEN), ("closed", "")]);
    let begin = async |body: Value| {
        let (status, problem) = bed.post("/api/v1/runs", None, body).await;
        (status, problem["detail"].as_str().unwrap_or_default().to_owned(), problem["errors"].clone())
    };
    let answer = begin(json!({"workflow": "x"})).await;
    assert_eq!((answer.0, answer.1.as_str()), (404, "no workflow `x`; available: closed, w"));
    let answer = begin(json!({"workflow": "closed", "set": {"limits.job": "1s"}})).await;
    assert_eq!(answer.0, 403);
    assert_eq!(answer.1, "workflow `closed` does not allow overriding `limits.job`; allowed: none");
    let answer = begin(json!({"workflow": "w", "set": {"limits.job": "soon"}})).await;
    assert_eq!(answer.0, 422);
    assert!(answer.2[0].as_str().unwrap().starts_with("--set: limits.job: expected"), "{answer:?}");
    let answer = begin(json!({"workflow": "w", "sets": {}})).await;
    assert!(answer.0 == 422 && answer.1.contains("unknown field `sets`"), "{answer:?}");
    for key in ["", " ", "a b", "é", &"x".repeat(201)] {
        let (status, _, _) = bed
            .send(
                "POST",
                "/api/v1/runs",
                &[("content-type", "application/json"), ("idempotency-key", key)],
                r#"{"workflow":"w"}"#,
            )
            .await;
        assert_eq!(status, 400, "{key}");
    }
    let large = format!(r#"{{"workflow":"{}"}}"#, "w".repeat(100_000));
    let json = [("content-type", "application/json")];
    assert_eq!(bed.send("POST", "/api/v1/runs", &json, &large).await.0, 413);
    assert_eq!(bed.send("POST", "/api/v1/runs", &json, "{").await.0, 400);
    assert_eq!(bed.send("POST", "/api/v1/runs", &[], r#"{"workflow":"w"}"#).await.0, 415);
    let (status, headers, body) = bed.send("DELETE", "/api/v1/runs", &[], "").await;
    assert_eq!(
        (status.as_u16(), headers["content-type"].to_str().unwrap()),
        (405, "application/problem+json")
    );
    assert!(headers.contains_key("allow"), "{body}");
    for query in ["limit=0", "limit=201", "limit=x", "after=!", "since=now", "state=new", "colour=red"] {
        assert_eq!(bed.get(&format!("/api/v1/runs?{query}")).await.0, 400, "{query}");
    }
    for path in [
        "runs/nobody",
        "runs/No..Body",
        "runs/nobody/logs",
        "runs/nobody/logs/a",
        "runs/nobody/report",
        "nothing",
        "runs/nobody/events",
        "runs/nobody/records",
    ] {
        let (status, problem) = bed.get(&format!("/api/v1/{path}")).await;
        assert_eq!((status, problem["status"].as_u64()), (404, Some(404)), "{path}");
    }
    assert_eq!(bed.runs().await, [""; 0], "no invalid request started a run");
}

#[tokio::test]
async fn a_run_is_listed_shown_and_cancelled() {
    let bed = GatewayBed::new(&[("w", OPEN)]);
    let (_, begun) = bed.post("/api/v1/runs", None, json!({"workflow": "w"})).await;
    let at = begun["links"]["run"].as_str().unwrap();
    let (status, page) = bed.get("/api/v1/runs?workflow=w&state=open").await;
    assert_eq!((status, &page["runs"][0]["run"], &page["next"]), (200, &begun["run"], &Value::Null));
    assert_eq!(bed.get("/api/v1/runs?state=closed").await.1["runs"], json!([]));
    let (status, shown) = bed.get(at).await;
    assert_eq!((status, &shown["schema"], &shown["seq"]), (200, &json!("burnin/show/v1"), &json!(1)));
    let cancel = json!({"reason": "enough"});
    let (status, _) = bed.post(&format!("{at}/cancel"), None, cancel.clone()).await;
    assert_eq!(status, 202);
    let (_, shown) = bed.get(at).await;
    assert_eq!((&shown["conclusion"], &shown["state"]), (&json!("cancelled"), &json!("closed")));
    // A repetition has no effect, and returns the current state.
    let (status, again) = bed.post(&format!("{at}/cancel"), None, cancel).await;
    assert_eq!((status, &again["seq"]), (202, &shown["seq"]));
    let (_, ledger) = bed.get(&format!("{at}/records")).await;
    let numbers: Vec<_> =
        ledger["records"].as_array().unwrap().iter().map(|record| record["seq"].as_u64()).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(3)], "{ledger}");
    let (_, _, events) = bed.send("GET", &format!("{at}/events?after=1"), &[], "").await;
    let ids: Vec<_> = events.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    assert_eq!(ids, ["2", "3"], "{events}");
    assert!(events.contains("event: end"), "{events}");
    let (status, headers, page) = bed.send("GET", &format!("{at}/report"), &[], "").await;
    assert!(
        status == 200
            && page.contains("cancelled")
            && headers["content-security-policy"].to_str().unwrap().contains("sandbox")
    );
    assert_eq!(bed.get(&format!("{at}/report?form=json")).await.0, 404, "no verdict was reached");
}

#[tokio::test]
async fn only_closed_passed_runs_can_be_pinned() {
    let bed = GatewayBed::new(&[("w", OPEN), ("v", OPEN)]);
    let (_, begun) = bed.post("/api/v1/runs", None, json!({"workflow": "w"})).await;
    let run = begun["run"].as_str().unwrap().to_owned();
    let json = [("content-type", "application/json")];
    let put = async |workflow: &str, body: Value| {
        let at = format!("/api/v1/baselines/{workflow}");
        let (status, headers, body) = bed.send("PUT", &at, &json, &body.to_string()).await;
        assert!(status == 200 || headers["content-type"] == "application/problem+json", "{body}");
        let document: Value = serde_json::from_str(&body).unwrap();
        (status.as_u16(), document["detail"].as_str().unwrap_or_default().to_owned())
    };
    for (workflow, body, status, why) in [
        ("w", json!({"run": run}), 422, "the run is not closed yet"),
        ("v", json!({"run": run}), 422, "it is a run of w; expected a run of v"),
        ("w", json!({"run": "absent"}), 422, "run: run absent does not exist"),
        ("w", json!({"run": "No Body"}), 422, "run: "),
        ("w", json!({"run": run, "source": "guessed"}), 422, "unknown variant `guessed`"),
        ("w", json!({"run": run, "because": "x"}), 422, "unknown field `because`"),
        ("w", json!({"run": run, "why": "x".repeat(501)}), 422, "why: expected at most 500 characters"),
        ("..", json!({"run": run}), 404, "no workflow"),
    ] {
        let answer = put(workflow, body).await;
        assert!(answer.0 == status && answer.1.contains(why), "{workflow} {answer:?}");
    }
    let cancel = json!({"reason": "enough"});
    bed.post(&format!("/api/v1/runs/{run}/cancel"), None, cancel).await;
    let answer = put("w", json!({"run": run})).await;
    assert!(answer.0 == 422 && answer.1.contains("the run has no verdict"), "{answer:?}");
    assert_eq!(
        bed.get("/api/v1/baselines").await,
        (200, json!({"schema": "burnin/baselines/v1", "workflows": []}))
    );
    assert_eq!(bed.get("/api/v1/baselines/w").await.0, 404);
    assert_eq!(bed.send("DELETE", "/api/v1/baselines/w", &[], "").await.0, 404);
    let long = format!("/api/v1/baselines/w?why={}", "x".repeat(501));
    assert_eq!(bed.send("DELETE", &long, &[], "").await.0, 400);
    assert_eq!(bed.store.list("baselines/").await.unwrap(), [""; 0], "no refused pin was stored");
}

#[tokio::test]
async fn callers_above_their_rate_are_refused() {
    let bed = GatewayBed::with(&[("w", OPEN)], "1000,1");
    let mut answers = Vec::new();
    // On a slow host the allowance refills while these requests are sent.
    while answers.len() < 12 || answers.len() < 200 && !answers.contains(&(429, true)) {
        let (status, headers, _) = bed
            .send("POST", "/api/v1/runs", &[("content-type", "application/json")], r#"{"workflow":"none"}"#)
            .await;
        answers.push((status.as_u16(), headers.contains_key("retry-after")));
    }
    assert_eq!(answers[..10], [(404, false); 10]);
    assert!(answers.contains(&(429, true)), "{answers:?}");
    assert_eq!(bed.get("/api/v1/runs").await.0, 200, "reads have a separate rate");
}

#[tokio::test]
async fn the_openapi_description_matches_the_routes() {
    let bed = GatewayBed::new(&[("w", OPEN)]);
    let (status, document) = bed.get("/api/v1/openapi.json").await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let path = path.replace("{run}", "nobody").replace("{name}", "a/b").replace("{workflow}", "w");
            let (status, _, body) = bed.send(&method.to_uppercase(), &path, &[], "").await;
            assert!(status != 405 && !body.contains("no such path"), "{method} {path}: {status} {body}");
            assert!(operation["operationId"].is_string());
            operations += 1;
        }
    }
    assert!(operations >= 14);
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"").skip(1) {
        let reference = reference.split('"').next().unwrap();
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

/// Requests that an error names as the next step must exist.
#[tokio::test]
async fn each_request_that_an_error_names_is_in_the_openapi_description() {
    let (_, document) = GatewayBed::new(&[("w", OPEN)]).get("/api/v1/openapi.json").await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api");
    let mut named = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for request in lines.flat_map(|line| line.split("GET /api/v1/").skip(1)) {
            let path = request.split([' ', '"', ';', ',']).next().unwrap();
            if path != "openapi.json" {
                let operation = &document["paths"][format!("/api/v1/{path}")]["get"];
                assert!(operation.is_object(), "GET /api/v1/{path} is not in the description");
                named += 1;
            }
        }
    }
    assert!(named >= 6, "{named} requests are named");
}

#[tokio::test]
async fn workflows_are_listed_with_the_errors_of_invalid_files() {
    let bed = GatewayBed::new(&[("w", OPEN), ("broken", "on: {schedule: [{cron: never}]}\n")]);
    std::fs::write(bed.folder.path().join("copy.yaml"), crate::support::workflow("w", "")).unwrap();
    let (_, offered) = bed.get("/api/v1/workflows").await;
    assert_eq!(offered["workflows"].as_array().unwrap().len(), 1, "{offered}");
    let problems = offered["problems"].to_string();
    assert!(problems.contains("broken.yaml:3:18: on.schedule[0].cron"), "{problems}");
    assert!(problems.contains("`w` is also the name of"), "{problems}");
    let (_, _, page) = bed.send("GET", "/api", &[], "").await;
    assert!(page.contains("http://127.0.0.1:1/api/v1/runs"), "{page}");
    assert!(page.contains("-H @.burnin/host/up/1.header"), "{page}");
}

#[tokio::test]
async fn a_deployed_gateway_refuses_workflows_that_provision_processes() {
    let folder = tempfile::tempdir().unwrap();
    let rented = "name: w\ncluster: {rent: {processes: {nodes: 1}}}\n";
    std::fs::write(folder.path().join("w.yaml"), rented).unwrap();
    let here = Arc::new(Catalogue::folder(folder.path())).read().await.unwrap();
    assert!(here.workflows["w"].startable, "{}", here.problems);
    let deployed = Arc::new(Catalogue::folder(folder.path()).deployed()).read().await.unwrap();
    assert!(!deployed.workflows["w"].startable);
    let problem = deployed.problems.to_string();
    assert!(problem.contains("cluster.rent.processes") && problem.contains("cluster.existing"), "{problem}");
}

/// The shipped workflows with triggers, after the commands of docs/RUNBOOK.md.
#[tokio::test]
async fn a_deployed_gateway_can_start_the_shipped_workflows_after_the_documented_changes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/RUNBOOK.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let shell = |command: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-euc", command]).current_dir(folder.path()).env("ROOT", &root);
        let set = [("CLUSTER", "gpu-7"), ("SHARED", "/shared/burnin"), ("REPOSITORY", "acme/benchmarks")];
        assert!(shell.envs(set).status().unwrap().success(), "{command}");
    };
    shell(
        "mkdir own && cp -r \"$ROOT/workflows/quickstart\" \"$ROOT/workflows/criteria\" own/ && mkdir workflows",
    );
    for name in ["nightly", "on-push"] {
        let file = format!("workflows/{name}.yaml");
        std::fs::copy(root.join(&file), folder.path().join(&file)).unwrap();
        let command =
            page.lines().find_map(|line| line.strip_prefix("$ ").filter(|line| line.contains(&file)));
        shell(command.unwrap());
    }
    let read = Arc::new(Catalogue::folder(folder.path().join("own")).deployed()).read().await.unwrap();
    assert!(read.problems.0.is_empty(), "{}", read.problems);
    let (nightly, on_push) = (&read.workflows["nightly"], &read.workflows["on-push"]);
    assert!(nightly.startable && on_push.startable);
    assert_eq!(nightly.offered.on.schedule.len(), 1);
    assert_eq!(on_push.offered.on.push[0].repository, "acme/benchmarks");
    for entry in [nightly, on_push] {
        let cluster = entry.resolve(&[], None).await.unwrap().workflow.cluster;
        assert!(
            matches!(&cluster, Some(ClusterSpec::Existing { name, .. }) if name == "gpu-7"),
            "{cluster:?}"
        );
    }
    // The workflows as shipped are refused, because they run on processes.
    let shipped = Arc::new(Catalogue::folder(root.join("workflows")).deployed()).read().await.unwrap();
    assert!(!shipped.workflows["nightly"].startable && !shipped.workflows["on-push"].startable);
}

#[tokio::test]
async fn a_deployed_gateway_refuses_deployed_clusters_without_an_agent() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| std::fs::write(folder.path().join(name), content).unwrap();
    let steps = "steps: [{name: bash, script: 'true'}]\nsubstitutions: {_AGENT: '', _CLUSTER: '', _EXPIRES: ''}\n\
                 options: {automapSubstitutions: true}\nartifacts: {objects: {location: 'gs://b', paths: [cluster.json, gone.json]}}\n";
    std::fs::create_dir(folder.path().join("source")).unwrap();
    write("source/steps.yaml", steps);
    let workflow = |name: &str, substitutions: &str| {
        let build = "{config: source/steps.yaml, source: source}";
        let slurm = "{nodes: 1, shared_folder: /home/burnin}";
        let rent = format!(
            "{{substitutions: {{{substitutions}}}, deploy: {build}, destroy: {build}, slurm: {slurm}}}"
        );
        write(&format!("{name}.yaml"), &format!("name: {name}\ncluster: {{rent: {{deployed: {rent}}}}}\n"));
    };
    workflow("without", "");
    workflow("with", "_AGENT: 'gs://bucket/agent'");
    let here = Arc::new(Catalogue::folder(folder.path())).read().await.unwrap();
    assert!(here.workflows.values().all(|entry| entry.startable), "{}", here.problems);
    let deployed = Arc::new(Catalogue::folder(folder.path()).deployed()).read().await.unwrap();
    assert!(deployed.workflows["with"].startable, "{}", deployed.problems);
    assert!(!deployed.workflows["without"].startable);
    assert!(deployed.problems.to_string().contains("set the substitution _AGENT"), "{}", deployed.problems);
}

/// Cross-site requests, which a page of another site can cause in a browser.
#[tokio::test]
async fn requests_from_pages_of_other_sites_are_refused() {
    let bed = GatewayBed::new(&[("w", OPEN)]);
    let event = json!({"specversion": "1.0", "type": events::RUN_REQUEST, "source": "//evil", "id": "1", "data": {"workflow": "w"}});
    let foreign: [&[(&str, &str)]; 4] = [
        &[("host", "evil.example")],
        &[("host", "127.0.0.1.evil.example:8080")],
        &[("host", "127.0.0.1:8080"), ("origin", "http://evil.example")],
        &[("host", "localhost:8080"), ("origin", "null")],
    ];
    for headers in foreign {
        for (method, path) in
            [("GET", "/api/v1/runs"), ("POST", "/"), ("POST", "/chores/requests"), ("GET", "/")]
        {
            let (status, _, _) = bed.send(method, path, headers, &event.to_string()).await;
            assert_eq!(status, 421, "{method} {path} is admitted with {headers:?}");
        }
        // A tunnel for GitHub may have any host name; only the signature is checked.
        assert_eq!(bed.send("POST", "/hooks/github", headers, "{}").await.0, 401);
    }
    assert_eq!(bed.runs().await, [""; 0]);
    let own = [("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080")];
    assert_eq!(bed.send("GET", "/api/v1/runs", &own, "").await.0, 200);
}
