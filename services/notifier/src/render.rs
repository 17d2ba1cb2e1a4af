//! Renders notices. Every value in a template is escaped for the form of its text ([`NoticeText`]).

use channels::{FailureText, NoticeText, Posted, StageFailure};
use lifecycle::{AttemptEnd, RunState};
use minijinja::{Error, ErrorKind};
use model::{News, Reason, Stage, Verdict};
use run_index::RunSummary;

use crate::{
    decide::{NoticeEvent, PlannedNotice, Recipient, RunOutcome, StateChange},
    notice::{CheckRun, CommitStatus, OutgoingMessage},
};

/// Templates of a check run's summary and a commit status.
const CHECK: &str = include_str!("../templates/check.md");
const STATUS: &str = include_str!("../templates/status.txt");
/// GitHub's maximum length of a status description.
const DESCRIPTION: usize = 140;
/// Maximum number of reasons in a notice.
const REASONS: usize = 5;
/// Maximum length of a reason or message, and of a name, characters.
const TEXT: usize = 300;
const NAME: usize = 100;

/// A run, as input of the templates.
pub struct RunText<'a> {
    /// Summary from the run index.
    pub summary: &'a RunSummary,
    /// State from the ledger.
    pub state: &'a RunState,
    pub link: Option<String>,
    /// Report in Markdown, if the notice needs it.
    pub report: Option<String>,
}

/// Renders a notice with this id.
///
/// # Errors
/// Returns an error if a template is invalid: a bug of this program.
pub fn message(run: &RunText<'_>, planned: &PlannedNotice, id: &str) -> Result<OutgoingMessage, Error> {
    let what = &planned.event;
    let headline = headline(run, what);
    let text = run.notice_text(&headline, what);
    Ok(match &planned.to {
        Recipient::Status(push) => OutgoingMessage::Status(CommitStatus {
            push: push.clone(),
            state: match outcome(what) {
                None => "pending",
                Some(RunOutcome::Passed) => "success",
                Some(RunOutcome::Failed) => "failure",
                Some(
                    RunOutcome::Inconclusive
                    | RunOutcome::Broken
                    | RunOutcome::Cancelled
                    | RunOutcome::Yielded,
                ) => "error",
            }
            .to_owned(),
            context: context_of(run),
            description: report::shortened(&text.render("status.txt", STATUS)?, DESCRIPTION),
            target_url: run.link.clone(),
        }),
        Recipient::Check(push) => OutgoingMessage::Check(Box::new(CheckRun {
            push: push.clone(),
            name: context_of(run),
            // GitHub treats neutral and skipped as success where checks are required.
            conclusion: match (outcome(what), run.summary.conclusion.as_str()) {
                (Some(RunOutcome::Passed), _) => "success",
                (Some(RunOutcome::Cancelled | RunOutcome::Yielded), _) => "cancelled",
                (Some(RunOutcome::Broken), "timed_out") => "timed_out",
                (Some(RunOutcome::Inconclusive), _) => "action_required",
                _ => "failure",
            }
            .to_owned(),
            summary: text.render("check.md", CHECK)?,
            title: headline,
            text: run.report.clone(),
            started_at: run.summary.requested_at,
            completed_at: run.summary.closed_at.unwrap_or(run.state.recorded_at),
            details_url: run.link.clone(),
        })),
        Recipient::Channel { kind, name } => {
            let known = channels::kind(kind).ok_or_else(|| invalid(channels::unknown(kind)))?;
            let NoticeEvent::Changed(new) = what else {
                return Err(invalid("channels receive only changes".to_owned()));
            };
            let content = known.content(&text, &run.posted(new, id))?;
            OutgoingMessage::Channel { kind: kind.clone(), name: name.clone(), content }
        }
    })
}

