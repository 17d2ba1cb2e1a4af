//! Notification targets of a run and the news they receive.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A notification target. The notifier's operator configures addresses and secrets under the name given here;
/// a workflow never contains an address or a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Notify {
    /// The commit whose push started the run.
    Github(GithubNotify),
    /// A channel with Slack's incoming webhooks.
    Slack(SlackNotify),
    /// A program that accepts signed JSON.
    Webhook(WebhookNotify),
}

/// Reports on the commit whose push started the run; sent for every such run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GithubNotify {
    /// Set a commit status: pending when the run is recorded, then its result.
    pub status: bool,
    /// Create a check run with the report. GitHub accepts check runs only from a GitHub App.
    pub check: bool,
}

impl Default for GithubNotify {
    fn default() -> Self {
        Self { status: true, check: false }
    }
}

/// A channel with Slack's incoming webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlackNotify {
    /// Webhook name.
    pub webhook: String,
    /// News to send; default: all.
    #[serde(default = "everything")]
    pub on: Vec<News>,
}

/// A program that accepts signed JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookNotify {
    /// Target name.
    pub target: String,
    /// News to send; default: all.
    #[serde(default = "everything")]
    pub on: Vec<News>,
}

/// A change in the health of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// First failed verdict since the last pass.
    Failed,
    /// First inconclusive verdict since the last pass.
    Inconclusive,
    /// First run since the last pass that did not complete, because of a failure outside the benchmark.
    Broken,
    /// Reminder: the reported state is unchanged after a day.
    StillFailing,
    /// A pass after any of these.
    Recovered,
}

impl News {
    /// All values.
    pub const ALL: [Self; 5] =
        [Self::Failed, Self::Inconclusive, Self::Broken, Self::StillFailing, Self::Recovered];

    /// The spelling in a workflow file.
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

/// Maximum length of a webhook or target name.
const LONGEST: usize = 40;

impl Notify {
    /// Kind, name and selected news of the channel; `None` for GitHub, which receives every run.
    pub fn channel(&self) -> Option<(&'static str, &str, &[News])> {
        match self {
            Self::Github(_) => None,
            Self::Slack(slack) => Some(("slack", &slack.webhook, &slack.on)),
            Self::Webhook(webhook) => Some(("webhook", &webhook.target, &webhook.on)),
        }
    }

    /// Invalid values of a list of targets, each as field and expectation.
    pub fn problems(list: &[Self]) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut names = BTreeSet::new();
        for (at, notify) in list.iter().enumerate() {
            let mut add = |field: &str, why: &str| problems.push((format!("[{at}].{field}"), why.to_owned()));
            let Some((kind, name, on)) = notify.channel() else {
                if let Self::Github(GithubNotify { status: false, check: false }) = notify {
                    add("github", "has no effect: set `status`, `check` or both");
                }
                if !names.insert(("github", "")) {
                    add("github", "is given twice");
                }
                continue;
            };
            let field = format!("{kind}.{}", if kind == "slack" { "webhook" } else { "target" });
            if !is_name(name) {
                let why = "expected a name: a letter, then lower-case letters, digits and `-`, at most 40; never an address";
                add(&field, why);
            } else if !names.insert((kind, name)) {
                add(&field, "is given twice");
            }
            if on.is_empty() || on.iter().collect::<BTreeSet<_>>().len() != on.len() {
                add(&format!("{kind}.on"), "expected at least one value, without repetition");
            }
        }
        problems
    }
}

/// Names become part of file, variable and object names.
fn is_name(name: &str) -> bool {
    let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= LONGEST
        && name.bytes().all(legal)
}
