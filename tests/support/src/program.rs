//! Runs a service as a separate process that stores its objects in folders. Tests call it over HTTP, and it ends with its test.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The program at this path, with the variables that every service needs. Nothing listens at the configured Pub/Sub address.
pub fn program(path: &str) -> Command {
    let mut program = Command::new(path);
    program.env_clear().env("BURNIN_AUTH", "platform").env("BURNIN_PROJECT", "val-prod");
    program.env("BURNIN_LOG_FORMAT", "compact").stdin(Stdio::null());
    program.env("PUBSUB_EMULATOR_HOST", "127.0.0.1:1");
    program
}

/// Checks that a service reports all these errors and exits with 64.
pub fn refuses(mut program: Command, problems: &[&str]) {
    let output = program.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{stderr}");
    for problem in problems {
        assert!(stderr.contains(problem), "{problem}: {stderr}");
    }
}

pub struct ServiceProcess {
    process: Child,
    port: u16,
}

impl ServiceProcess {
    /// Starts the service, and waits until it responds.
    pub fn start(mut program: Command) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        program.env("PORT", port.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let served = Self { process: program.spawn().unwrap(), port };
        let until = Instant::now() + Duration::from_secs(60);
        while served.try_send("GET", "/healthz", "").is_none() {
            assert!(Instant::now() < until, "{program:?} does not respond after 60 s");
            std::thread::sleep(Duration::from_millis(5));
        }
        served
    }

    /// Status and body of the response.
    pub fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.try_send(method, path, body).unwrap_or_else(|| panic!("{method} {path}: no answer"))
    }

    /// Status and body of a GET.
    pub fn get(&self, path: &str) -> (u16, String) {
        self.send("GET", path, "")
    }

    fn try_send(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let length = body.len();
        let head = "Host: service.example\r\nConnection: close\r\nContent-Type: application/json";
        write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}")
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
