//! Converts a config to a plan: applies substitutions, orders the steps, checks every field.

mod graph;
mod outputs;
mod secrets;
mod shell;
mod step;
mod template;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{self, BuildConfig};
use crate::{BuildProblem, Secret, image};

use template::Templates;

pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum timeout in Cloud Build.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of steps in Cloud Build.
const MOST_STEPS: usize = 300;

/// Values that the caller provides for a config.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Overrides of the config's own substitutions. Always literal, also under `dynamicSubstitutions`.
    pub substitutions: BTreeMap<String, String>,
    /// Values of the built-in substitutions ([`crate::substitution::BUILT_INS`]); absent ones are empty.
    pub built_ins: BTreeMap<String, String>,
    /// Local secrets, by full `versionName` or by the name of the secret.
    pub secrets: BTreeMap<String, Secret>,
    /// Local tools by builder image (as written, or by short name).
    pub tools: BTreeMap<String, String>,
}

/// A build ready to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The steps, in the order of the file.
    pub steps: Vec<PlannedStep>,
    /// Time limit of the whole build.
    pub timeout: Duration,
    /// Files to collect after success.
    pub objects: Option<config::ArtifactObjects>,
    /// Container images to push.
    pub images: Vec<String>,
    /// Value of `BUILD_ID`, empty if not given.
    pub build_id: String,
}

/// A step ready to run.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    /// Index in the file, starting at 0.
    pub index: usize,
    pub id: Option<String>,
    /// The builder image as written, substitutions applied.
    pub image: String,
    pub action: Action,
    /// Environment, in order: later entries override earlier ones.
    pub env: Vec<(String, String)>,
    pub secret_env: Vec<(String, Secret)>,
    /// Working directory relative to the workspace, without `..`.
    pub dir: PathBuf,
    /// Indices of the steps that must succeed first.
    pub wait_for: Vec<usize>,
    /// `None`: only the timeout of the build applies.
    pub timeout: Option<Duration>,
    /// Failures of this step after which the build continues.
    pub tolerance: FailureTolerance,
}

impl PlannedStep {
    /// `2` or `2 (deploy)`, for messages.
    pub fn label(&self) -> String {
        label(self.index, self.id.as_deref())
    }
}

/// Command or script of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Command(image::ToolCommand),
    /// A script for the interpreter in its shebang; for `/bin/sh` without a shebang.
    Script(String),
}

/// Failures of a step that do not end the build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureTolerance {
    Nothing,
    /// All failures, including a timeout.
    Everything,
    /// Only failures with these exit codes.
    ExitCodes(Vec<i32>),
}

impl FailureTolerance {
    /// Whether the build continues after a failure with this exit code, or without one.
    pub fn covers(&self, exit_code: Option<i32>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::ExitCodes(codes) => exit_code.is_some_and(|code| codes.contains(&code)),
        }
    }
}

/// Checks a config and prepares it for a local run, or reports all problems.
pub fn check(config: &BuildConfig, inputs: &Inputs) -> Result<Plan, Vec<BuildProblem>> {
    let mut problems = Vec::new();
    let mut templates = Templates::new(config, inputs, &mut problems);

    let timeout = config.timeout.map_or(DEFAULT_TIMEOUT, config::Duration::get);
    check_timeout("timeout", timeout, &mut problems);
    if config.steps.is_empty() || config.steps.len() > MOST_STEPS {
        let found = config.steps.len();
        problems.push(BuildProblem::new("steps", format!("expected 1 to {MOST_STEPS} steps, found {found}")));
    }

    let order = graph::order(&config.steps, &mut problems);
    let secrets = secrets::declared(config, &mut templates, &mut problems);
    let shared = step::StepContext { config, inputs, secrets: &secrets, build_timeout: timeout };
    let steps = config
        .steps
        .iter()
        .zip(order)
        .enumerate()
        .map(|(index, (step, wait_for))| shared.plan(index, step, wait_for, &mut templates, &mut problems))
        .collect();

    let (objects, images) = outputs::check(config, &mut templates, &mut problems);
    if !config.secrets.is_empty() {
        problems.push(BuildProblem::new(
            "secrets",
            "the local runner cannot decrypt with Cloud KMS; declare the secrets under `availableSecrets.secretManager`",
        ));
    }
    let build_id = inputs.built_ins.get("BUILD_ID").cloned().unwrap_or_default();
    templates.finish(config, &mut problems);

    if problems.is_empty() { Ok(Plan { steps, timeout, objects, images, build_id }) } else { Err(problems) }
}

fn check_timeout(path: &str, timeout: Duration, problems: &mut Vec<BuildProblem>) {
    if timeout.is_zero() || timeout > LONGEST_TIMEOUT {
        let found = timeout.as_secs_f64();
        problems.push(BuildProblem::new(
            path,
            format!("expected a time limit above 0s and at most 86400s, found {found}s"),
        ));
    }
}

fn label(index: usize, id: Option<&str>) -> String {
    id.map_or_else(|| index.to_string(), |id| format!("{index} ({id})"))
}
