//! Tests of `burnin up`: runs are requested over HTTP, and the server is killed, restarted and stopped.

use std::{fs, io::BufRead, net::TcpStream, os::unix::fs::PermissionsExt, path::Path, process::Command};

use crate::support::{TestProject, receiver::Receiver, serving::ServerProcess, wait_for};
use serde_json::{Value, json};

#[test]
fn the_quickstart_requested_over_http_passes() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows");
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    command.arg("--data").arg(folder.path()).args(["up", "--port", "0", "--workflows"]).arg(workflows);
    let up = ServerProcess::new(command);
    let run = up.begin("quickstart", "first");
    let entries = up.follow(&run);
    assert_eq!((entries.len(), entries.last().map(String::as_str)), (22, Some("closed")), "{entries:?}");
    let shown = up.get(&format!("/api/v1/runs/{run}"));
    assert_eq!((&shown["verdict"], &shown["conclusion"]), (&json!("pass"), &json!("completed")), "{shown}");
    assert_eq!(up.begin("quickstart", "first"), run, "the same key returns the same run");
    let logs = up.get(&format!("/api/v1/runs/{run}/logs"));
    let log = logs["files"][0]["name"].as_str().unwrap();
    let (status, part) =
        up.send("GET", &format!("/api/v1/runs/{run}/logs/{log}"), "Range: bytes=2-7\r\n", "");
    assert_eq!((status, part.len()), (206, 6), "{part}");
    let (status, page) = up.send("GET", &format!("/api/v1/runs/{run}/report"), "", "");
    assert!(status == 200 && page.contains("</html>"), "{page}");
    assert_eq!(up.get("/api/v1/runs?verdict=pass")["runs"][0]["run"], run.as_str());
    let (status, index) = up.send("GET", "/api", "", "");
    assert!(status == 200 && index.contains("/api/v1/openapi.json"), "{index}");
    let (status, page) = up.send("GET", "/", "", "");
    assert!(status == 200 && page.contains(&format!("/runs/{run}")), "{page}");
    up.end("-TERM");
}

/// Tests the shipped workflow; only the address of its repository is replaced.
#[test]
fn a_push_is_validated_with_the_pushed_commit() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name);
    let git = |at: &str, arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(path(at)).args(["-c", "user.name=a", "-c", "user.email=a@example.com"]);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        let output = git.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let url = path("burnin.git").display().to_string();
    let workflow = fs::read_to_string(shipped.join("on-push.yaml")).unwrap();
    let workflow = workflow
        .replace("- repository: acme/burnin\n", &format!("- repository: acme/burnin\n      url: {url}\n"))
        .replace(
            "url: https://github.com/acme/burnin\n      revision",
            &format!("url: {url}\n      revision"),
        );
    assert_eq!(workflow.matches(&url).count(), 2, "{workflow}");
    for folder in ["workflows/quickstart", "workflows/criteria"] {
        fs::create_dir_all(path(folder)).unwrap();
    }
    for file in ["quickstart/image.yaml", "criteria/this-machine.yaml"] {
        fs::copy(shipped.join(file), path("workflows").join(file)).unwrap();
    }
    fs::write(path("workflows/on-push.yaml"), workflow).unwrap();
    git(".", &["init", "--quiet", "--bare", "--initial-branch=main", "burnin.git"]);
    git(".", &["clone", "--quiet", "burnin.git", "work"]);
    git("work", &["checkout", "--quiet", "-B", "main"]);
    let source = fs::read_to_string(shipped.join("quickstart/collective_perf.rs")).unwrap();
    let push = |text: &str| {
        let file = path("work/workflows/quickstart/collective_perf.rs");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        git("work", &["add", "."]);
        git("work", &["commit", "--quiet", "-m", "change"]);
        git("work", &["push", "--quiet", "origin", "main"]);
        git("work", &["rev-parse", "HEAD"])
    };
    fs::create_dir_all(path("work/workflows")).unwrap();
    let copied =
        Command::new("cp").arg("-r").arg(shipped.join("quickstart")).arg(path("work/workflows")).status();
    assert!(copied.unwrap().success());
    push("fn main() {}");

    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    command.arg("--data").arg(path("data")).args(["up", "--port", "0", "--look", "200ms", "--workflows"]);
    let up = ServerProcess::new({
        command.arg(path("workflows"));
        command
    });
    let runs = || up.get("/api/v1/runs")["runs"].as_array().unwrap().clone();
    let started = |number: usize| {
        wait_for("the run of a push", || runs().len() == number);
        runs()[0]["run"].as_str().unwrap().to_owned()
    };
    wait_for("the first poll", || {
        fs::read_dir(path("data/pushes/first")).is_ok_and(|mut seen| seen.next().is_some())
    });
    let good = push(&source);
    let run = started(1);
    up.follow(&run);
    let shown = up.get(&format!("/api/v1/runs/{run}"));
    assert_eq!((&shown["verdict"], &shown["trigger"]["kind"]), (&json!("pass"), &json!("push")), "{shown}");
    let by = format!("acme/burnin refs/heads/main {}", &good[..12]);
    assert_eq!(shown["trigger"]["by"], by.as_str());
    // The next commit does not compile: a run of any other commit would pass.
    push("fn main() { this is no Rust }");
    let run = started(2);
    up.follow(&run);
    let shown = up.get(&format!("/api/v1/runs/{run}"));
    assert_eq!((&shown["verdict"], &shown["conclusion"]), (&Value::Null, &json!("failed")), "{shown}");
    up.end("-TERM");
}

