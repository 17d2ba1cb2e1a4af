//! Creates the notices of a run.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError},
};

use events::RunAnswer;
use futures::{StreamExt, stream};
use lifecycle::RunState;
use model::{ClusterSpec, Fact, Origin, Record, RecordEntry, RunClosed, RunId, Span, Timestamp};
use run_index::{ExternalAddresses, FoldedRun, RunSummary};
use service::{CommandError, worker::chain};
use tracing::{info, warn};

use crate::{
    Notifier,
    decide::{self, ChannelHistory, EarlierRun, NoticeSubject, PlannedNotice, RunOutcome},
    notice::{FORMAT, Notice},
    render::{self, RunText},
};

/// Maximum age of the end of a run that is still reported.
const RECENT: Span = Span::from_secs(24 * 3600);
/// Maximum number of earlier runs that are read: more than a year of nightly runs.
const MAX_RUNS: usize = 400;
/// Maximum number of concurrent reads.
const ABREAST: usize = 16;

/// Origin of a run, from its first record.
fn origin(records: &[Record]) -> Option<&Origin> {
    let RecordEntry::Accepted { fact, .. } = &records.first()?.entry else { return None };
    let Fact::RunRequested(requested) = &**fact else { return None };
    requested.origin.as_ref()
}

fn subject<'a>(
    summary: &'a RunSummary,
    state: &'a RunState,
    origin: Option<&'a Origin>,
) -> NoticeSubject<'a> {
    let cluster = match &state.workflow.cluster {
        Some(ClusterSpec::Existing { name, .. }) => Some(name.as_str()),
        _ => None,
    };
    let push = match origin {
        Some(Origin::Push(push)) => Some(push),
        _ => None,
    };
    NoticeSubject { summary, cluster, push, targets: &state.workflow.notify }
}

impl Notifier {
    /// Creates the notices of a recorded run.
    pub(crate) async fn notify_started(&self, run: &RunId) -> Result<(), CommandError> {
        let Some(FoldedRun { records, state }) =
            self.run_index.folded(run).await.map_err(CommandError::transient)?
        else {
            return Err(CommandError::Transient(format!("{run} is not recorded yet")));
        };
        let summary = RunSummary::of(&state);
        let notices = decide::notices_of_start(&subject(&summary, &state, origin(&records)));
        self.write(&summary, &state, &notices).await.map(drop)
    }

    /// Decides the notices of an ended run once, after the notices of the system's earlier runs: the decision depends on the notices that
    /// each channel received about those runs.
    pub(crate) async fn notify_ended(&self, run: &RunId) -> Result<(), CommandError> {
        if self.outbox.is_marked(run).await.map_err(CommandError::transient)? {
            return Ok(());
        }
        let Some(FoldedRun { records, state }) =
            self.run_index.folded(run).await.map_err(CommandError::transient)?
        else {
            return Err(CommandError::Permanent(format!("run {run} was never requested")));
        };
        if state.closed.is_none() {
            return Err(CommandError::Transient(format!("{run} is not closed yet")));
        }
        if state.workflow.notify.is_empty() {
            // The workflow has no channels, so the decision does not depend on earlier runs.
            return self.decide(run, &[]).await;
        }
        let (recent, summary) = (self.recent().await?, RunSummary::of(&state));
        let others = self.run_index.all().await.map_err(CommandError::transient)?;
        for (at, earlier, _) in decide::earlier_runs(&subject(&summary, &state, origin(&records)), &others) {
            if at >= recent && !self.outbox.is_marked(earlier).await.map_err(CommandError::transient)? {
                self.decide(earlier, &others).await?;
            }
        }
        self.decide(run, &others).await
    }

    /// Earliest end that is still reported.
    async fn recent(&self) -> Result<Timestamp, CommandError> {
        let now = self.clock.now();
        let since = self.outbox.since(now).await.map_err(CommandError::transient)?;
        Ok(Timestamp::from_millis(now.as_millis() - RECENT.0.as_millis() as i64).max(since))
    }

