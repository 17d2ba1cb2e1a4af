//! Who is told of a run, and of what.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Somebody who is told. Where that is, and with which secret, is known to whoever runs the notifier, by the name that
/// stands here; a workflow never holds an address or a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Notify {
    /// The commit whose push started the run.
    Github(GithubNotify),
    /// A channel that takes Slack's incoming webhooks.
    Slack(SlackNotify),
    /// A program that takes signed JSON.
    Webhook(WebhookNotify),
}

/// What stands at the commit whose push started the run. It is told of every such run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GithubNotify {
    /// A commit status: pending when the run is recorded, then how it ended.
    pub status: bool,
    /// A check run with the report. GitHub takes it from a GitHub App only.
    pub check: bool,
}

impl Default for GithubNotify {
    fn default() -> Self {
        Self { status: true, check: false }
    }
}

/// A channel that takes Slack's incoming webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlackNotify {
    /// The webhook's name.
    pub webhook: String,
    /// What is told; without it everything.
    #[serde(default = "everything")]
    pub on: Vec<News>,
}

/// A program that takes signed JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookNotify {
    /// The target's name.
    pub target: String,
    /// What is told; without it everything.
    #[serde(default = "everything")]
    pub on: Vec<News>,
}

/// What can be new about a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// The first verdict of fail since the last pass.
    Failed,
    /// The first inconclusive verdict since the last pass.
    Inconclusive,
    /// The first run since the last pass that did not complete: something around the benchmark failed.
    Broken,
    /// What was told is still so after a day.
    StillFailing,
    /// A pass after any of these.
    Recovered,
}

impl News {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Failed, Self::Inconclusive, Self::Broken, Self::StillFailing, Self::Recovered];

    /// The word, as in a workflow file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Inconclusive => "inconclusive",
            Self::Broken => "broken",
            Self::StillFailing => "still-failing",
            Self::Recovered => "recovered",
        }
    }
}

fn everything() -> Vec<News> {
    News::ALL.to_vec()
}

/// The longest name of a webhook or a target.
const LONGEST: usize = 40;

impl Notify {
    /// The name of the secret address and what is told there; none for GitHub, which is told of every run.
    pub fn channel(&self) -> Option<(&'static str, &str, &[News])> {
        match self {
            Self::Github(_) => None,
            Self::Slack(slack) => Some(("slack", &slack.webhook, &slack.on)),
            Self::Webhook(webhook) => Some(("webhook", &webhook.target, &webhook.on)),
        }
    }

    /// Every value that makes no sense in a list of them, as field and what was expected.
    pub fn problems(list: &[Self]) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut names = BTreeSet::new();
        for (at, notify) in list.iter().enumerate() {
            let mut add = |field: &str, why: &str| problems.push((format!("[{at}].{field}"), why.to_owned()));
            let Some((kind, name, on)) = notify.channel() else {
                if let Self::Github(GithubNotify { status: false, check: false }) = notify {
                    add("github", "asks for nothing: give it `status`, `check` or both");
                }
                if !names.insert(("github", "")) {
                    add("github", "is written twice");
                }
                continue;
            };
            let field = format!("{kind}.{}", if kind == "slack" { "webhook" } else { "target" });
            if !is_name(name) {
                let why = "expected a name: a letter, then lower-case letters, digits and `-`, at most 40; never an address";
                add(&field, why);
            } else if !names.insert((kind, name)) {
                add(&field, "is written twice");
            }
            if on.is_empty() || on.iter().collect::<BTreeSet<_>>().len() != on.len() {
                add(&format!("{kind}.on"), "expected at least one, and each of them once");
            }
        }
        problems
    }
}

/// Names go into names of files, of variables and of objects.
fn is_name(name: &str) -> bool {
    let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= LONGEST
        && name.bytes().all(legal)
}
