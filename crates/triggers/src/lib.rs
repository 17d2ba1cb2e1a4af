//! What starts a workflow by itself. Pure: it says which workflows a push or a moment concerns, and starts nothing.

mod cluster;
mod push;
mod schedule;

use model::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use cluster::{Kind, Offer, OnCluster};
pub use push::{OnPush, Push};
pub use schedule::{OnSchedule, Zoned};

/// `on` in a workflow file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct On {
    /// Pushes to repositories.
    pub push: Vec<OnPush>,
    /// Moments that come again.
    pub schedule: Vec<OnSchedule>,
    /// Builds that a Cloud Build trigger began and that succeeded.
    pub build: Vec<OnBuild>,
    /// Clusters that other systems offer: the run uses the offered one in place of the workflow's own, and leaves it alone.
    pub cluster: Vec<OnCluster>,
    /// An alarm is raised when the workflow had no verdict for longer than this.
    pub validated_every: Option<Span>,
}

/// A build of somebody else's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnBuild {
    /// The Cloud Build trigger, by its name or its id.
    pub trigger: String,
    /// The image, by its name without a tag, as the build pushed it: the run uses it, by its digest, and builds none.
    pub image: Option<String>,
}

impl On {
    /// What is wrong with it, each with its field.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        for (at, push) in self.push.iter().enumerate() {
            problems.extend(under(&format!("push[{at}]"), push.problems()));
        }
        for (at, schedule) in self.schedule.iter().enumerate() {
            problems.extend(under(&format!("schedule[{at}]"), schedule.problems()));
            if self.schedule[..at].iter().any(|before| before.same_as(schedule)) {
                problems.push((format!("schedule[{at}]"), "is written twice".to_owned()));
            }
        }
        for (at, build) in self.build.iter().enumerate() {
            if build.trigger.is_empty() {
                problems.push((format!("build[{at}].trigger"), "must not be empty".to_owned()));
            }
            if build.image.as_ref().is_some_and(|image| image.is_empty() || image.contains(['@', ' '])) {
                let why = "expected an image's name without a tag or a digest".to_owned();
                problems.push((format!("build[{at}].image"), why));
            }
        }
        for (at, cluster) in self.cluster.iter().enumerate() {
            problems.extend(under(&format!("cluster[{at}]"), cluster.problems()));
        }
        if self.validated_every.is_some_and(|every| every.0.as_secs() < 60) {
            problems.push(("validated_every".to_owned(), "must be at least one minute".to_owned()));
        }
        problems
    }
}

fn under(field: &str, problems: Vec<(impl std::fmt::Display, String)>) -> Vec<(String, String)> {
    problems.into_iter().map(|(inner, why)| (format!("{field}.{inner}"), why)).collect()
}