fn invalid(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

const fn outcome(what: &NoticeEvent) -> Option<RunOutcome> {
    match what {
        NoticeEvent::Started => None,
        NoticeEvent::Ended(outcome) => Some(*outcome),
        NoticeEvent::Changed(new) => Some(new.outcome),
    }
}

fn context_of(run: &RunText<'_>) -> String {
    format!("burnin/{}", run.summary.workflow)
}

fn headline(run: &RunText<'_>, what: &NoticeEvent) -> String {
    let outcome_text = |outcome: RunOutcome| match (outcome, run.summary.verdict) {
        (RunOutcome::Passed, Some(_)) => "the verdict is pass",
        (RunOutcome::Passed, None) => "done, without a verdict",
        (RunOutcome::Failed, _) => "the verdict is fail",
        (RunOutcome::Inconclusive, _) => "the verdict is inconclusive",
        (RunOutcome::Broken, _) => "the run did not complete: infrastructure failure",
        (RunOutcome::Cancelled, _) => "the run was cancelled",
        (RunOutcome::Yielded, _) => "the run yielded to other jobs",
    };
    match what {
        NoticeEvent::Started => "the run is in progress".to_owned(),
        NoticeEvent::Ended(outcome) => outcome_text(*outcome).to_owned(),
        NoticeEvent::Changed(StateChange { news: News::Recovered, .. }) => {
            "recovered, the verdict is pass again".to_owned()
        }
        NoticeEvent::Changed(StateChange { news: News::StillFailing, outcome, .. }) => {
            format!("not fixed for a day: {}", outcome_text(*outcome))
        }
        NoticeEvent::Changed(StateChange { outcome, .. }) => outcome_text(*outcome).to_owned(),
    }
}

impl RunText<'_> {
    fn reasons(&self) -> Vec<Reason> {
        let reasons = self.state.verdict().map(|reached| reached.reasons.clone()).unwrap_or_default();
        // For a verdict other than pass, only the reasons for that verdict are reported.
        let verdict = self.summary.verdict.unwrap_or(Verdict::Pass);
        reasons.into_iter().filter(|reason| reason.weighs == verdict).collect()
    }

    /// Failure of the stage that ended the run, if any.
    fn failure(&self) -> Option<StageFailure> {
        let stages = self.state.stages.iter();
        stages.filter(|(step, _)| step.stage != Stage::Locate).find_map(|(step, state)| match &state.end {
            Some(AttemptEnd::Failed(failure)) => {
                Some(StageFailure { stage: step.stage, failure: Some(failure.clone()) })
            }
            Some(AttemptEnd::TimedOut) => Some(StageFailure { stage: step.stage, failure: None }),
            Some(AttemptEnd::Succeeded(_)) | None => None,
        })
    }

    fn posted(&self, new: &StateChange, id: &str) -> Posted {
        let summary = self.summary;
        Posted {
            schema: "burnin/notice/v1".to_owned(),
            id: id.to_owned(),
            news: new.news,
            outcome: new.outcome,
            since: new.since,
            first_run: new.first.clone(),
            run: summary.run.clone(),
            workflow: summary.workflow.clone(),
            system: summary.system.clone(),
            cluster: summary.cluster.clone(),
            trigger: summary.trigger.clone(),
            requested_at: summary.requested_at,
            closed_at: summary.closed_at.unwrap_or(self.state.recorded_at),
            conclusion: summary.conclusion.clone(),
            verdict: summary.verdict,
            reasons: self.state.verdict().map(|reached| reached.reasons.clone()).unwrap_or_default(),
            failure: self.failure(),
            link: self.link.clone(),
        }
    }

    /// Values of a notice that templates use.
    fn notice_text<'b>(&'b self, headline: &'b str, what: &NoticeEvent) -> NoticeText<'b> {
        let summary = self.summary;
        let short = report::shortened;
        let reasons = self.reasons().into_iter().take(REASONS).map(|Reason { code, weighs, text }| Reason {
            code: short(&code, NAME),
            weighs,
            text: short(&text, TEXT),
        });
        let failure = self.failure().map(|StageFailure { stage, failure }| {
            let silent = ("TIMEOUT".to_owned(), "the stage did not respond within its timeout".to_owned());
            let (code, message) = failure.map_or(silent, |failure| (failure.code, failure.message));
            FailureText { stage: stage.to_string(), code: short(&code, NAME), message: short(&message, TEXT) }
        });
        let suspects = self.state.suspects().map(|suspects| {
            let names: Vec<_> = suspects.nodes.iter().map(|suspect| suspect.node.as_str()).collect();
            short(&names.join(", "), TEXT)
        });
        let since = match what {
            NoticeEvent::Changed(new) if new.first != summary.run => {
                Some((new.since.to_string(), new.first.to_string()))
            }
            _ => None,
        };
        NoticeText {
            headline,
            workflow: short(&summary.workflow, NAME),
            cluster: summary.cluster.as_deref().map(|cluster| short(cluster, NAME)),
            run: summary.run.as_str(),
            reasons: reasons.collect(),
            failure,
            suspects,
            since,
            cause: short(&format!("{}: {}", summary.trigger.kind, summary.trigger.by), NAME),
            closed_at: summary.closed_at.map(|at| at.to_string()),
            link: self.link.clone(),
        }
    }
}
