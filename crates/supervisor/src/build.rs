//! Local builds, each in its own supervisor process: the counterpart of Cloud Build.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use cloudbuild::{Artifact, BuildConfig, BuildEvent, BuildStatus, Inputs, PlanRequest, Secret};
use model::SourceRepository;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    OwnProgram, lock_files,
    process::{self, SupervisedGroup},
};

/// Poll interval for a cancel request.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BuildRequest {
    /// A Cloud Build config, as JSON.
    pub config: serde_json::Value,
    /// A tar archive to unpack into the workspace.
    pub source: Option<PathBuf>,
    /// A Git repository to check out into the workspace.
    #[serde(default)]
    pub repository: Option<SourceRepository>,
    /// Values for `_NAME` substitutions.
    pub substitutions: BTreeMap<String, String>,
    /// The build's id, for `$BUILD_ID`.
    pub id: String,
    /// A folder with one file per secret, named after it. Only its path is stored here.
    #[serde(default)]
    pub secrets: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BuildOutcome {
    /// Status, in Cloud Build's spelling.
    pub status: BuildStatus,
    /// Reason why the build failed.
    pub failure: Option<String>,
    pub artifacts: Vec<Artifact>,
}

/// Progress of a build, from the files of its folder.
#[derive(Clone, Debug)]
pub enum BuildState {
    /// The build was not started.
    Absent,
    /// The build's supervisor is running.
    Working,
    /// The supervisor recorded the result.
    Ended(BuildOutcome),
    /// The build's supervisor ended before it recorded a result.
    Lost,
}

/// Starts, polls and cancels builds in a folder.
#[derive(Clone, Debug)]
pub struct BuildFolder {
    root: PathBuf,
    program: OwnProgram,
}

impl BuildFolder {
    /// Builds under `root`, supervised by `program`, which must call [`supervise`] with its last argument.
    pub fn new(root: impl Into<PathBuf>, program: OwnProgram) -> Self {
        Self { root: root.into(), program }
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The log, possibly incomplete.
    pub fn log(&self, name: &str) -> PathBuf {
        self.folder(name).join("build.log")
    }

    /// Starts a build once: a second start under the same name has no effect.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written or the supervisor cannot be started.
    pub fn start(&self, name: &str, request: &BuildRequest) -> io::Result<()> {
        let folder = self.folder(name);
        fs::create_dir_all(&folder)?;
        lock_files::create_json(&folder.join("request.json"), request)?;
        // A request without a supervisor is an interrupted start. Only one of two supervisors obtains the lock.
        if matches!(self.poll(name)?, BuildState::Absent) {
            self.program.spawn(
                &[OsStr::new("build"), folder.as_os_str()],
                &[],
                &folder.join("supervisor.log"),
            )?;
            // Wait until the supervisor holds its lock, because a later caller would treat a supervisor without a lock as ended.
            let begun = || ["started", "outcome.json"].iter().any(|file| folder.join(file).exists());
            wait_for(begun, Duration::from_secs(10))?;
        }
        Ok(())
    }

    /// State of a build.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn poll(&self, name: &str) -> io::Result<BuildState> {
        let folder = self.folder(name);
        if !folder.join("request.json").exists() {
            return Ok(BuildState::Absent);
        }
        // Read in the reverse order of the supervisor's writes, so that a supervisor that starts or ends during the read is not reported as
        // lost.
        let started = folder.join("started").exists();
        let alive = lock_files::is_locked(&folder.join("lock"))?;
        match lock_files::read_json(&folder.join("outcome.json"))? {
            Some(outcome) => Ok(BuildState::Ended(outcome)),
            None if alive => Ok(BuildState::Working),
            None if started => Ok(BuildState::Lost),
            None => Ok(BuildState::Absent),
        }
    }

    /// Cancels a build. A build that was not started yet will never start.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn cancel(&self, name: &str) -> io::Result<()> {
        let folder = self.folder(name);
        lock_files::create(&folder.join("cancel"), b"")?;
        if matches!(self.poll(name)?, BuildState::Absent | BuildState::Lost) {
            self.record_end(name, BuildStatus::Cancelled, "cancelled")?;
        }
        Ok(())
    }

    /// Kills the remaining processes of a build whose supervisor has ended, and records the end of the build.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be written.
    pub fn record_end(&self, name: &str, status: BuildStatus, why: &str) -> io::Result<()> {
        let folder = self.folder(name);
        let Some(_lock) = lock_files::lock(&folder.join("lock"))? else { return Ok(()) };
        process::end_noted(&folder.join("groups"), Duration::from_secs(2))?;
        // The supervisor may have ended before it recorded the group of a newly started step.
        process::end_marked(process::BUILD_MARK, &folder);
        let outcome = BuildOutcome { status, failure: Some(why.to_owned()), artifacts: Vec::new() };
        lock_files::create_json(&folder.join("request.json"), &serde_json::Value::Null)?;
        lock_files::create_json(&folder.join("outcome.json"), &outcome)?;
        Ok(())
    }
}

