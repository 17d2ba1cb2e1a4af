//! `burnin-gateway` as a process: its environment, and a request that reaches its buckets.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_burnin-gateway"));
    program.env_clear().env("BURNIN_AUTH", "platform").env("BURNIN_PROJECT", "val-prod");
    program.env("BURNIN_LOG_FORMAT", "compact").stdin(Stdio::null());
    // Nothing listens there.
    program.env("PUBSUB_EMULATOR_HOST", "127.0.0.1:1");
    program
}

#[test]
fn what_is_wrong_with_its_environment_is_told_at_once() {
    let mut program = program();
    program
        .env("BURNIN_LEDGER", "gs://ledger")
        .env("BURNIN_RATES", "fast")
        .env("BURNIN_SERVES", "cake")
        .env("BURNIN_GITHUB_SECRETS", "short");
    let output = program.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    for problem in [
        "BURNIN_ARTEFACTS: is not set",
        "BURNIN_WORKFLOWS: is not set",
        "BURNIN_RATES: `fast` is not understood: expected requests a second and changes a second",
        "BURNIN_SERVES: `cake` is not understood: expected everything or hooks",
        "BURNIN_GITHUB_SECRETS:",
    ] {
        assert!(said.contains(problem), "{problem}: {said}");
    }
}

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn ask(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let length = body.len();
    let head = "Host: gateway.example\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
}

#[test]
fn where_everybody_may_come_nothing_but_webhooks_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    let mut program = program();
    program.env("PORT", port.to_string()).env("BURNIN_SERVES", "hooks").env("BURNIN_WORKFLOWS", workflows);
    program.env("BURNIN_LEDGER", folder.path().join("ledger"));
    program.env("BURNIN_ARTEFACTS", folder.path().join("artefacts"));
    let _served = Served(program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(30);
    while ask(port, "GET", "/healthz", "").is_none() {
        assert!(Instant::now() < until, "it does not serve");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(ask(port, "POST", "/hooks/github", "{}").unwrap().0, 401, "signed by nobody");
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
        assert_eq!(ask(port, method, path, body).unwrap().0, 404, "{method} {path}");
    }
}

#[test]
fn it_serves_its_api_and_its_chores_over_folders() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = |name: &str| folder.path().join(name);
    let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    let mut program = program();
    program
        .env("PORT", port.to_string())
        .env("BURNIN_LEDGER", at("ledger"))
        .env("BURNIN_ARTEFACTS", at("artefacts"));
    program.env("BURNIN_WORKFLOWS", workflows);
    let _served = Served(program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(30);
    while ask(port, "GET", "/healthz", "").is_none() {
        assert!(Instant::now() < until, "it does not serve");
        std::thread::sleep(Duration::from_millis(5));
    }
    let get = |path: &str| ask(port, "GET", path, "").unwrap();
    let (status, about) = get("/about");
    assert!(
        status == 200 && about.contains("dev.burnin.run.request.v1") && about.contains("requests"),
        "{about}"
    );
    assert_eq!(get("/api/v1/runs").0, 200);
    assert!(get("/api/v1/workflows").1.contains("quickstart"));
    for chore in ["schedule", "refs", "requests"] {
        assert_eq!(ask(port, "POST", &format!("/chores/{chore}"), "").unwrap().0, 204, "{chore}");
    }
    // Signed by nobody: refused by itself, without the platform's help.
    assert_eq!(ask(port, "POST", "/hooks/github", "{}").unwrap().0, 401);
    // Pub/Sub is not there: the request is kept, and said to be later.
    let (status, _) = ask(port, "POST", "/api/v1/runs", r#"{"workflow":"quickstart"}"#).unwrap();
    assert_eq!(status, 503);
    assert_eq!(std::fs::read_dir(at("artefacts/requests/open")).unwrap().count(), 1);
}
