//! What is to be told of a run, to whom. Pure: the run's line, the lines of the others, and what the workflow wishes.
//!
//! People are told what changed. Each way of not passing has a line of its own, which begins with the first run that went
//! so since the last pass: then it is told, once more when it is still so after a day, and when a run passes. What is
//! cancelled says nothing of the system, and is passed over. A commit is told of each of its runs.

use std::{borrow::Borrow, collections::BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terms::{News, Notify, Push, RunId, Span, Timestamp, Verdict};
use view::Line;

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

/// What is told when a run has ended. `others` are any runs; those of the same system that ended before it count.
pub fn ended(subject: &Subject<'_>, others: &[impl Borrow<Line>]) -> Vec<Telling> {
    let Some(outcome) = Outcome::of(subject.line) else { return Vec::new() };
    let change = change(subject, outcome, others);
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
                let Some((kind, name, on)) = wish.channel() else { continue };
                let Some(change) = change.as_ref().filter(|change| change.is_for(on)) else { continue };
                let to = if kind == "slack" { Addressee::Slack } else { Addressee::Webhook };
                tellings.push(Telling { to: to(name.to_owned()), what: What::New(change.new.clone()) });
            }
        }
    }
    tellings
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

fn change(subject: &Subject<'_>, outcome: Outcome, others: &[impl Borrow<Line>]) -> Option<Change> {
    let line = subject.line;
    let ended = (line.closed_at?, &line.run);
    let same = |other: &&Line| {
        other.workflow == line.workflow
            && subject.cluster.is_none_or(|cluster| other.cluster.as_deref() == Some(cluster))
    };
    // In the order in which they ended: that is when somebody could be told, whichever was asked for first.
    let mut before: Vec<(Timestamp, &RunId, Outcome)> = others
        .iter()
        .map(Borrow::borrow)
        .filter(same)
        .filter_map(|other| Some((other.closed_at?, &other.run, Outcome::of(other)?)))
        .filter(|(at, run, outcome)| (*at, *run) < ended && *outcome != Outcome::Cancelled)
        .collect();
    before.sort();
    let passed = before.iter().rposition(|(_, _, outcome)| *outcome == Outcome::Passed);
    let troubled = &before[passed.map_or(0, |at| at + 1)..];

    let Some(trouble) = outcome.trouble() else {
        let (since, first, _) = troubled.first().filter(|_| outcome == Outcome::Passed)?;
        let troubles = troubled.iter().filter_map(|(_, _, outcome)| outcome.trouble()).collect();
        let new = New { news: News::Recovered, outcome, since: *since, first: (*first).clone() };
        return Some(Change { new, troubles });
    };
    let mut alike = troubled.iter().filter(|(_, _, before)| *before == outcome);
    let (news, since, first) = match alike.next() {
        None => (trouble, ended.0, line.run.clone()),
        Some((since, first, _)) => {
            let due = *since + STILL;
            if ended.0 < due || alike.any(|(at, _, _)| *at >= due) {
                return None;
            }
            (News::StillFailing, *since, (*first).clone())
        }
    };
    Some(Change { new: New { news, outcome, since, first }, troubles: [trouble].into() })
}
