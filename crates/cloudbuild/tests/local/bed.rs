//! Runs builds in a temporary workspace and records their events.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloudbuild::{BuildEvent, Inputs, Plan, PlanOutcome, PlanRequest, local, plan};
use rustix::process::{Pid, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub struct BuildHost {
    folder: TempDir,
    pub inputs: Inputs,
    pub request: PlanRequest,
    pub cancel: CancellationToken,
    events: Arc<Mutex<Vec<BuildEvent>>>,
}

impl BuildHost {
    pub fn new() -> Self {
        Self::within(std::env::temp_dir().as_path())
    }

    pub fn within(parent: &Path) -> Self {
        let folder = tempfile::tempdir_in(parent).unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        let mut request = PlanRequest::new(workspace, folder.path().join("log.txt"));
        request.grace = Duration::from_millis(500);
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        request.on_event = Some(Arc::new(move |event| seen.lock().unwrap().push(event.clone())));
        Self { folder, inputs: Inputs::default(), request, cancel: CancellationToken::new(), events }
    }

    pub fn plan(&self, config: Value) -> Plan {
        plan::check(&serde_json::from_value(config).expect("a config"), &self.inputs).expect("a plan")
    }

    pub async fn run(&self, config: Value) -> PlanOutcome {
        let plan = self.plan(config);
        let outcome = tokio::time::timeout(Duration::from_secs(60), self.run_plan(&plan)).await;
        outcome.expect("the build ends")
    }

    pub async fn run_plan(&self, plan: &Plan) -> PlanOutcome {
        local::run(plan, &self.request, self.cancel.clone()).await
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.request.workspace.join(name)
    }

    pub fn outside(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.log()))
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.request.log).unwrap()).into_owned()
    }

    /// Output of the steps, without the runner's own lines and the prefix.
    pub fn output(&self) -> Vec<String> {
        let log = self.log();
        let lines = log.lines().filter(|line| line.starts_with("Step #"));
        lines.filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect()
    }

    pub fn events(&self) -> Vec<BuildEvent> {
        self.events.lock().unwrap().clone()
    }

    /// Waits until a step has written a process id into a file of the workspace.
    pub async fn pid(&self, name: &str) -> Pid {
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_secs(30) {
            let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n').and_then(|text| Pid::from_raw(text.parse().ok()?)) {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{name} was never written\n{}", self.log());
    }
}

/// Whether a process has ended, or is a zombie that init has not reaped yet.
pub fn is_gone(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let zombie = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']));
    zombie || test_kill_process(pid).is_err()
}