/// Runs the build of a folder to its end: the main function of the supervisor process.
///
/// # Errors
/// Returns an error if the folder cannot be read or written.
pub async fn supervise(folder: &Path) -> io::Result<()> {
    let Some(_lock) = lock_files::lock(&folder.join("lock"))? else { return Ok(()) };
    let first = lock_files::create(&folder.join("started"), b"")?;
    let outcome = folder.join("outcome.json");
    // A lost build is not restarted: its steps may still be running.
    if !first || outcome.exists() {
        return Ok(());
    }
    let Some(request) = lock_files::read_json::<BuildRequest>(&folder.join("request.json"))? else {
        return Ok(());
    };
    let ended = match prepare(folder, &request) {
        Ok(plan) => run(folder, &plan, request.secrets.as_deref()).await,
        Err(why) => BuildOutcome { status: BuildStatus::Failure, failure: Some(why), artifacts: Vec::new() },
    };
    lock_files::create_json(&outcome, &ended)?;
    Ok(())
}

fn prepare(folder: &Path, request: &BuildRequest) -> Result<cloudbuild::Plan, String> {
    let workspace = folder.join("workspace");
    fs::create_dir_all(&workspace).map_err(|error| format!("{}: {error}", workspace.display()))?;
    if let Some(source) = &request.source {
        let unpacked = std::process::Command::new("tar")
            .args(["--extract", "--no-same-owner", "--file"])
            .arg(source)
            .arg("--directory")
            .arg(&workspace)
            .output()
            .map_err(|error| {
                format!("the source archive cannot be unpacked: program `tar`: {error}; check that `tar` is installed")
            })?;
        if !unpacked.status.success() {
            return Err(format!("tar: {}", String::from_utf8_lossy(&unpacked.stderr).trim()));
        }
    }
    if let Some(repository) = &request.repository {
        check_out(repository, &workspace)?;
    }
    let config: BuildConfig =
        serde_json::from_value(request.config.clone()).map_err(|error| error.to_string())?;
    let inputs = Inputs {
        substitutions: request.substitutions.clone(),
        built_ins: [("BUILD_ID".to_owned(), request.id.clone())].into(),
        secrets: secrets(request.secrets.as_deref()).map_err(|error| format!("secrets: {error}"))?,
        ..Inputs::default()
    };
    cloudbuild::plan::check(&config, &inputs)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// Fetches one revision, as Cloud Build does, with git's own credentials.
fn check_out(repository: &SourceRepository, workspace: &Path) -> Result<(), String> {
    let SourceRepository { url, revision, .. } = repository;
    let fetch = ["fetch", "--quiet", "--depth=1", "--no-tags", "--", url, revision];
    for arguments in [&["init", "--quiet"][..], &fetch, &["checkout", "--quiet", "--detach", "FETCH_HEAD"]] {
        let git = std::process::Command::new("git")
            // The fetch fails after one minute without data from the server.
            .args(["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"])
            .args(arguments)
            .current_dir(workspace)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", "file:http:https:ssh")
            .stdin(std::process::Stdio::null())
            .output()
            .map_err(|error| {
                format!("{url} cannot be fetched: program `git`: {error}; check that `git` is installed")
            })?;
        if !git.status.success() {
            let stderr = String::from_utf8_lossy(&git.stderr);
            return Err(format!("revision {revision} of {url} cannot be fetched: git: {}", stderr.trim()));
        }
    }
    Ok(())
}

/// The local secret source: the content of a file without a trailing newline, which editors add.
fn secrets(folder: Option<&Path>) -> io::Result<BTreeMap<String, Secret>> {
    let Some(folder) = folder else { return Ok(BTreeMap::new()) };
    let read = |name: String| {
        let value = fs::read_to_string(folder.join(&name))?;
        let value = value.strip_suffix('\n').unwrap_or(&value).to_owned();
        Ok((name, Secret::new(value)))
    };
    lock_files::names(folder)?.into_iter().map(read).collect()
}

async fn run(folder: &Path, plan: &cloudbuild::Plan, secrets: Option<&Path>) -> BuildOutcome {
    let rules = match redact::Rules::of_this_process(secrets) {
        Ok(rules) => rules,
        Err(error) => {
            let failure = Some(format!("the build's log could not be redacted: {error}"));
            return BuildOutcome { status: BuildStatus::InternalError, failure, artifacts: Vec::new() };
        }
    };
    let groups = folder.join("groups");
    let mut request = PlanRequest::new(folder.join("workspace"), folder.join("build.log"));
    request.scratch = folder.to_owned();
    request.rules = rules;
    request.environment.push((process::BUILD_MARK.into(), folder.into()));
    request.on_event = Some(std::sync::Arc::new(move |event: &BuildEvent| {
        if let BuildEvent::ProcessGroup { index, pgid } = event {
            let noted =
                lock_files::create_json(&groups.join(index.to_string()), &SupervisedGroup::led_by(*pgid));
            if let Err(error) = noted {
                // Standard error is the supervisor's own log, on a disk that may be full.
                let line = format!("the process group of step {index} could not be recorded: {error}\n");
                drop(std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()));
            }
        }
    }));
    let cancel = CancellationToken::new();
    let cancel_request = folder.join("cancel");
    let watch = async {
        while !cancel_request.exists() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        cancel.cancel();
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! {
        outcome = cloudbuild::local::run(plan, &request, cancel.clone()) => outcome,
        () = watch => unreachable!("the watcher never ends"),
    };
    BuildOutcome { status: outcome.status, failure: outcome.failure, artifacts: outcome.artifacts }
}

/// Polls a condition for at most `longest`.
pub(crate) fn wait_for(condition: impl Fn() -> bool, longest: Duration) -> io::Result<()> {
    let until = std::time::Instant::now() + longest;
    while !condition() {
        if std::time::Instant::now() >= until {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("a started process did not report its start within {} s", longest.as_secs()),
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
