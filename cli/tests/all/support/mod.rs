//! Runs of the real command with local processes, each in its own folder.
pub mod receiver;
pub mod serving;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// The quickstart's benchmark, compiled once: every test is a separate process, and all tests share the folder.
pub fn bench() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/quickstart");
    let source = folder.join("collective_perf.rs");
    let changed =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().modified().unwrap());
    let written = changed.max().unwrap();
    let version = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("all_reduce_perf-{version}"));
    if !program.exists() {
        // The linker writes files with fixed names next to its output, so every test links in its own folder.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let draft = folder.path().join("all_reduce_perf");
        let compiled =
            Command::new("rustc").args(["--edition", "2024", "-O", "-o"]).arg(&draft).arg(source).status();
        assert!(compiled.unwrap().success(), "the benchmark compiles");
        fs::rename(draft, &program).unwrap();
    }
    program
}

/// A folder with a workflow whose benchmark counts its starts.
pub struct TestProject {
    pub folder: tempfile::TempDir,
}

impl TestProject {
    /// `prelude` is shell text that each rank runs before the benchmark; `limits` is YAML.
    pub fn new(prelude: &str, limits: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let project = Self { folder };
        project.write("build/prelude.sh", &format!("{prelude}\n"));
        project.write(
            "image.yaml",
            r#"
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
        cat prelude.sh
        echo "exec '$_BENCH' \"\$@\""
      } > image/all_reduce_perf
      chmod +x image/all_reduce_perf
      sleep "$_SLOW"
substitutions: {_BENCH: "", _COUNTS: "", _SLOW: "0.2"}
artifacts: {objects: {location: "gs://any/", paths: ["image/*"]}}
"#,
        );
        project.write("criteria.yaml", "name: any\ndata_only: true\n");
        fs::create_dir(project.path("counts")).unwrap();
        let (bench, counts) = (bench(), project.path("counts"));
        project.write(
            "w.yaml",
            &format!(
                r#"
name: lab
image:
  build:
    config: image.yaml
    source: build
    substitutions: {{_BENCH: "{}", _COUNTS: "{}"}}
cluster: {{rent: {{processes: {{nodes: 3}}}}}}
benchmark:
  workload: {{collective: all_reduce, min_bytes: 16, max_bytes: 1K, step_factor: 4, iterations: 5, warmup_iterations: 1}}
  criteria: criteria.yaml
limits: {{image: 60s, cluster: 30s, job: 60s, logs: 30s, results: 30s, verdict: 30s, lease: 5m, patience: 2s, grace: 5s{limits}}}
"#,
                bench.display(),
                counts.display()
            ),
        );
        project
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        command.current_dir(self.folder.path()).arg("--data").arg(self.data()).args(arguments);
        command.stdin(Stdio::null()).env_remove("RUST_LOG");
        command
    }

    pub fn burnin(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts a run and leaves it running.
    pub fn start(&self) -> Child {
        let mut command = self.command(&["run", "w.yaml", "--output", "json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The only run of this lab, once it exists. A start that was killed before its request leaves an empty folder.
    pub fn run(&self) -> String {
        let folders = fs::read_dir(self.data().join("ledger")).unwrap().map(|entry| entry.unwrap());
        let mut names = folders
            .filter(|folder| fs::read_dir(folder.path()).unwrap().next().is_some())
            .map(|folder| folder.file_name().into_string().unwrap());
        let run = names.next().unwrap();
        assert_eq!(names.next(), None, "one run");
        run
    }

    /// Number of ledger records.
    pub fn records(&self) -> usize {
        let Ok(runs) = fs::read_dir(self.data().join("ledger")) else { return 0 };
        runs.flatten().map(|run| fs::read_dir(run.path()).map_or(0, Iterator::count)).sum()
    }

    /// The recorded facts, in order.
    pub fn entries(&self) -> Vec<String> {
        let folder = self.data().join("ledger").join(self.run());
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let entry = |path: &PathBuf| {
            let record: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            let entry = &record["entry"];
            match entry["accepted"]["fact"]["type"].as_str() {
                Some(fact) => fact.trim_start_matches("dev.burnin.").trim_end_matches(".v1").to_owned(),
                None => entry.as_object().unwrap().keys().next().unwrap().clone(),
            }
        };
        names.iter().map(entry).collect()
    }

    /// Asserts that a run of this number of checks, killed and resumed, recorded each fact once. Only an acceptance may be missing: if
    /// the process is killed between the start of a step and its record, and the step ends before the resumption, the resumed process
    /// records the end directly.
    pub fn assert_each_fact_once(&self, checks: usize, context: &str) {
        let entries = self.entries();
        let expected = [
            ("run.requested", 1),
            ("image.accepted", 1),
            ("image.built", 1),
            ("cluster.accepted", 1),
            ("cluster.ready", 1),
            ("job.accepted", checks),
            ("job.done", checks),
            ("logs.collected", checks),
            ("verdict.reached", checks),
            ("results.loaded", checks),
            ("cluster.deleted", 1),
            ("closed", 1),
        ];
        for (name, times) in expected {
            let count = entries.iter().filter(|recorded| *recorded == name).count();
            let complete = count == times || (name.ends_with(".accepted") && count < times);
            assert!(complete, "{context}: {name} is recorded {count} times instead of {times}: {entries:?}");
        }
        let unexpected = entries.iter().find(|recorded| expected.iter().all(|(name, _)| recorded != name));
        assert_eq!(unexpected, None, "{context}: {entries:?}");
        assert_eq!(entries.last().map(String::as_str), Some("closed"), "{context}: {entries:?}");
    }

    /// Number of starts of each step.
    pub fn counts(&self) -> Vec<(String, usize)> {
        let mut counts: Vec<_> = fs::read_dir(self.path("counts"))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let lines = fs::read_to_string(&path).unwrap().lines().count();
                (path.file_name().unwrap().to_str().unwrap().to_owned(), lines)
            })
            .collect();
        counts.sort();
        counts
    }

    /// Processes with this lab's folder in their command line or environment, except this test.
    pub fn left_running(&self) -> Vec<String> {
        let mark = self.folder.path().display().to_string();
        let mut left = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let read = |file: &str| {
                String::from_utf8_lossy(&fs::read(entry.path().join(file)).unwrap_or_default()).into_owned()
            };
            let command = read("cmdline");
            if pid != std::process::id() && (command.contains(&mark) || read("environ").contains(&mark)) {
                left.push(format!("{pid}: {}", command.replace('\0', " ")));
            }
        }
        left
    }

    /// Checks that no process is left running, and waits at most 30 s for processes that are ending.
    pub fn assert_nothing_left(&self) {
        wait_for("every process to end", || self.left_running().is_empty());
    }
}

pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("expected JSON, found {}", String::from_utf8_lossy(&output.stderr)))
}

pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < until, "timeout waiting for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn signal(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// `workflows/kubernetes-cpu.yaml` for two nodes, adapted as a user would, in a folder of workflows.
#[cfg(feature = "kubernetes")]
pub fn workflows_for_kubernetes(folder: &Path, settings: &[(&str, &str)]) {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows");
    fs::create_dir_all(folder.join("criteria")).unwrap();
    let criteria = "criteria/this-machine.yaml";
    fs::copy(ours.join(criteria), folder.join(criteria)).unwrap();
    let text = fs::read_to_string(ours.join("kubernetes-cpu.yaml")).unwrap();
    let lines = text.lines().map(|line| {
        let (name, _) = line.split_once(':').unwrap_or((line, ""));
        let setting =
            settings.iter().find(|(field, _)| name.trim() == *field && line.starts_with("        "));
        setting.map_or_else(|| line.to_owned(), |(_, value)| format!("{name}: {value}"))
    });
    fs::write(folder.join("kubernetes-cpu.yaml"), lines.map(|line| line + "\n").collect::<String>()).unwrap();
}