#[test]
fn only_the_user_who_started_the_server_is_admitted() {
    let project = TestProject::new("", "");
    let up = ServerProcess::of(&project);
    let port = up.address.rsplit_once(':').unwrap().1;
    let folder = project.data().join("host/up");
    let (header, link) = (folder.join(format!("{port}.header")), folder.join(format!("{port}.link")));
    for (path, expected) in [(&folder, 0o700), (&header, 0o600), (&link, 0o600)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, expected, "{}", path.display());
    }
    let offer =
        r#"{"specversion":"1.0","type":"dev.burnin.cluster.offered.v1","source":"//x","id":"1","data":{}}"#;
    let structured = "Content-Type: application/cloudevents+json\r\n";
    for proof in ["", "Authorization: Bearer x\r\n"] {
        assert_eq!(up.send_as(proof, "POST", "/", structured, offer).0, 401);
        for path in ["/", "/api/v1/runs", "/changes", "/about", "/assets/script.js"] {
            assert_eq!(up.send_as(proof, "GET", path, "", "").0, 401, "{path}");
        }
        assert_eq!(up.send_as(proof, "GET", "/healthz", "", ""), (200, "ok".to_owned()));
    }
    assert!(!project.data().join("parked").exists(), "no part of the request is stored");
    // `curl -H @FILE` sends the header with this line end.
    let proof = fs::read_to_string(&header).unwrap().replace('\n', "\r\n");
    assert_eq!(up.send_as(&proof, "GET", "/api/v1/runs", "", "").0, 200);
    // The link on standard output was used; the link file contains the next link.
    let next = fs::read_to_string(&link).unwrap();
    let next = next.trim().strip_prefix(&format!("http://{}", up.address)).unwrap();
    assert_eq!(up.send_as("", "GET", next, "", "").0, 200);
    assert_eq!(up.send_as("", "GET", next, "", "").0, 401, "once");
    let stderr = up.end("-TERM");
    assert!(stderr.contains(&format!("curl -H @{}", header.display())), "{stderr}");
    assert!(stderr.contains("a browser signed in; the link for the next browser is in "), "{stderr}");
    assert!(!stderr.contains("?code="), "a log may be readable by other users: {stderr}");
    assert!(!header.exists() && !link.exists(), "the secrets are removed with the server");
}

