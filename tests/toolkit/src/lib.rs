//! A simulated cloud in a folder: its resources, the recorded calls and the injected faults. The programs of
//! `tests/testbed/toolkit` read and write the folder.

use std::{
    fs, io,
    io::{Read, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Digest of every image in the registry.
pub const DIGEST: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

pub fn repository(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)
}

/// A cloud with a bucket for Terraform's state, and one reservation of four machines.
pub struct Cloud {
    root: TempDir,
}

impl Cloud {
    /// Creates a cloud without resources.
    ///
    /// # Errors
    /// Returns an error if its folder cannot be created.
    pub fn new() -> io::Result<Self> {
        let root = tempfile::tempdir()?;
        fs::create_dir_all(root.path().join("gcs/tfstate"))?;
        fs::create_dir_all(root.path().join("faults"))?;
        let machines =
            json!({"count": "4", "inUseCount": "1", "instanceProperties": {"machineType": "a3-megagpu-8g"}});
        let reservations = json!({"eight-gpus": {"status": "READY", "specificReservationRequired": true, "specificReservation": machines}});
        fs::write(root.path().join("reservations.json"), reservations.to_string())?;
        Ok(Self { root })
    }

    /// Folder with the state of the simulated cloud.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Environment of steps and scripts, as `NAME=VALUE`: the stand-ins on the `PATH`, and this cloud's folder.
    pub fn environment(&self) -> [String; 2] {
        let programs = repository("tests/testbed/toolkit/bin");
        let path = std::env::var("PATH").unwrap_or_default();
        [
            // The system's Python comes first, because a version manager's Python takes 200 ms to start.
            format!("PATH={}:/usr/bin:{path}", programs.display()),
            format!("TOOLKIT_WORLD={}", self.path().display()),
        ]
    }

    /// Injects faults into an operation: one line per call, an empty line for a call without a fault.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn fault(&self, operation: &str, lines: &str) -> io::Result<()> {
        fs::write(self.path().join("faults").join(operation), lines)
    }

    /// All resources, as `kind name`.
    pub fn resources(&self) -> Vec<String> {
        let kinds = self.kinds();
        let named = kinds.as_object().into_iter().flatten();
        let named = named.flat_map(|(kind, things)| {
            let names = things.as_object().into_iter().flat_map(|things| things.keys());
            names.map(move |name| format!("{kind} {name}"))
        });
        named.collect()
    }

    /// All resources by kind and name.
    pub fn kinds(&self) -> Value {
        let text = fs::read(self.path().join("things.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// All calls, one per line, each as a JSON array of its arguments.
    pub fn calls(&self) -> String {
        fs::read_to_string(self.path().join("calls.jsonl")).unwrap_or_default()
    }
}

/// Starts a registry that returns [`DIGEST`] for every tag, until the test ends. Returns its address, `HOST:PORT`.
///
/// # Errors
/// Returns an error if no port is free.
pub fn registry() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = Vec::new();
            let mut piece = [0; 1024];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => request.extend_from_slice(&piece[..read]),
                }
            }
            let answer = format!(
                "HTTP/1.1 200 OK\r\nDocker-Content-Digest: {DIGEST}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            _ = stream.write_all(answer.as_bytes());
        }
    });
    Ok(address)
}
