//! Decides the notices of a run by channel. Pure: inputs are summaries of the run and of other runs, the notices that each channel
//! received, and the workflow's `notify` settings.
//!
//! A channel receives a notice when a system's state differs from the last one that the channel received. Each kind of failure (fail,
//! inconclusive, infrastructure) has its own sequence, which begins with the first such run since the last pass that the channel received.
//! That run causes a notice, a reminder follows if the state lasts for a day, and a pass ends the sequence. The notice of a run that ended
//! before any channel existed is treated as not received, so that the next failure causes a notice. A run that was cancelled or yielded
//! carries no information about the system and is skipped. A commit receives a notice for every run.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

pub use channels::RunOutcome;
use model::{ChannelNotify, News, Notify, Push, RunId, Span, Timestamp, Verdict};
use run_index::RunSummary;

/// Send one reminder after a failure has lasted this long.
pub const STILL: Span = Span::from_secs(24 * 3600);

/// Outcome of a run; `None` while it is open. A fail verdict takes precedence over every conclusion except `cancelled`.
pub fn outcome(summary: &RunSummary) -> Option<RunOutcome> {
    summary.closed_at?;
    Some(match (summary.conclusion.as_str(), summary.verdict) {
        ("cancelled", _) => RunOutcome::Cancelled,
        (_, Some(Verdict::Fail)) => RunOutcome::Failed,
        ("yielded", _) => RunOutcome::Yielded,
        ("completed", Some(Verdict::Inconclusive)) => RunOutcome::Inconclusive,
        ("completed", Some(Verdict::Pass) | None) => RunOutcome::Passed,
        _ => RunOutcome::Broken,
    })
}

/// The news of a new failure; `None` for runs that passed, were cancelled or yielded.
const fn news_of_failure(outcome: RunOutcome) -> Option<News> {
    match outcome {
        RunOutcome::Failed => Some(News::Failed),
        RunOutcome::Inconclusive => Some(News::Inconclusive),
        RunOutcome::Broken => Some(News::Broken),
        RunOutcome::Passed | RunOutcome::Cancelled | RunOutcome::Yielded => None,
    }
}

/// A run whose notices are decided.
#[derive(Clone, Copy, Debug)]
pub struct NoticeSubject<'a> {
    /// Summary from the run index.
    pub summary: &'a RunSummary,
    /// The existing cluster that the run's workflow names; `None` if each run provisions a cluster. Workflow name and cluster identify
    /// the system.
    pub cluster: Option<&'a str>,
    /// The push that started the run.
    pub push: Option<&'a Push>,
    /// The workflow's `notify` settings.
    pub targets: &'a [Notify],
}

/// One notice for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedNotice {
    /// Receiver of the notice.
    pub to: Recipient,
    pub event: NoticeEvent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    Status(Push),
    /// A check run of a commit.
    Check(Push),
    Channel {
        kind: String,
        /// Name of the channel in the workflow.
        name: String,
    },
}

/// Content of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeEvent {
    /// The run was recorded and is in progress.
    Started,
    Ended(RunOutcome),
    /// The system's state changed.
    Changed(StateChange),
}

/// A change of a system's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Kind of change.
    pub news: News,
    /// Outcome of the run that caused the news.
    pub outcome: RunOutcome,
    /// End of the first failed run.
    pub since: Timestamp,
    /// Id of the first failed run.
    pub first: RunId,
}

/// Notices for a recorded run: a pending commit status.
pub fn notices_of_start(subject: &NoticeSubject<'_>) -> Vec<PlannedNotice> {
    let Some(push) = subject.push else { return Vec::new() };
    let status = |target: &Notify| matches!(target, Notify::Github(github) if github.status);
    let requested = subject.summary.closed_at.is_none() && subject.targets.iter().any(status);
    let planned = || PlannedNotice { to: Recipient::Status(push.clone()), event: NoticeEvent::Started };
    requested.then(planned).into_iter().collect()
}

/// For each run with a decision, the channels that received its notice.
pub type ChannelHistory = BTreeMap<RunId, BTreeSet<String>>;

/// The channel of a `notify` setting, as named in [`ChannelHistory`] and the outbox; `None` for GitHub.
pub fn channel(target: &Notify) -> Option<String> {
    target.channel().map(ChannelNotify::id)
}

