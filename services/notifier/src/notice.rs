//! What is told, written down once: whatever is sent, however often, is this.

use model::{Failure, News, Push, Reason, RunId, Stage, Timestamp, Trigger, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::decide::{Addressee, Outcome, What};

/// The newest format.
pub const FORMAT: u32 = 1;

/// One thing told to one addressee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// At most [`FORMAT`].
    pub format: u32,
    /// What makes two deliveries the same: it follows from the run, the addressee and what is told.
    pub id: String,
    /// The run.
    pub run: RunId,
    /// When it was decided.
    pub made_at: Timestamp,
    /// To whom, and in which words.
    pub letter: Letter,
}

/// What is sent. Addresses and keys are not in it: they are looked up by name when it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Letter {
    /// A commit status on GitHub.
    Status(Status),
    /// A check run on GitHub.
    Check(Box<Check>),
    /// A message to a channel.
    Slack {
        /// The channel's name.
        webhook: String,
        /// The message, in Slack's markup.
        text: String,
    },
    /// JSON for a program.
    Webhook {
        /// The program's name.
        target: String,
        /// What is posted, byte by byte.
        body: String,
    },
}

/// A commit status, in GitHub's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The commit.
    pub push: Push,
    /// `pending`, `success`, `failure` or `error`.
    pub state: String,
    /// What tells it from other statuses of the commit.
    pub context: String,
    /// At most 140 characters.
    pub description: String,
    /// Where a person finds more.
    pub target_url: Option<String>,
}

/// A check run that is completed, in GitHub's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The commit.
    pub push: Push,
    /// The name of the check.
    pub name: String,
    /// `success`, `failure`, `timed_out`, `action_required` or `cancelled`.
    pub conclusion: String,
    /// One line.
    pub title: String,
    /// Markdown.
    pub summary: String,
    /// Markdown: the report.
    pub text: Option<String>,
    /// When the run was asked for.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// Where a person finds more.
    pub details_url: Option<String>,
}

/// What a program is posted: `burnin/notice/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Posted {
    /// `burnin/notice/v1`.
    pub schema: String,
    /// The same whenever this notice is delivered: keep it to drop what comes twice.
    pub id: String,
    /// What is new.
    pub news: News,
    /// What the run came to.
    pub outcome: Outcome,
    /// When the trouble began that this is about.
    pub since: Timestamp,
    /// The run it began with.
    pub first_run: RunId,
    /// The run.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// The kind of cluster it ran on.
    pub system: Option<String>,
    /// The cluster's name in its own world.
    pub cluster: Option<String>,
    /// What caused the run.
    pub trigger: Trigger,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When it ended and everything was given back.
    pub closed_at: Timestamp,
    /// `completed`, `failed`, `timed_out` or `cancelled`.
    pub conclusion: String,
    /// What the measurements said.
    pub verdict: Option<Verdict>,
    /// Why.
    pub reasons: Vec<Reason>,
    /// What failed around the benchmark.
    pub failure: Option<StageFailure>,
    /// Where a person finds more.
    pub link: Option<String>,
}

/// What failed around the benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageFailure {
    /// The stage.
    pub stage: Stage,
    /// Why; null when it stayed silent past its limit.
    pub failure: Option<Failure>,
}

impl Notice {
    /// A notice's id.
    pub fn id(run: &RunId, to: &Addressee, what: &What) -> String {
        let what = match what {
            What::Begun => "begun",
            What::Ended(_) => "ended",
            What::New(new) => new.news.as_str(),
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
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// What tells it from other notices of its run: lower-case letters, digits and `-`.
    pub fn channel(&self) -> String {
        match &self.letter {
            Letter::Status(status) if status.state == "pending" => BEGUN.to_owned(),
            Letter::Status(_) => ENDED.to_owned(),
            Letter::Check(_) => "github-check".to_owned(),
            Letter::Slack { webhook, .. } => format!("slack-{webhook}"),
            Letter::Webhook { target, .. } => format!("webhook-{target}"),
        }
    }
}

/// The channel of the status of a run that is under way.
pub const BEGUN: &str = "github-begun";
/// The channel of the status of a run that has ended: it takes the other one's place.
pub const ENDED: &str = "github-status";
