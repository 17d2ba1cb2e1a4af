//! Google's Pub/Sub emulator: the bus between the services.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

/// Project of all topics.
pub const PROJECT: &str = "burnin-test";

/// A running emulator; stops on drop.
pub struct PubsubEmulator {
    process: Child,
    /// Address of the emulator, `host:port`.
    pub host: String,
    http: reqwest::Client,
}

impl PubsubEmulator {
    pub fn start(jar: &Path, log: &Path) -> Result<Self, String> {
        let port = crate::free_port()?;
        let message = |error: std::io::Error| format!("the emulator: {error}");
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar"]).arg(jar);
        command.args(["--host=127.0.0.1", &format!("--port={port}")]).stdin(Stdio::null());
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(message)?;
        let mut stderr =
            BufReader::new(process.stderr.take().ok_or("the emulator's standard error is not readable")?);
        let mut file = File::create(log).map_err(message)?;
        let mut line = String::new();
        // The emulator also keeps running if its port is in use: only this log line shows that it accepts connections.
        while !line.contains("Server started") {
            line.clear();
            if stderr.read_line(&mut line).map_err(message)? == 0 {
                return Err(format!("the emulator ended; see {}", log.display()));
            }
            std::io::Write::write_all(&mut file, line.as_bytes()).map_err(message)?;
        }
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut file));
        Ok(Self { process, host: format!("127.0.0.1:{port}"), http: reqwest::Client::new() })
    }

    /// Creates a topic or a push subscription.
    async fn put(&self, kind: &str, name: &str, body: Value) -> Result<(), String> {
        let url = format!("http://{}/v1/projects/{PROJECT}/{kind}/{name}", self.host);
        let answer = self.http.put(url).json(&body).send().await.map_err(|error| error.to_string())?;
        match answer.error_for_status() {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{kind} {name}: {error}")),
        }
    }

    pub async fn topic(&self, name: &str) -> Result<(), String> {
        self.put("topics", name, json!({})).await
    }

    /// Creates a pull subscription.
    pub async fn create_pull_subscription(&self, topic: &str, subscription: &str) -> Result<(), String> {
        let topic = format!("projects/{PROJECT}/topics/{topic}");
        self.put("subscriptions", subscription, json!({"topic": topic, "ackDeadlineSeconds": 10})).await
    }

    /// Creates a push subscription to a path of a local port.
    pub async fn push(&self, topic: &str, subscription: &str, port: u16, path: &str) -> Result<(), String> {
        let body = json!({
            "topic": format!("projects/{PROJECT}/topics/{topic}"),
            "ackDeadlineSeconds": 10,
            "pushConfig": {"pushEndpoint": format!("http://127.0.0.1:{port}{path}")},
        });
        self.put("subscriptions", subscription, body).await
    }
}

impl Drop for PubsubEmulator {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Path of the emulator in an installed Google Cloud SDK.
pub fn jar() -> Result<PathBuf, String> {
    let roots = ["/usr/lib/google-cloud-sdk", "/opt/google-cloud-sdk", "/usr/share/google-cloud-sdk"];
    let folders = roots.map(|root| Path::new(root).join("platform/pubsub-emulator/lib"));
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let jar = files.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|kind| kind == "jar"));
    jar.ok_or_else(|| {
        "Google's SDK with its Pub/Sub emulator is not installed; install the SDK's component pubsub-emulator"
            .to_owned()
    })
}
