//! A copy of the workflow's folder, and its build configs run by the local runner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ansible_events::PlayFindings;
use cloudbuild::plan::{self, Inputs};
use cloudbuild::{BuildConfig, BuildStatus, Plan, local};
use tempfile::TempDir;

/// Folder of the workflow's files.
pub fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows/dgx-slurm-perf")
}

/// The plan of one of the build configs of the workflow, with these substitutions.
pub fn plan(config: &str, substitutions: &BTreeMap<String, String>) -> Plan {
    let document =
        workflow::YamlDocument::read(&source().join(config)).unwrap_or_else(|problems| panic!("{problems}"));
    let config: BuildConfig = document.read_as().unwrap_or_else(|problems| panic!("{problems}"));
    let inputs = Inputs { substitutions: substitutions.clone(), ..Inputs::default() };
    plan::check(&config, &inputs).unwrap_or_else(|problems| panic!("{problems:?}"))
}

pub struct Workspace {
    folder: TempDir,
    pub substitutions: BTreeMap<String, String>,
}

pub struct PlaybookResult {
    pub status: BuildStatus,
    /// The last step that ran.
    pub last: String,
    pub log: String,
}

impl Workspace {
    pub fn new(inventory: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let copied = Command::new("cp").arg("-rT").arg(source()).arg(folder.path()).status().unwrap();
        assert!(copied.success());
        std::fs::write(folder.path().join("inventory"), inventory).unwrap();
        Self { folder, substitutions: BTreeMap::new() }
    }

    pub fn set(mut self, name: &str, value: impl Into<String>) -> Self {
        self.substitutions.insert(name.to_owned(), value.into());
        self
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Runs a build config as Burnin does.
    pub fn run(&self, config: &str) -> PlaybookResult {
        let plan = plan(config, &self.substitutions);
        let logs = TempDir::new().unwrap();
        let request = local::PlanRequest::new(self.path(), logs.path().join("log"));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(local::run(&plan, &request, Default::default()));
        let log = std::fs::read_to_string(&outcome.log).unwrap();
        let last = outcome.steps.iter().rfind(|step| step.started.is_some()).and_then(|step| step.id.clone());
        PlaybookResult { status: outcome.status, last: last.unwrap_or_default(), log }
    }

    /// Runs a script of the workflow with Python; returns exit code and output.
    pub fn python(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new("python3");
        command.args(arguments).current_dir(self.path()).envs(&self.substitutions);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text.into_owned())
    }

    /// Findings in the events of a playbook.
    pub fn findings(&self, play: &str) -> PlayFindings {
        ansible_events::read(self.read(&format!("events/{play}.jsonl")).as_bytes()).unwrap()
    }

    /// Names of the playbooks that ran in this workspace, sorted.
    pub fn played(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path().join("events")) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn the_build_configs_pass_the_plan_check() {
    for config in ["provision.yaml", "release.yaml"] {
        let plan = plan(config, &BTreeMap::new());
        assert!(plan.steps.len() >= 3, "{config}");
        // Parameters are environment variables and never part of a script's text.
        for (at, line) in std::fs::read_to_string(source().join(config)).unwrap().lines().enumerate() {
            assert!(!line.contains("${_") && !line.contains("$$"), "{config}:{}: {line}", at + 1);
        }
    }
}
