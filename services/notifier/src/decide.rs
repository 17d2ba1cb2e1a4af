//! Notices of a run by channel. Pure: the run's line, the lines of the others, which channels received what, and
//! what the workflow wishes.
//!
//! A channel receives a notice when a system's state differs from the last one that the channel received. Each kind of failure
//! (fail, inconclusive, infrastructure) has its own sequence, which begins with the first such run since the last pass that the
//! channel knows of: that run is a notice, a reminder follows if the state lasts for a day, and a pass ends it. A run that ended
//! before any channel existed counts as not received, so that the next failure is a notice. A cancelled run carries no information
//! about the system and is skipped. For a commit every run is a notice.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

use model::{News, Notify, Push, RunId, Span, Timestamp, Verdict};
use run_index::Line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is not mended for so long is told once more.
pub const STILL: Span = Span::from_secs(24 * 3600);

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything was done, and what was measured is as it should be.
    Passed,
    /// Something measured is not as it should be.
    Failed,
    /// Something needed to say either is missing.
    Inconclusive,
    /// Something around the benchmark failed.
    Broken,
    /// Somebody stopped it.
    Cancelled,
}

impl Outcome {
    /// Of a run; none while it goes on. A verdict of fail speaks of the cluster whatever happened after it.
    pub fn of(line: &Line) -> Option<Self> {
        line.closed_at?;
        Some(match (line.conclusion.as_str(), line.verdict) {
            ("cancelled", _) => Self::Cancelled,
            (_, Some(Verdict::Fail)) => Self::Failed,
            ("completed", Some(Verdict::Inconclusive)) => Self::Inconclusive,
            ("completed", Some(Verdict::Pass) | None) => Self::Passed,
            _ => Self::Broken,
        })
    }

    /// The news that it is when it is new; none of what is good or says nothing.
    const fn trouble(self) -> Option<News> {
        match self {
            Self::Failed => Some(News::Failed),
            Self::Inconclusive => Some(News::Inconclusive),
            Self::Broken => Some(News::Broken),
            Self::Passed | Self::Cancelled => None,
        }
    }
}

/// A run that is to be told of.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The run.
    pub line: &'a Line,
    /// The cluster that its workflow names; none where each run gets one of its own. Together with the workflow's name
    /// it says which runs are of the same system.
    pub cluster: Option<&'a str>,
    /// The push that started it.
    pub push: Option<&'a Push>,
    /// Whom the workflow wishes to be told.
    pub wishes: &'a [Notify],
}

/// One thing to be told to one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    /// To whom.
    pub to: Addressee,
    /// What.
    pub what: What,
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// The commit, as a status.
    Status(Push),
    /// The commit, as a check run.
    Check(Push),
    /// A channel that takes Slack's incoming webhooks, by its name.
    Slack(String),
    /// A program, by its name.
    Webhook(String),
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The run is under way.
    Begun,
    /// It ended so.
    Ended(Outcome),
    /// That is new.
    New(New),
}

/// What is new about a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// What it is.
    pub news: News,
    /// What the run came to.
    pub outcome: Outcome,
    /// Since when there was trouble, and with which run it began.
    pub since: Timestamp,
    /// The run it began with.
    pub first: RunId,
}

/// What is told when a run is recorded: a commit that waits.
pub fn begun(subject: &Subject<'_>) -> Vec<Telling> {
    let Some(push) = subject.push else { return Vec::new() };
    let status = |wish: &Notify| matches!(wish, Notify::Github(github) if github.status);
    let wished = subject.line.closed_at.is_none() && subject.wishes.iter().any(status);
    let telling = || Telling { to: Addressee::Status(push.clone()), what: What::Begun };
    wished.then(telling).into_iter().collect()
}

/// For each run with a decision, the channels whose notice reached them.
pub type Heard = BTreeMap<RunId, BTreeSet<String>>;

/// The channel of a wish, as [`Heard`] and the outbox name it; `None` for GitHub.
pub fn channel(wish: &Notify) -> Option<String> {
    wish.channel().map(|(kind, name, _)| format!("{kind}-{name}"))
}

