//! Triggers of workflows. Pure functions: they select the workflows that a push or a time triggers, and start no run.

mod cluster;
mod push;
mod schedule;

use model::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use cluster::{OfferedCluster, OfferedKind, OnCluster};
pub use push::{OnPush, PushEvent};
pub use schedule::{OnSchedule, Zoned};

/// `on` in a workflow file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Triggers {
    /// Pushes to repositories.
    pub push: Vec<OnPush>,
    /// Recurring times.
    pub schedule: Vec<OnSchedule>,
    /// Successful builds started by a Cloud Build trigger.
    pub build: Vec<OnBuild>,
    /// Clusters offered by other systems: the run uses the offered cluster instead of the workflow's own, and
    /// leaves it unchanged.
    pub cluster: Vec<OnCluster>,
    /// Maximum time without a verdict, after which an alert is raised.
    pub validated_every: Option<Span>,
}

/// An external build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnBuild {
    /// Name or id of the Cloud Build trigger.
    pub trigger: String,
    /// Name of the pushed image, without a tag: the run uses it by digest and does not build its own.
    pub image: Option<String>,
}

impl Triggers {
    /// Problems, each with its field.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        for (at, push) in self.push.iter().enumerate() {
            problems.extend(under(&format!("push[{at}]"), push.problems()));
        }
        for (at, schedule) in self.schedule.iter().enumerate() {
            problems.extend(under(&format!("schedule[{at}]"), schedule.problems()));
            if self.schedule[..at].iter().any(|before| before.same_as(schedule)) {
                problems.push((
                    format!("schedule[{at}]"),
                    "is the same as an earlier schedule; remove one".to_owned(),
                ));
            }
        }
        for (at, build) in self.build.iter().enumerate() {
            if build.trigger.is_empty() {
                let why = "is empty; write the name or id of the Cloud Build trigger";
                problems.push((format!("build[{at}].trigger"), why.to_owned()));
            }
            if build.image.as_ref().is_some_and(|image| image.is_empty() || image.contains(['@', ' '])) {
                let found = build.image.as_deref().unwrap_or_default();
                let why = format!("expected an image name without a tag or a digest, found {found:?}");
                problems.push((format!("build[{at}].image"), why));
            }
        }
        for (at, cluster) in self.cluster.iter().enumerate() {
            problems.extend(under(&format!("cluster[{at}]"), cluster.problems()));
        }
        if let Some(every) = self.validated_every.filter(|every| every.0.as_secs() < 60) {
            let why = format!("{every} is shorter than the minimum of 1m; write 1m or more");
            problems.push(("validated_every".to_owned(), why));
        }
        problems
    }
}

fn under(field: &str, problems: Vec<(impl std::fmt::Display, String)>) -> Vec<(String, String)> {
    problems.into_iter().map(|(inner, why)| (format!("{field}.{inner}"), why)).collect()
}
