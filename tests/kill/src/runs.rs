//! Runs that count their starts.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use lifecycle::RunState;
use model::RunId;
use serde_json::{Value, json};

/// Measurements of every run: four sizes, each out of place and in place.
pub const MEASUREMENTS: usize = 8;
/// Nodes of every run, one rank each.
pub const NODES: usize = 2;

const BUILD: &str = r#"
steps:
  - id: wrap
    name: bash
    automapSubstitutions: true
    script: |
      #!/usr/bin/env bash
      set -euo pipefail
      echo built >> "$_COUNTS/builds"
      mkdir -p image
      {
        echo '#!/usr/bin/env bash'
        echo "echo begun >> '$_COUNTS/rank-'\$BURNIN_RANK"
        echo 'sleep 1'
        echo "exec '$_BENCH' \"\$@\""
      } > image/all_reduce_perf
      chmod +x image/all_reduce_perf
      sleep 1
substitutions: {_BENCH: "", _COUNTS: ""}
artifacts: {objects: {location: "gs://any/", paths: ["image/*"]}}
"#;

pub struct RunRequests {
    folder: PathBuf,
    bench: PathBuf,
    http: reqwest::Client,
}

/// The name of the workflow of run number `number`.
pub fn name(number: usize) -> String {
    format!("kill-{number}")
}

/// Maximum time in which the gateways reject requests: the test kills and restarts them.
const TIMEOUT: Duration = Duration::from_secs(300);

impl RunRequests {
    /// Compiles the quickstart's benchmark; runs write their counts into `folder`.
    pub fn new(folder: &Path) -> Result<Self, String> {
        let message = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder.join("source")).map_err(message)?;
        fs::write(folder.join("source/readme"), "no source is needed\n").map_err(message)?;
        fs::write(folder.join("image.yml"), BUILD).map_err(message)?;
        fs::write(folder.join("criteria.yml"), "name: any\ndata_only: true\n").map_err(message)?;
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows/quickstart/collective_perf.rs");
        let bench = folder.join("all_reduce_perf");
        let mut rustc = Command::new("rustc");
        let compiled = rustc.args(["--edition", "2024", "-O", "-o"]).arg(&bench).arg(source).status();
        if !compiled.map_err(message)?.success() {
            return Err("the benchmark does not compile".to_owned());
        }
        Ok(Self { folder: folder.to_owned(), bench, http: reqwest::Client::new() })
    }

    /// Checks the number of starts of a closed run: each attempt starts each job once, and no stage failed, so each stage has one attempt.
    pub fn check(&self, state: &RunState, wrong: &mut Vec<String>) {
        let mut expected: BTreeMap<String, usize> =
            (0..NODES).map(|rank| (format!("rank-{rank}"), 1)).collect();
        expected.insert("builds".to_owned(), 1);
        let entries = fs::read_dir(self.counts(&state.run)).into_iter().flatten().flatten();
        let count = |entry: fs::DirEntry| {
            let lines = fs::read_to_string(entry.path()).unwrap_or_default().lines().count();
            (entry.file_name().to_string_lossy().into_owned(), lines)
        };
        let counted: BTreeMap<_, _> = entries.map(count).collect();
        if counted != expected {
            let (run, leases) = (&state.run, state.leases.len());
            wrong.push(format!("{run}: starts: expected {expected:?}, found {counted:?}; leases: {leases}"));
        }
    }

    /// Folder of a run's counts, named after the workflow, because each workflow has one run.
    fn counts(&self, run: &RunId) -> PathBuf {
        let workflow = run.as_str().rsplit_once('-').map_or(run.as_str(), |(workflow, _)| workflow);
        self.folder.join("counts").join(workflow)
    }

    /// Requests run number `number` at every gateway at the same time, until each has answered with the run.
    pub async fn ask(&self, number: usize, gateways: &[String]) -> Result<RunId, String> {
        let name = name(number);
        let counts = self.folder.join("counts").join(&name);
        fs::create_dir_all(&counts).map_err(|error| error.to_string())?;
        let path = self.folder.join(format!("{name}.yaml"));
        let workflow = format!(
            r#"
name: {name}
image:
  build:
    config: image.yml
    source: source
    substitutions: {{_BENCH: "{}", _COUNTS: "{}"}}
cluster: {{rent: {{processes: {{nodes: {NODES}}}}}}}
benchmark:
  workload: {{collective: all_reduce, min_bytes: 16, max_bytes: 1K, step_factor: 4, iterations: 5, warmup_iterations: 1}}
  criteria: criteria.yml
limits: {{image: 10m, cluster: 10m, job: 10m, logs: 10m, results: 10m, verdict: 10m, lease: 60m, patience: 15s, grace: 2m}}
notify: [webhook: {{target: kill}}]
"#,
            self.bench.display(),
            counts.display()
        );
        fs::write(&path, workflow).map_err(|error| error.to_string())?;
        let mut tasks = tokio::task::JoinSet::new();
        for gateway in gateways {
            tasks.spawn(begin(self.http.clone(), gateway.clone(), name.clone()));
        }
        let mut runs = Vec::new();
        while let Some(started) = tasks.join_next().await {
            runs.push(started.map_err(|error| error.to_string())??);
        }
        runs.dedup();
        match runs.as_slice() {
            [run] => Ok(run.clone()),
            many => Err(format!("expected one run for one key, found {many:?}")),
        }
    }
}

async fn begin(http: reqwest::Client, gateway: String, name: String) -> Result<RunId, String> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let request = http.post(&gateway).header("idempotency-key", &name).json(&json!({"workflow": name}));
        let reason = match request.timeout(Duration::from_secs(10)).send().await {
            Ok(answer) if answer.status() == 202 => {
                // The gateway was killed while it answered: a retry with the same key returns the same run.
                let started: Result<Value, _> = answer.json().await;
                match started.ok().and_then(|started| started["run"].as_str()?.parse().ok()) {
                    Some(run) => return Ok(run),
                    None => "the response is incomplete".to_owned(),
                }
            }
            Ok(answer) if answer.status().is_client_error() => {
                return Err(format!("{name} is refused: {}", answer.text().await.unwrap_or_default()));
            }
            Ok(answer) => answer.status().to_string(),
            Err(error) => error.to_string(),
        };
        if Instant::now() > until {
            return Err(format!("{name} could not be requested: {reason}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
