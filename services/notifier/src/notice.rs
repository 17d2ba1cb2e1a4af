//! A notice: written once, sent unchanged on every attempt.

use model::{Failure, News, Push, Reason, RunId, Stage, Timestamp, Trigger, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::decide::{Addressee, Occasion, RunOutcome};

/// Current format version.
pub const FORMAT: u32 = 1;

/// One notice for one addressee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Format version, at most [`FORMAT`].
    pub format: u32,
    /// Idempotency key, derived from run, addressee and content.
    pub id: String,
    /// Run that the notice reports.
    pub run: RunId,
    /// Time of the decision.
    pub made_at: Timestamp,
    /// Addressee and content.
    pub letter: OutgoingMessage,
}

/// Content to send. Contains no addresses or keys: they are looked up by name at each attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutgoingMessage {
    /// A commit status on GitHub.
    Status(CommitStatus),
    /// A check run on GitHub.
    Check(Box<Check>),
    /// A Slack message.
    Slack {
        /// Channel name.
        webhook: String,
        /// Text in Slack's markup.
        text: String,
    },
    /// A webhook with JSON.
    Webhook {
        /// Channel name.
        target: String,
        /// Exact body.
        body: String,
    },
}

/// A commit status, in GitHub's terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitStatus {
    /// Commit that receives the status.
    pub push: Push,
    /// `pending`, `success`, `failure` or `error`.
    pub state: String,
    /// Distinguishes the commit's statuses.
    pub context: String,
    /// Maximum 140 characters.
    pub description: String,
    /// URL of the run.
    pub target_url: Option<String>,
}

/// A completed check run, in GitHub's terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Commit that receives the check run.
    pub push: Push,
    /// Name of the check.
    pub name: String,
    /// `success`, `failure`, `timed_out`, `action_required` or `cancelled`.
    pub conclusion: String,
    /// One line.
    pub title: String,
    /// Markdown.
    pub summary: String,
    /// Report in Markdown.
    pub text: Option<String>,
    /// Time of the request.
    pub started_at: Timestamp,
    /// End of the run.
    pub completed_at: Timestamp,
    /// URL of the run.
    pub details_url: Option<String>,
}

/// Webhook payload, schema `burnin/notice/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Posted {
    /// `burnin/notice/v1`.
    pub schema: String,
    /// Notice id, identical on every delivery: use it to drop duplicates.
    pub id: String,
    /// Kind of change.
    pub news: News,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Start of the reported failure.
    pub since: Timestamp,
    /// First failed run.
    pub first_run: RunId,
    /// Run id.
    pub run: RunId,
    /// Workflow name.
    pub workflow: String,
    /// Kind of cluster.
    pub system: Option<String>,
    /// Cluster name at its provider.
    pub cluster: Option<String>,
    /// Trigger of the run.
    pub trigger: Trigger,
    /// Time of the request.
    pub requested_at: Timestamp,
    /// Time at which the run was closed and everything released.
    pub closed_at: Timestamp,
    /// `completed`, `failed`, `timed_out` or `cancelled`.
    pub conclusion: String,
    /// Verdict on the measurements.
    pub verdict: Option<Verdict>,
    /// Reasons of the verdict.
    pub reasons: Vec<Reason>,
    /// Failure outside the benchmark.
    pub failure: Option<StageFailure>,
    /// URL of the run.
    pub link: Option<String>,
}

/// The stage that failed the run, with its cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageFailure {
    /// Failed stage.
    pub stage: Stage,
    /// Failure; null after a timeout without a response.
    pub failure: Option<Failure>,
}

impl Notice {
    /// Id of a notice.
    pub fn id(run: &RunId, to: &Addressee, what: &Occasion) -> String {
        let what = match what {
            Occasion::Begun => "begun",
            Occasion::Ended(_) => "ended",
            Occasion::New(new) => new.news.as_str(),
        };
        let (kind, name) = match to {
            Addressee::Status(push) => ("status", push.commit.as_str()),
            Addressee::Check(push) => ("check", push.commit.as_str()),
            Addressee::Slack(name) => ("slack", name.as_str()),
            Addressee::Webhook(name) => ("webhook", name.as_str()),
        };
        let mut hash = Sha256::new();
        for part in [run.as_str(), kind, name, what] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hex::encode(&hash.finalize()[..16])
    }

    /// Distinguishes the notices of a run: lower-case letters, digits and `-`.
    pub fn channel(&self) -> String {
        match &self.letter {
            OutgoingMessage::Status(status) if status.state == "pending" => BEGUN.to_owned(),
            OutgoingMessage::Status(_) => ENDED.to_owned(),
            OutgoingMessage::Check(_) => "github-check".to_owned(),
            OutgoingMessage::Slack { webhook, .. } => format!("slack-{webhook}"),
            OutgoingMessage::Webhook { target, .. } => format!("webhook-{target}"),
        }
    }
}

/// Channel of the pending commit status.
pub const BEGUN: &str = "github-begun";
/// Channel of the final commit status, which replaces the pending one.
pub const ENDED: &str = "github-status";
