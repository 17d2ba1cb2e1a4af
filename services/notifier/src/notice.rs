//! A notice: written once, sent unchanged on every attempt.

use model::{Push, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::decide::{NoticeEvent, Recipient};

/// Current format version.
pub const FORMAT: u32 = 2;

/// One notice for one recipient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Format version, at most [`FORMAT`].
    pub format: u32,
    /// Idempotency key, derived from run, recipient and content.
    pub id: String,
    pub run: RunId,
    /// Time of the decision.
    pub made_at: Timestamp,
    /// Addressee and content.
    pub letter: OutgoingMessage,
}

/// Content to send. Contains no addresses or keys: they are looked up by name at each attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "StoredMessage")]
pub enum OutgoingMessage {
    Status(CommitStatus),
    Check(Box<CheckRun>),
    Channel {
        kind: String,
        name: String,
        /// Content as rendered for this kind of channel.
        content: String,
    },
}

/// The stored forms of [`OutgoingMessage`]. Format 1 had a form for each kind of channel.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredMessage {
    Status(CommitStatus),
    Check(Box<CheckRun>),
    Channel { kind: String, name: String, content: String },
    Slack { webhook: String, text: String },
    Webhook { target: String, body: String },
}

impl From<StoredMessage> for OutgoingMessage {
    fn from(stored: StoredMessage) -> Self {
        let channel = |kind: &str, name, content| Self::Channel { kind: kind.to_owned(), name, content };
        match stored {
            StoredMessage::Status(status) => Self::Status(status),
            StoredMessage::Check(check) => Self::Check(check),
            StoredMessage::Channel { kind, name, content } => Self::Channel { kind, name, content },
            StoredMessage::Slack { webhook, text } => channel("slack", webhook, text),
            StoredMessage::Webhook { target, body } => channel("webhook", target, body),
        }
    }
}

/// A commit status, in GitHub's terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitStatus {
    pub push: Push,
    /// `pending`, `success`, `failure` or `error`.
    pub state: String,
    /// Distinguishes the commit's statuses.
    pub context: String,
    /// Maximum 140 characters.
    pub description: String,
    pub target_url: Option<String>,
}

/// A completed check run, in GitHub's terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// Commit that receives the check run.
    pub push: Push,
    /// Name of the check run on GitHub.
    pub name: String,
    /// `success`, `failure`, `timed_out`, `action_required` or `cancelled`.
    pub conclusion: String,
    /// Title, one line of text.
    pub title: String,
    /// Markdown.
    pub summary: String,
    /// Report in Markdown.
    pub text: Option<String>,
    /// Request time of the run; GitHub shows it as the start of the check run.
    pub started_at: Timestamp,
    /// End of the run.
    pub completed_at: Timestamp,
    /// URL of the run's page, if configured.
    pub details_url: Option<String>,
}

impl Notice {
    /// Id of a notice, derived from run, recipient and content.
    pub fn id(run: &RunId, to: &Recipient, what: &NoticeEvent) -> String {
        let what = match what {
            NoticeEvent::Started => "begun",
            NoticeEvent::Ended(_) => "ended",
            NoticeEvent::Changed(new) => new.news.as_str(),
        };
        let (kind, name) = match to {
            Recipient::Status(push) => ("status", push.commit.as_str()),
            Recipient::Check(push) => ("check", push.commit.as_str()),
            Recipient::Channel { kind, name } => (kind.as_str(), name.as_str()),
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
            OutgoingMessage::Channel { kind, name, .. } => format!("{kind}-{name}"),
        }
    }
}

/// Channel of the pending commit status.
pub const BEGUN: &str = "github-begun";
/// Channel of the final commit status, which replaces the pending one.
pub const ENDED: &str = "github-status";