    /// Notices that channels received about earlier runs, back to the last pass with a decision.
    async fn channel_history(&self, before: &[EarlierRun<'_>]) -> Result<ChannelHistory, CommandError> {
        // The values are owned, because the compiler cannot prove that a stream of borrowed values is Send.
        let newest: Vec<_> =
            before.iter().rev().take(MAX_RUNS).map(|(_, run, outcome)| ((*run).clone(), *outcome)).collect();
        let marks = newest.into_iter().map(|(run, outcome)| {
            let outbox = self.outbox.clone();
            async move { outbox.received_channels(&run).await.map(|channels| (run, outcome, channels)) }
        });
        let mut marks = stream::iter(marks).buffered(ABREAST);
        let mut history = ChannelHistory::new();
        while let Some(mark) = marks.next().await {
            let (run, outcome, channels) = mark.map_err(CommandError::transient)?;
            let Some(channels) = channels else { continue };
            history.insert(run, channels);
            if outcome == RunOutcome::Passed {
                break;
            }
        }
        Ok(history)
    }

    /// Decides the notices of one ended run.
    async fn decide(&self, run: &RunId, others: &[Arc<RunSummary>]) -> Result<(), CommandError> {
        let Some(FoldedRun { records, state }) =
            self.run_index.folded(run).await.map_err(CommandError::transient)?
        else {
            return Err(CommandError::Transient(format!("{run} cannot be read now")));
        };
        let origin = origin(&records);
        if state.workflow.notify.is_empty() && !matches!(origin, Some(Origin::Message(_))) {
            return Ok(()); // the workflow notifies no channel, so no notice is stored
        }
        let summary = RunSummary::of(&state);
        let subject = subject(&summary, &state, origin);
        let history = self.channel_history(&decide::earlier_runs(&subject, others)).await?;
        let notices = decide::notices_of_end(&subject, others, &history);
        let listened = state.workflow.notify.iter().filter_map(decide::channel).collect();
        let channels = self.write(&summary, &state, &notices).await?;
        if let Some(Origin::Message(request)) = origin {
            self.answer(request.clone(), &state).await?;
        }
        info!(run.id = %run, conclusion = summary.conclusion, channels = channels.join(" "), "notices decided");
        // Write the mark last: after a crash the whole pass repeats with the same result.
        self.outbox
            .mark_decided(run, channels, listened, self.clock.now())
            .await
            .map_err(CommandError::transient)
    }

    async fn answer(&self, request: model::EventKey, state: &RunState) -> Result<(), CommandError> {
        let Some((conclusion, _)) = &state.settled else { return Ok(()) };
        let verdict = state.verdict().map(|reached| reached.verdict);
        let ended = Some(RunClosed { conclusion: conclusion.clone(), verdict });
        let answer = RunAnswer { request, run: Some(state.run.clone()), problem: None, ended };
        Ok(self.bus.publish(answer.to_event("notifier", self.clock.now())).await?)
    }

    /// Stores the notices; returns their channels.
    async fn write(
        &self,
        summary: &RunSummary,
        state: &RunState,
        notices: &[PlannedNotice],
    ) -> Result<Vec<String>, CommandError> {
        let checked = notices.iter().any(|planned| matches!(planned.to, decide::Recipient::Check(_)));
        let report = if checked { self.report(&summary.run).await } else { None };
        let link = self.link.as_ref().map(|link| link.of(&summary.run));
        let run_text = RunText { summary, state, link, report };
        let mut channels = Vec::new();
        for planned in notices {
            let id = Notice::id(&summary.run, &planned.to, &planned.event);
            let letter = render::message(&run_text, planned, &id);
            let letter =
                letter.map_err(|error| CommandError::Permanent(format!("invalid template: {error:#}")))?;
            let made_at = self.clock.now();
            let notice = Notice { format: FORMAT, id, run: summary.run.clone(), made_at, letter };
            self.outbox.put(&notice).await.map_err(CommandError::transient)?;
            channels.push(notice.channel());
        }
        Ok(channels)
    }

    /// The report of a run; `None` if its artefacts cannot be read.
    async fn report(&self, run: &RunId) -> Option<String> {
        let report = self.run_index.report(run, ExternalAddresses::default()).await;
        let report =
            report.map_err(|error| warn!(run.id = %run, "the notice has no report: {}", chain(&error)));
        Some(report::markdown(&report.ok()??.input()))
    }

    /// Searches for missed endings: the bus may lose facts, and another process may drive a run.
    ///
    /// # Errors
    /// Returns an error if a run failed temporarily, after all runs were examined.
    pub(crate) async fn poll_ledger(&self) -> Result<(), CommandError> {
        let recent = self.recent().await?;
        let summaries = self.run_index.all().await.map_err(CommandError::transient)?;
        let ended = |summary: &RunSummary| summary.closed_at.is_some_and(|at| at >= recent);
        let open = |summary: &RunSummary| summary.closed_at.is_none() && summary.trigger.kind == "push";
        let checked_runs = || self.checked_runs.lock().unwrap_or_else(PoisonError::into_inner);
        let current: BTreeSet<(RunId, bool)> = summaries
            .iter()
            .filter(|summary| ended(summary) || open(summary))
            .map(|summary| (summary.run.clone(), summary.closed_at.is_some()))
            .collect();
        checked_runs().retain(|known| current.contains(known));
        let unknown: Vec<_> = current.difference(&checked_runs()).cloned().collect();
        let mut result = Ok(());
        for (run, is_closed) in unknown {
            match if is_closed { self.notify_ended(&run).await } else { self.notify_started(&run).await } {
                Ok(()) => drop(checked_runs().insert((run, is_closed))),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }
}
