//! Runs that count what they begin.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use kit::{Bus, Clock, SystemClock};
use ledger::Store;
use terms::{Attempt, Fact, RunId, RunRequested, Trigger};

/// Sizes that every run measures.
pub const SIZES: usize = 4;
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

/// Asks for runs.
pub struct Requests {
    folder: PathBuf,
    bench: PathBuf,
    bus: Arc<dyn Bus>,
    store: Arc<dyn Store>,
}

impl Requests {
    /// Compiles the quickstart's benchmark; what runs count goes into `folder`.
    pub fn new(folder: &Path, bus: Arc<dyn Bus>, store: Arc<dyn Store>) -> Result<Self, String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder.join("source")).map_err(told)?;
        fs::write(folder.join("source/readme"), "nothing is needed\n").map_err(told)?;
        fs::write(folder.join("image.yaml"), BUILD).map_err(told)?;
        fs::write(folder.join("criteria.yaml"), "name: any\n").map_err(told)?;
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows/quickstart/all_reduce_perf.rs");
        let bench = folder.join("all_reduce_perf");
        let mut rustc = Command::new("rustc");
        let compiled = rustc.args(["--edition", "2024", "-O", "-o"]).arg(&bench).arg(source).status();
        if !compiled.map_err(told)?.success() {
            return Err("the benchmark does not compile".to_owned());
        }
        Ok(Self { folder: folder.to_owned(), bench, bus, store })
    }

    /// Where a run counts.
    pub fn counts(&self, run: &RunId) -> PathBuf {
        self.folder.join("counts").join(run.as_str())
    }

    /// Asks for run number `number`, again and again until the bus has it.
    pub async fn ask(&self, number: usize) -> Result<RunId, String> {
        let run: RunId = format!("kill-{number}").parse().map_err(|error| format!("{error}"))?;
        let counts = self.counts(&run);
        fs::create_dir_all(&counts).map_err(|error| error.to_string())?;
        let path = self.folder.join(format!("{run}.yaml"));
        let workflow = format!(
            r#"
name: kill
image:
  build:
    config: image.yaml
    source: source
    substitutions: {{_BENCH: "{}", _COUNTS: "{}"}}
cluster: {{rent: {{processes: {{nodes: {NODES}}}}}}}
benchmark:
  workload: {{collective: all_reduce, min_bytes: 16, max_bytes: 1K, step_factor: 4, iterations: 5, warmup_iterations: 1}}
  criteria: criteria.yaml
limits: {{image: 10m, cluster: 10m, job: 10m, logs: 10m, results: 10m, verdict: 10m, lease: 60m, patience: 15s, grace: 2m}}
"#,
            self.bench.display(),
            counts.display()
        );
        fs::write(&path, workflow).map_err(|error| error.to_string())?;
        let resolved = workflow::resolve(&path, &[]).map_err(|problems| problems.to_string())?;
        for archive in resolved.archives {
            self.store.create(&archive.object, archive.bytes).await.map_err(|error| error.to_string())?;
        }
        let trigger = Trigger { kind: "manual".to_owned(), by: "kill".to_owned() };
        let requested = RunRequested { workflow: resolved.workflow, trigger };
        let fact = Fact::RunRequested(Box::new(requested));
        let message = contract::Message::fact("kill", run.clone(), Attempt::FIRST, fact);
        let event = message.stamped(SystemClock.now(), None).to_event();
        for _ in 0..10 {
            if self.bus.publish(event.clone()).await.is_ok() {
                return Ok(run);
            }
        }
        Err(format!("{run} could not be asked for"))
    }
}
