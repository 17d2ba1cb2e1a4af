//! `burnin-notifier` as a process: its environment, and an event and a chore over folders.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_burnin-notifier"));
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
        .env("BURNIN_CHANNELS", "channels")
        .env("BURNIN_GITHUB_API", "http://github.example/api/v3")
        .env("BURNIN_LINK", "https://burnin.example/runs");
    let output = program.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    for problem in [
        "BURNIN_ARTEFACTS: is not set",
        "BURNIN_CHANNELS: `channels` is not understood: expected an absolute path",
        "BURNIN_GITHUB_API: `http://github.example/api/v3` is not understood: expected https://",
        "BURNIN_LINK: `https://burnin.example/runs` is not understood: expected an address with {run} in it",
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

fn ask(port: u16, method: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
}

#[test]
fn it_serves_its_chore_over_folders() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut program = program();
    program
        .env("PORT", port.to_string())
        .env("BURNIN_LEDGER", folder.path().join("ledger"))
        .env("BURNIN_ARTEFACTS", folder.path().join("artefacts"));
    let _served = Served(program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(30);
    while ask(port, "GET", "/healthz").is_none() {
        assert!(Instant::now() < until, "it does not serve");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (status, about) = ask(port, "GET", "/about").unwrap();
    assert!(
        status == 200 && about.contains("dev.burnin.run.closed.v1") && about.contains("notices"),
        "{about}"
    );
    assert_eq!(ask(port, "POST", "/chores/notices").unwrap().0, 204);
    assert!(folder.path().join("artefacts/notices/since.json").exists());
}