/// Notices for an ended run. `others` may be any runs; only runs of the same system that ended earlier are used.
pub fn notices_of_end(
    subject: &NoticeSubject<'_>,
    others: &[impl Borrow<RunSummary>],
    history: &ChannelHistory,
) -> Vec<PlannedNotice> {
    let Some(outcome) = outcome(subject.summary) else { return Vec::new() };
    let earlier = earlier_runs(subject, others);
    let mut notices = Vec::new();
    for target in subject.targets {
        match (target, subject.push) {
            (Notify::Github(github), Some(push)) => {
                let mut add = |to| notices.push(PlannedNotice { to, event: NoticeEvent::Ended(outcome) });
                if github.status {
                    add(Recipient::Status(push.clone()));
                }
                if github.check {
                    add(Recipient::Check(push.clone()));
                }
            }
            (Notify::Github(_), None) => {}
            (Notify::Channel(to), _) => {
                let ChannelNotify { kind, name, on, .. } = to;
                let change = change(subject, outcome, &earlier, history, &to.id());
                let Some(change) = change.filter(|change| change.is_for(on)) else { continue };
                let to = Recipient::Channel { kind: kind.clone(), name: name.clone() };
                notices.push(PlannedNotice { to, event: NoticeEvent::Changed(change.change) });
            }
        }
    }
    notices
}

/// An earlier run of the same system: end, id, outcome.
pub type EarlierRun<'a> = (Timestamp, &'a RunId, RunOutcome);

/// Runs of the same system that ended before the subject, oldest first by their end, without cancelled ones. The order
/// of requests has no effect, because notices are decided when runs end.
pub fn earlier_runs<'a>(
    subject: &NoticeSubject<'_>,
    others: &'a [impl Borrow<RunSummary>],
) -> Vec<EarlierRun<'a>> {
    let summary = subject.summary;
    let Some(closed_at) = summary.closed_at else { return Vec::new() };
    let same = |other: &&RunSummary| {
        other.workflow == summary.workflow
            && subject.cluster.is_none_or(|cluster| other.cluster.as_deref() == Some(cluster))
    };
    let mut earlier: Vec<EarlierRun<'a>> = others
        .iter()
        .map(Borrow::borrow)
        .filter(same)
        .filter_map(|other| Some((other.closed_at?, &other.run, outcome(other)?)))
        .filter(|(at, run, outcome)| {
            (*at, *run) < (closed_at, &summary.run) && *outcome != RunOutcome::Cancelled
        })
        .collect();
    earlier.sort();
    earlier
}

/// A change of a system's state, and the failures that led to the change.
struct ChangeWithFailures {
    change: StateChange,
    failures: BTreeSet<News>,
}

impl ChangeWithFailures {
    /// Whether the change is among the news that the channel subscribed to.
    fn is_for(&self, on: &[News]) -> bool {
        let failures = [News::Failed, News::Inconclusive, News::Broken];
        let any = !on.iter().any(|news| failures.contains(news));
        on.contains(&self.change.news) && (any || self.failures.iter().any(|news| on.contains(news)))
    }
}

/// The change to report to the channel; `None` if none is due.
fn change(
    subject: &NoticeSubject<'_>,
    outcome: RunOutcome,
    earlier: &[EarlierRun<'_>],
    history: &ChannelHistory,
    channel: &str,
) -> Option<ChangeWithFailures> {
    let summary = subject.summary;
    let ended = summary.closed_at?;
    let was_notified = |run: &RunId| history.get(run).is_some_and(|channels| channels.contains(channel));
    let after = |passed: Option<usize>| &earlier[passed.map_or(0, |at| at + 1)..];

    let Some(failure_news) = news_of_failure(outcome) else {
        // Failures before the last pass with a decision are ignored: their recovery was decided with that pass. A pass without a decision
        // reported no recovery.
        let decided =
            |(_, run, outcome): &EarlierRun<'_>| *outcome == RunOutcome::Passed && history.contains_key(*run);
        let since_pass = after(earlier.iter().rposition(decided)).iter();
        let known: Vec<_> = since_pass
            .filter(|(_, run, outcome)| *outcome != RunOutcome::Passed && was_notified(run))
            .collect();
        let (since, first, _) = known.first().filter(|_| outcome == RunOutcome::Passed)?;
        let failures = known.iter().filter_map(|(_, _, outcome)| news_of_failure(*outcome)).collect();
        let change = StateChange { news: News::Recovered, outcome, since: *since, first: (*first).clone() };
        return Some(ChangeWithFailures { change, failures });
    };
    let passed = earlier.iter().rposition(|(_, _, outcome)| *outcome == RunOutcome::Passed);
    let alike: Vec<_> = after(passed).iter().filter(|(_, _, other)| *other == outcome).collect();
    // The failure starts at the first failed run of this kind, whether or not the channel received a notice about this run.
    let (since, first) = alike.first().map_or((ended, &summary.run), |(since, first, _)| (*since, *first));
    let mut known = alike.iter().filter(|(_, run, _)| was_notified(run));
    let news = match known.next() {
        None => failure_news,
        Some((notified_at, _, _)) => {
            let due = *notified_at + STILL;
            if ended < due || known.any(|(at, _, _)| *at >= due) {
                return None;
            }
            News::StillFailing
        }
    };
    Some(ChangeWithFailures {
        change: StateChange { news, outcome, since, first: first.clone() },
        failures: [failure_news].into(),
    })
}