/// What is told when a run has ended. `others` are any runs; those of the same system that ended before it count.
pub fn ended(subject: &Subject<'_>, others: &[impl Borrow<Line>], heard: &Heard) -> Vec<Telling> {
    let Some(outcome) = Outcome::of(subject.line) else { return Vec::new() };
    let before = before(subject, others);
    let mut tellings = Vec::new();
    for wish in subject.wishes {
        match (wish, subject.push) {
            (Notify::Github(github), Some(push)) => {
                let mut add = |to| tellings.push(Telling { to, what: What::Ended(outcome) });
                if github.status {
                    add(Addressee::Status(push.clone()));
                }
                if github.check {
                    add(Addressee::Check(push.clone()));
                }
            }
            (Notify::Github(_), None) => {}
            (Notify::Slack(_) | Notify::Webhook(_), _) => {
                let (Some((kind, name, on)), Some(channel)) = (wish.channel(), channel(wish)) else {
                    continue;
                };
                let change = change(subject, outcome, &before, heard, &channel);
                let Some(change) = change.filter(|change| change.is_for(on)) else { continue };
                let to = if kind == "slack" { Addressee::Slack } else { Addressee::Webhook };
                tellings.push(Telling { to: to(name.to_owned()), what: What::New(change.new) });
            }
        }
    }
    tellings
}

/// A run that ended before another one of the same system.
pub type Before<'a> = (Timestamp, &'a RunId, Outcome);

/// Runs of the same system that ended before the subject, oldest first by their end, without cancelled ones. The order of
/// requests does not count: notices are decided when runs end.
pub fn before<'a>(subject: &Subject<'_>, others: &'a [impl Borrow<Line>]) -> Vec<Before<'a>> {
    let line = subject.line;
    let Some(closed_at) = line.closed_at else { return Vec::new() };
    let same = |other: &&Line| {
        other.workflow == line.workflow
            && subject.cluster.is_none_or(|cluster| other.cluster.as_deref() == Some(cluster))
    };
    let mut before: Vec<Before<'a>> = others
        .iter()
        .map(Borrow::borrow)
        .filter(same)
        .filter_map(|other| Some((other.closed_at?, &other.run, Outcome::of(other)?)))
        .filter(|(at, run, outcome)| (*at, *run) < (closed_at, &line.run) && *outcome != Outcome::Cancelled)
        .collect();
    before.sort();
    before
}

/// What is new, and of which troubles.
struct Change {
    new: New,
    troubles: BTreeSet<News>,
}

impl Change {
    /// Somebody who wants this news hears of it, as far as it is about troubles that they want to hear of at all.
    fn is_for(&self, on: &[News]) -> bool {
        let troubles = [News::Failed, News::Inconclusive, News::Broken];
        let any = !on.iter().any(|news| troubles.contains(news));
        on.contains(&self.new.news) && (any || self.troubles.iter().any(|trouble| on.contains(trouble)))
    }
}

/// News for one channel.
fn change(
    subject: &Subject<'_>,
    outcome: Outcome,
    before: &[Before<'_>],
    heard: &Heard,
    channel: &str,
) -> Option<Change> {
    let line = subject.line;
    let ended = line.closed_at?;
    let knows = |run: &RunId| heard.get(run).is_some_and(|channels| channels.contains(channel));
    let after = |passed: Option<usize>| &before[passed.map_or(0, |at| at + 1)..];

    let Some(trouble) = outcome.trouble() else {
        // Failures before the last pass with a decision do not count: their recovery was news then. A pass without one was not.
        let decided =
            |(_, run, outcome): &Before<'_>| *outcome == Outcome::Passed && heard.contains_key(*run);
        let troubled = after(before.iter().rposition(decided)).iter();
        let known: Vec<_> =
            troubled.filter(|(_, run, outcome)| *outcome != Outcome::Passed && knows(run)).collect();
        let (since, first, _) = known.first().filter(|_| outcome == Outcome::Passed)?;
        let troubles = known.iter().filter_map(|(_, _, outcome)| outcome.trouble()).collect();
        let new = New { news: News::Recovered, outcome, since: *since, first: (*first).clone() };
        return Some(Change { new, troubles });
    };
    let passed = before.iter().rposition(|(_, _, outcome)| *outcome == Outcome::Passed);
    let alike: Vec<_> = after(passed).iter().filter(|(_, _, before)| *before == outcome).collect();
    // The first such run, whether or not the channel knew of it.
    let (since, first) = alike.first().map_or((ended, &line.run), |(since, first, _)| (*since, *first));
    let mut known = alike.iter().filter(|(_, run, _)| knows(run));
    let news = match known.next() {
        None => trouble,
        Some((told, _, _)) => {
            let due = *told + STILL;
            if ended < due || known.any(|(at, _, _)| *at >= due) {
                return None;
            }
            News::StillFailing
        }
    };
    Some(Change { new: New { news, outcome, since, first: first.clone() }, troubles: [trouble].into() })
}
