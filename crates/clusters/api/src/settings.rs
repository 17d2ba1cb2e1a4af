//! Settings of a kind of cluster, and checks that several kinds share.

use std::path::Path;

use model::{Class, Cluster, ClusterAccess, Failure, System};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use service::PortError;

use crate::layout::{ClusterLayout, Substitution};

/// Reads a file that settings name, as UTF-8 text; the error is a message.
pub type FileReader<'a> = &'a mut dyn FnMut(&Path) -> Result<String, String>;

/// Invalid settings, each as field and expectation. The field is empty if the settings as a whole cannot be read.
pub type SettingsProblems = Vec<(String, String)>;

/// The settings of one kind of cluster in a workflow file. They must state `nodes`: [`System::nodes`].
pub trait Settings: Serialize + DeserializeOwned + JsonSchema + 'static {
    /// Name of the kind in workflow files, offers and the ledger.
    const KIND: &'static str;
    /// The kind in one sentence, for schemas.
    const DESCRIPTION: &'static str;
    /// Settings with only the required fields, in JSON, on one node: every other field then has its default.
    const LEAST: &'static str;

    /// Settings that the cluster would reject or misread.
    fn problems(&self) -> SettingsProblems;

    /// Placement of the ranks; `None` if the settings do not decide it.
    fn layout(&self) -> Option<ClusterLayout>;

    /// Settings that build steps may also receive.
    fn substitutions(&self) -> Vec<Substitution> {
        Vec::new()
    }

    /// Replaces the paths of files in the settings of a workflow file by the contents of the files. `read`: reads a
    /// file by its path relative to the workflow file.
    fn inline(_: &mut Value, _read: FileReader<'_>) -> SettingsProblems {
        Vec::new()
    }

    /// The settings of a re-test: jobs run exactly on `nodes`, which may be drained, and on `partners`.
    ///
    /// # Errors
    /// Returns an error with a message if jobs of this kind, or with these settings, cannot be sent to named nodes.
    fn for_retest(&self, _nodes: &[String], _partners: &[String]) -> Result<Self, String> {
        Err(format!("jobs on clusters of kind {} cannot be sent to named nodes", Self::KIND))
    }

    /// Fills in the fields that are computed from other fields.
    #[must_use]
    fn completed(self) -> Self {
        self
    }

    /// Reads and checks settings.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid, with every problem.
    fn checked(given: &Value) -> Result<Self, SettingsProblems> {
        let read = Self::deserialize(given).map_err(|error| vec![(String::new(), error.to_string())])?;
        let read = read.completed();
        let problems = read.problems();
        if problems.is_empty() { Ok(read) } else { Err(problems) }
    }

    /// The settings in the form of `run.requested`.
    fn system(&self) -> System {
        System::new(Self::KIND, self)
    }

    /// The settings in the form that commands to the agent contain.
    fn access(&self) -> ClusterAccess {
        ClusterAccess::new(Self::KIND, self)
    }

    /// The checked settings of a cluster of this kind.
    ///
    /// # Errors
    /// Returns a permanent error if the cluster is of another kind or its settings are invalid.
    fn of(cluster: &Cluster) -> Result<Self, PortError> {
        if cluster.access.kind() != Self::KIND {
            return Err(wrong_kind(cluster, Self::KIND));
        }
        let settings: Self = cluster
            .access
            .read()
            .map_err(|error| wrong(cluster, &format!("access.{}: {error}", Self::KIND)))?;
        match settings.problems().into_iter().next() {
            Some((field, problem)) => Err(wrong(cluster, &format!("{field}: {problem}"))),
            None => Ok(settings),
        }
    }
}

/// Error for a cluster of a kind that the scheduler does not support.
pub fn wrong_kind(cluster: &Cluster, expected: &str) -> PortError {
    wrong(cluster, &format!("access: expected a cluster of kind {expected}, found {}", cluster.access.kind()))
}

/// Error for a cluster whose settings the scheduler cannot use.
pub fn wrong(cluster: &Cluster, why: &str) -> PortError {
    PortError::Permanent(Failure::new(Class::Input, "SETTINGS", format!("cluster {}: {why}", cluster.name)))
}

/// Collects the problems found in settings, each with its field.
#[derive(Debug, Default)]
pub struct ProblemList(SettingsProblems);

impl ProblemList {
    /// Adds a problem under the name of its field; `None` has no effect.
    pub fn add(&mut self, field: &str, problem: Option<String>) {
        self.0.extend(problem.map(|problem| (field.to_owned(), problem)));
    }

    /// Checks an optional field with `rule` and adds the problem found; an absent field has no problem.
    pub fn add_if_set(
        &mut self,
        field: &str,
        value: &Option<String>,
        rule: impl FnOnce(&str) -> Option<String>,
    ) {
        self.add(field, value.as_deref().and_then(rule));
    }

    /// All problems, in the order in which they were added.
    pub fn into_problems(self) -> SettingsProblems {
        self.0
    }
}

/// Checks a job name that becomes a folder name and an element of comma-separated lists.
///
/// # Errors
/// Returns a permanent error if the name is invalid.
pub fn check_job_name(name: &str) -> Result<(), PortError> {
    let letters = name.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"_.-".contains(&letter));
    if letters && name.len() <= 128 && name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return Ok(());
    }
    let why = format!(
        "job name: expected at most 128 letters, digits and any of _.-, beginning with a letter or a digit, found `{}`",
        shown(name)
    );
    Err(PortError::Permanent(Failure::new(Class::Input, "SETTINGS", why)))
}

/// An invalid value as one line for a message, shortened.
pub fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

/// Returns an error if a number is outside 1 to `most`.
pub fn not_in_range(number: u32, most: u32) -> Option<String> {
    (number == 0 || number > most).then(|| format!("expected 1 to {most}, found {number}"))
}

/// Returns an error for an invalid `NCCL_DEBUG` value: only letters and digits are valid, at most 16.
pub fn not_a_debug_level(level: &str) -> Option<String> {
    let good = level.bytes().all(|byte| byte.is_ascii_alphanumeric()) && level.len() <= 16;
    (!good).then(|| format!("expected an NCCL_DEBUG value, for instance INFO, found `{}`", shown(level)))
}

/// Returns an error for a path that is relative, longer than 1024 bytes, or contains control characters.
pub fn not_a_path(path: &str) -> Option<String> {
    let bad = !path.starts_with('/') || path.len() > 1024 || path.chars().any(char::is_control);
    bad.then(|| {
        format!(
            "expected an absolute path of at most 1024 bytes without control characters, found `{}`",
            shown(path)
        )
    })
}

/// Returns an error for an invalid environment variable: its name has characters other than letters, digits and `_`, or
/// its value has a zero byte or more than 16 KiB. `longest`: maximum length of the name, bytes.
pub fn not_a_variable(name: &str, value: &str, longest: usize) -> Option<String> {
    let first = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let letters = name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
    if !first || !letters || name.len() > longest {
        return Some(format!("expected a name of letters, digits and _, found `{}`", shown(name)));
    }
    (value.contains('\0') || value.len() > 16 << 10)
        .then(|| "expected a value of at most 16 KiB without a zero byte".to_owned())
}
