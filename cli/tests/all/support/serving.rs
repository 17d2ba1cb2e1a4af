//! `burnin up` over HTTP.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::{TestProject, signal};

/// A server on its own port.
pub struct ServerProcess {
    pub process: Child,
    pub address: String,
    /// The browser's cookie from the sign-in link, as a header.
    cookie: String,
}

impl ServerProcess {
    pub fn new(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let link = line.trim().strip_prefix("http://").and_then(|link| link.split_once('/'));
        let (address, query) =
            link.unwrap_or_else(|| panic!("expected the server's address, found {line:?}"));
        let mut up = Self { process, address: address.to_owned(), cookie: String::new() };
        let answer = up.exchange("GET", &format!("/{query}"), "", "");
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookie.and_then(|cookie| cookie.split(';').next());
        up.cookie = format!(
            "Cookie: {}\r\n",
            cookie.unwrap_or_else(|| panic!("the response sets no cookie: {answer}"))
        );
        up
    }

    /// Serves a lab's workflow and data.
    pub fn of(project: &TestProject) -> Self {
        Self::new(project.command(&["up", "--port", "0", "--workflows", "."]))
    }

    /// Sends a request with the credentials of the server's user.
    pub fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        self.send_as(&self.cookie, method, path, headers, body)
    }

    /// Sends a request with this credential line; an empty line is omitted.
    pub fn send_as(&self, proof: &str, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let answer = self.exchange(method, path, &format!("{proof}{headers}"), body);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// A stream of events, positioned after the response head; a read waits at most three seconds.
    pub fn open(&self, path: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n{}\r\n", self.address, self.cookie).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        reader
    }

    fn exchange(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let host = &self.address;
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, "", "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    pub fn begin(&self, workflow: &str, key: &str) -> String {
        let headers = format!("Content-Type: application/json\r\nIdempotency-Key: {key}\r\n");
        let (status, body) =
            self.send("POST", "/api/v1/runs", &headers, &json!({"workflow": workflow}).to_string());
        assert_eq!(status, 202, "{body}");
        let started: Value = serde_json::from_str(&body).unwrap();
        started["run"].as_str().unwrap().to_owned()
    }

    /// Follows the run until its end. Returns the types of its records.
    pub fn follow(&self, run: &str) -> Vec<String> {
        let mut steps: Vec<(u64, String)> = Vec::new();
        loop {
            let after = steps.last().map_or(0, |(seq, _)| *seq);
            let (status, body) =
                self.send("GET", &format!("/api/v1/runs/{run}/events?after={after}"), "", "");
            assert_eq!(status, 200, "{body}");
            for line in body.lines().filter_map(|line| line.strip_prefix("data: ")) {
                let step: Value = serde_json::from_str(line).unwrap();
                let Some(seq) = step["seq"].as_u64() else {
                    return steps.into_iter().map(|(_, what)| what).collect();
                };
                steps.push((seq, step["what"].as_str().unwrap().to_owned()));
            }
        }
    }

    pub fn end(mut self, by: &str) -> String {
        signal(by, self.process.id());
        let status = self.process.wait().unwrap();
        let mut stderr = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        if by != "-KILL" {
            assert!(status.success(), "{status}: {stderr}");
        }
        stderr
    }
}