#[test]
fn idle_connections_do_not_block_others() {
    let project = TestProject::new("", "");
    let mut command = Command::new("bash");
    let program = project.command(&["up", "--port", "0", "--workflows", "."]);
    command
        .args(["-c", r#"ulimit -n 64; exec "$@""#, "bash"])
        .arg(program.get_program())
        .args(program.get_args());
    command.current_dir(project.folder.path());
    let up = ServerProcess::new(command);
    let held: Vec<_> = (0..150).map(|_| TcpStream::connect(&up.address).unwrap()).collect();
    for _ in 0..3 {
        assert_eq!(up.send("GET", "/healthz", "", ""), (200, "ok".to_owned()));
    }
    let run = up.begin("lab", "k");
    assert_eq!(up.follow(&run).last().map(String::as_str), Some("closed"));
    drop(held);
    up.end("-TERM");
}

#[test]
fn a_pinned_run_is_used_for_verdicts_and_can_be_unpinned() {
    let project = TestProject::new("", "");
    let up = ServerProcess::of(&project);
    let json = "Content-Type: application/json\r\n";
    let ask = |method: &str, query: &str, body: &str| {
        let (status, body) = up.send(method, &format!("/api/v1/baselines/lab{query}"), json, body);
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let first = up.begin("lab", "first");
    up.follow(&first);
    let request = json!({"run": first, "why": "after the repair"}).to_string();
    let (status, pinned) = ask("PUT", "", &request);
    assert_eq!((status, &pinned["pin"]["run"]), (200, &json!(first)), "{pinned}");
    assert_eq!(ask("PUT", "", &request), (200, pinned.clone()), "repeating the pin has no effect");
    assert_eq!(up.get("/api/v1/baselines")["workflows"], json!([pinned]));
    let (status, refused) = ask("PUT", "", &json!({"run": first, "source": "learned"}).to_string());
    let why = refused["detail"].as_str().unwrap();
    assert!(status == 422 && why.contains("it was judged without a learned baseline"), "{refused}");

    let second = up.begin("lab", "second");
    up.follow(&second);
    let verdict =
        fs::read(project.data().join(format!("artefacts/{second}/verdict/1/verdict.json"))).unwrap();
    let verdict: Value = serde_json::from_slice(&verdict).unwrap();
    assert_eq!((&verdict["pin"]["run"], &verdict["pin"]["number"]), (&json!(first), &json!(1)), "{verdict}");
    let reasons = verdict["reasons"].as_array().unwrap();
    let pinned = reasons.iter().find(|reason| reason["code"] == "PINNED").unwrap();
    assert!(pinned["text"].as_str().unwrap().ends_with(": after the repair"), "{pinned}");

    // The command line executes the same operations on the same folder.
    let command = |arguments: &[&str]| {
        let output = project.burnin(arguments);
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(printed).unwrap())
    };
    let again = command(&["baseline", "pin", &first]);
    assert_eq!(again, (0, format!("lab: {first} is already pinned\n")));
    assert_eq!(command(&["baseline", "unpin", "lab", "--why", "enough"]).0, 0);
    let (status, released) = ask("GET", "", "");
    assert_eq!(
        (status, &released["pin"], &released["history"][1]["why"]),
        (200, &Value::Null, &json!("enough"))
    );
    assert_eq!(ask("DELETE", "?why=twice", ""), (200, released), "repeating the release has no effect");
    let (status, printed) = command(&["baseline", "pins"]);
    assert!(
        status == 0 && printed.contains(&format!("pinned {first} by")) && printed.contains("released by"),
        "{printed}"
    );
    let (status, printed) = command(&["baseline", "pin", "absent-1"]);
    assert!(status == 64 && printed.contains("no run absent-1"), "{printed}");
    let (status, printed) = command(&["baseline", "unpin", "another"]);
    assert!(status == 64 && printed.contains("another has no pins"), "{printed}");
    assert_eq!(command(&["baseline"]).0, 64, "`baseline` without a subcommand requires `--save` and logs");
    up.end("-TERM");
}

#[test]
fn a_killed_server_resumes_its_runs() {
    let project = TestProject::new("sleep 0.3", "");
    let up = ServerProcess::of(&project);
    let run = up.begin("lab", "k");
    wait_for("a rank", || project.path("counts/rank-2").exists());
    up.end("-KILL");
    let up = ServerProcess::of(&project);
    assert_eq!(up.begin("lab", "k"), run);
    up.follow(&run);
    project.assert_each_fact_once(1, "a killed server");
    assert_eq!(up.get(&format!("/api/v1/runs/{run}"))["verdict"], "pass");
    for (name, count) in project.counts() {
        assert_eq!(count, 1, "{name} was started {count} times");
    }
    let stderr = up.end("-INT");
    assert!(stderr.contains(&format!("resuming {run}")), "{stderr}");
    project.assert_nothing_left();
}

#[test]
fn a_request_survives_the_process_that_accepted_it() {
    let project = TestProject::new("", "");
    // The server was killed between the request and its first record: only the request exists.
    let up = ServerProcess::of(&project);
    let run = up.begin("lab", "k");
    up.end("-KILL");
    fs::remove_dir_all(project.data().join("ledger")).unwrap();
    fs::remove_dir_all(project.data().join("open")).unwrap();
    let hint = project.data().join("requests/open");
    fs::create_dir_all(&hint).unwrap();
    let request =
        fs::read_dir(project.data().join("requests")).unwrap().flatten().find(|entry| entry.path().is_file());
    let request = request.unwrap().file_name().into_string().unwrap();
    fs::write(hint.join(&run), format!("requests/{request}")).unwrap();
    let up = ServerProcess::of(&project);
    wait_for("the request to be published again", || project.records() > 0);
    assert_eq!(up.follow(&run).last().map(String::as_str), Some("closed"));
    up.end("-TERM");
    project.assert_nothing_left();
}

#[test]
fn a_run_driven_by_another_process_is_cancelled_through_the_ledger() {
    let project = TestProject::new("sleep 30", "");
    let driving = project.start();
    wait_for("a rank", || project.path("counts/rank-2").exists());
    let up = ServerProcess::of(&project);
    let run = project.run();
    let cancel = format!("/api/v1/runs/{run}/cancel");
    let (status, body) =
        up.send("POST", &cancel, "Content-Type: application/json\r\n", r#"{"reason":"enough"}"#);
    assert_eq!(status, 202, "{body}");
    let output = driving.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(up.follow(&run).last().map(String::as_str), Some("closed"));
    for (name, count) in project.counts() {
        assert_eq!(count, 1, "{name} was started {count} times");
    }
    up.end("-TERM");
    project.assert_nothing_left();
}

#[test]
fn wrong_usage_is_reported_before_anything_is_created() {
    let project = TestProject::new("", "");
    let output = project.burnin(&["up", "--workflows", "nowhere"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--workflows: folder nowhere does not exist"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = project.burnin(&["up", "--workflows", ".", "--port", &port]);
    assert_eq!(output.status.code(), Some(64));
    let output =
        project.command(&["up", "--workflows", "."]).env("BURNIN_GITHUB_SECRETS", "short").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("BURNIN_GITHUB_SECRETS: expected secrets of at least 16")
    );
}

#[test]
fn every_workflow_is_printed_with_its_next_start_or_its_problems() {
    let project = TestProject::new("", "");
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    // Served from a separate folder, because the lab's folder also contains .yaml files that are not workflows.
    fs::create_dir(project.path("nightly")).unwrap();
    let nightly = |zone: &str| {
        let on = format!("on:\n  schedule: [{{cron: 30 2 * * *, zone: {zone}}}]\n  validated_every: 26h\n");
        let notify = "notify: [{slack: {webhook: ops-channel}}]\n";
        let text =
            workflow.replace("image.yaml", "../image.yaml").replace("source: build", "source: ../build");
        project.write(
            "nightly/lab.yaml",
            &format!("{}{on}{notify}", text.replace("criteria.yaml", "../criteria.yaml")),
        );
    };
    nightly("Europe/Zurch");
    project.write("nightly/bad.yaml", "name: bad\n");
    let up = || ServerProcess::new(project.command(&["up", "--port", "0", "--workflows", "nightly"]));
    let server = up();
    let (_, page) = server.send("GET", "/", "", "");
    for text in
        ["nightly&#x2f;bad.yaml:1:1: has no effect", "nightly&#x2f;lab.yaml:14:33:", "the time zone `Europe"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("data-begin"), "no run can be started");
    assert_eq!(server.get("/about")["workflows_broken"], 2);
    let stderr = server.end("-TERM");
    for line in [
        "  bad       BROKEN, cannot be started:\n    nightly/bad.yaml:1:1: has no effect",
        "  lab.yaml  BROKEN, cannot be started:\n    nightly/lab.yaml:",
        "on.schedule[0].zone: the time zone `Europe/Zurch` does not exist",
    ] {
        assert!(stderr.contains(line), "{line}: {stderr}");
    }
    // The file is corrected, and then broken again while it is served.
    nightly("Europe/Zurich");
    let server = up();
    // The stream may start after a change; then the next change is reported.
    let (mut changes, mut number) = (server.open("/changes"), 0);
    wait_for("an open page to be updated", || {
        number += 1;
        nightly(&format!("Europe/Zurch{number}"));
        let mut line = String::new();
        changes.read_line(&mut line).is_ok() && line == "event: changed\n"
    });
    wait_for("the change to be reported", || server.get("/about")["workflows_broken"] == 2);
    let (_, page) = server.send("GET", "/", "", "");
    for text in [
        "<b>lab</b> has errors; its last valid version stays in use:",
        "<option value=\"lab\"",
        "notices of lab cannot be sent: the url of `ops-channel` is not set: set BURNIN_CHANNEL_OPS_CHANNEL_URL",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let run = server.begin("lab", "k");
    assert_eq!(server.follow(&run).last().map(String::as_str), Some("closed"));
    let stderr = server.end("-TERM");
    assert!(stderr.contains("  lab  next start 20"), "{stderr}");
    assert!(
        stderr.contains("notices of lab cannot be sent: the url of `ops-channel` is not set"),
        "{stderr}"
    );
    assert!(stderr.contains("lab.yaml has errors; its last valid version stays in use"), "{stderr}");
    assert!(!stderr.contains("stale"), "a new workflow is not overdue: {stderr}");
}

#[test]
fn a_plan_lists_triggers_and_notifications() {
    let project = TestProject::new("", "");
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    let on = "on:\n  push: [{repository: acme/images, branches: [main], tags: ['v*']}]\n  schedule: [{cron: 30 2 * * *, zone: Europe/Zurich}]\n  build: [{trigger: nccl-image}]\n  cluster: [{source: //acme/rack, system: slurm, name: 'gpu-*'}]\nparameters: [limits.job]\nnotify: [{github: {check: true}}, {slack: {webhook: gpu-cluster, on: [failed, recovered]}}, {webhook: {target: pager}}]\n";
    project.write("w.yaml", &format!("{workflow}{on}"));
    let output = project.burnin(&["plan", "w.yaml"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    for line in [
        "Starts automatically: pushes to acme/images, main, v*.\n",
        "Starts automatically: 30 2 * * * in Europe/Zurich, next at ",
        "Starts automatically: successful builds of the trigger nccl-image.\n",
        "Starts automatically: slurm clusters named gpu-* offered by //acme/rack.\n",
        "API requests may override: limits.job.\n",
        "Notifies GitHub: status and check of the commit whose push starts the run.\n",
        "Notifies Slack gpu-cluster: failed, recovered.\n",
        "Notifies webhook pager: failed, inconclusive, broken, still-failing, recovered.\n",
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    project.write("w.yaml", &format!("{workflow}{}", on.replace("30 2 * * *", "30 26 * * *")));
    let output = project.burnin(&["check", "w.yaml"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr.contains("on.schedule[0].cron: the hour, `26`, is not 0 to 23"), "{stderr}");
}

#[test]
fn a_failure_and_its_recovery_are_each_notified_once() {
    let project = TestProject::new("", "");
    let receiver = Receiver::start();
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    project.write("w.yaml", &format!("{workflow}notify:\n  - webhook: {{target: pager}}\n"));
    // No machine reaches this floor.
    project.write("criteria.yaml", "name: impossible\nfloors: [{size_bytes: 1024, busbw: 1000000}]\n");
    let up = || {
        let mut command = project.command(&["up", "--port", "0", "--workflows", "."]);
        command.env("BURNIN_CHANNEL_PAGER_URL", &receiver.url);
        command.env("BURNIN_CHANNEL_PAGER_KEY", "a key of the receiver");
        ServerProcess::new(command)
    };
    let decided = |run: &str| project.data().join("notices").join(run).join("ended.json").exists();
    let server = up();
    let mut runs = Vec::new();
    for (number, expected) in [(1, 1), (2, 1), (3, 2), (4, 2)] {
        if number == 3 {
            project.write("criteria.yaml", "name: any\ndata_only: true\n");
        }
        let run = server.begin("lab", &number.to_string());
        assert_eq!(server.follow(&run).last().map(String::as_str), Some("closed"));
        wait_for("the notices to be decided", || decided(&run));
        wait_for("the notice", || receiver.requests().len() >= expected);
        runs.push(run);
    }
    let address = server.address.clone();
    server.end("-KILL");
    // Another process finds no pending notice.
    let server = up();
    let run = server.begin("lab", "5");
    server.follow(&run);
    wait_for("the notices to be decided", || decided(&run));
    let stderr = server.end("-TERM");
    let requests = receiver.requests();
    let news: Vec<_> = requests.iter().map(|(_, notice)| (&notice["news"], &notice["run"])).collect();
    let of = |number: usize| json!(runs[number - 1]);
    assert_eq!(news, [(&json!("failed"), &of(1)), (&json!("recovered"), &of(3))], "{stderr}");
    let (head, failed) = &requests[0];
    assert_eq!((&failed["verdict"], &failed["outcome"]), (&json!("fail"), &json!("failed")));
    assert_eq!(failed["link"], json!(format!("http://{address}/runs/{}", runs[0])));
    let id = failed["id"].as_str().unwrap();
    let head = head.to_ascii_lowercase();
    assert!(
        head.contains(&format!("idempotency-key: {id}\r\n")) && head.contains("x-burnin-signature: v1="),
        "{head}"
    );
    project.assert_nothing_left();
}

#[test]
fn a_host_without_certificates_performs_all_tasks_except_notices() {
    let project = TestProject::new("", "");
    let receiver = Receiver::start();
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    project.write("w.yaml", &format!("{workflow}notify:\n  - webhook: {{target: pager, on: [broken]}}\n"));
    project.write(
        "image.yaml",
        "steps: [{name: bash, script: exit 1}]\noptions: {substitutionOption: ALLOW_LOOSE}\n",
    );
    let mut command = project.command(&["up", "--port", "0", "--workflows", "."]);
    command.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
    command.env("BURNIN_CHANNEL_PAGER_URL", &receiver.url).env("BURNIN_CHANNEL_PAGER_KEY", "k");
    let server = ServerProcess::new(command);
    let run = server.begin("lab", "1");
    assert_eq!(server.follow(&run).last().map(String::as_str), Some("closed"));
    let attempt = project.data().join("notices").join(&run).join("webhook-pager/said-1.json");
    wait_for("the first attempt to fail", || attempt.exists());
    server.end("-TERM");
    let why = fs::read_to_string(attempt).unwrap();
    assert!(why.contains("TLS is not available"), "{why}");
    assert!(receiver.requests().is_empty());
}
