//! Renders notices. The texts are in `templates/`, one file for each form. Every value in a template is escaped for that form,
//! because names, messages and reasons are external text.

use lifecycle::{AttemptEnd, RunState};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, Value, context, syntax::SyntaxConfig,
    value::Serde,
};
use model::{News, Reason, Stage, Verdict};
use run_index::RunSummary;
use serde::Serialize;

use crate::{
    decide::{Addressee, New, Occasion, RunOutcome, Telling},
    notice::{Check, CommitStatus, OutgoingMessage, Posted, StageFailure},
};

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
    pub line: &'a RunSummary,
    /// State from the ledger.
    pub state: &'a RunState,
    /// URL of the run.
    pub link: Option<String>,
    /// Report in Markdown, if the notice needs it.
    pub report: Option<String>,
}

/// Renders a notice with this id.
///
/// # Errors
/// Returns an error if a template is invalid: a bug of this program.
pub fn letter(told: &RunText<'_>, telling: &Telling, id: &str) -> Result<OutgoingMessage, Error> {
    Ok(match (&telling.to, &telling.what) {
        (Addressee::Status(push), what) => OutgoingMessage::Status(CommitStatus {
            push: push.clone(),
            state: match outcome(what) {
                None => "pending",
                Some(RunOutcome::Passed) => "success",
                Some(RunOutcome::Failed) => "failure",
                Some(RunOutcome::Inconclusive | RunOutcome::Broken | RunOutcome::Cancelled) => "error",
            }
            .to_owned(),
            context: context_of(told),
            description: report::shortened(&told.say("status.txt", what)?, DESCRIPTION),
            target_url: told.link.clone(),
        }),
        (Addressee::Check(push), what) => OutgoingMessage::Check(Box::new(Check {
            push: push.clone(),
            name: context_of(told),
            // GitHub treats neutral and skipped as success where checks are required.
            conclusion: match (outcome(what), told.line.conclusion.as_str()) {
                (Some(RunOutcome::Passed), _) => "success",
                (Some(RunOutcome::Cancelled), _) => "cancelled",
                (Some(RunOutcome::Broken), "timed_out") => "timed_out",
                (Some(RunOutcome::Inconclusive), _) => "action_required",
                _ => "failure",
            }
            .to_owned(),
            title: headline(told, what),
            summary: told.say("check.md", what)?,
            text: told.report.clone(),
            started_at: told.line.requested_at,
            completed_at: told.line.closed_at.unwrap_or(told.state.recorded_at),
            details_url: told.link.clone(),
        })),
        (Addressee::Slack(webhook), what) => {
            OutgoingMessage::Slack { webhook: webhook.clone(), text: told.say("slack.mrkdwn", what)? }
        }
        (Addressee::Webhook(target), Occasion::New(new)) => {
            let body = serde_json::to_string(&told.posted(new, id));
            let body = body.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
            OutgoingMessage::Webhook { target: target.clone(), body }
        }
        (Addressee::Webhook(_), _) => {
            return Err(Error::new(ErrorKind::InvalidOperation, "webhooks receive only changes"));
        }
    })
}

const fn outcome(what: &Occasion) -> Option<RunOutcome> {
    match what {
        Occasion::Begun => None,
        Occasion::Ended(outcome) => Some(*outcome),
        Occasion::New(new) => Some(new.outcome),
    }
}

fn context_of(told: &RunText<'_>) -> String {
    format!("burnin/{}", told.line.workflow)
}

fn headline(told: &RunText<'_>, what: &Occasion) -> String {
    let came_to = |outcome: RunOutcome| match (outcome, told.line.verdict) {
        (RunOutcome::Passed, Some(_)) => "the verdict is pass",
        (RunOutcome::Passed, None) => "done, without a verdict",
        (RunOutcome::Failed, _) => "the verdict is fail",
        (RunOutcome::Inconclusive, _) => "the verdict is inconclusive",
        (RunOutcome::Broken, _) => "the run did not complete: infrastructure failure",
        (RunOutcome::Cancelled, _) => "the run was cancelled",
    };
    match what {
        Occasion::Begun => "the run is in progress".to_owned(),
        Occasion::Ended(outcome) => came_to(*outcome).to_owned(),
        Occasion::New(New { news: News::Recovered, .. }) => "recovered, the verdict is pass again".to_owned(),
        Occasion::New(New { news: News::StillFailing, outcome, .. }) => {
            format!("not fixed for a day: {}", came_to(*outcome))
        }
        Occasion::New(New { outcome, .. }) => came_to(*outcome).to_owned(),
    }
}

/// A failure outside the benchmark, for the templates.
#[derive(Serialize)]
struct FailureText {
    stage: String,
    code: String,
    message: String,
}

impl RunText<'_> {
    fn reasons(&self) -> Vec<Reason> {
        let reasons = self.state.verdict().map(|reached| reached.reasons.clone()).unwrap_or_default();
        // For a verdict other than pass, only the reasons for that verdict are reported.
        let verdict = self.line.verdict.unwrap_or(Verdict::Pass);
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

    fn posted(&self, new: &New, id: &str) -> Posted {
        let line = self.line;
        Posted {
            schema: "burnin/notice/v1".to_owned(),
            id: id.to_owned(),
            news: new.news,
            outcome: new.outcome,
            since: new.since,
            first_run: new.first.clone(),
            run: line.run.clone(),
            workflow: line.workflow.clone(),
            system: line.system.clone(),
            cluster: line.cluster.clone(),
            trigger: line.trigger.clone(),
            requested_at: line.requested_at,
            closed_at: line.closed_at.unwrap_or(self.state.recorded_at),
            conclusion: line.conclusion.clone(),
            verdict: line.verdict,
            reasons: self.state.verdict().map(|reached| reached.reasons.clone()).unwrap_or_default(),
            failure: self.failure(),
            link: self.link.clone(),
        }
    }

    fn say(&self, template: &'static str, what: &Occasion) -> Result<String, Error> {
        let line = self.line;
        let short = report::shortened;
        let reasons: Vec<_> = self
            .reasons()
            .into_iter()
            .take(REASONS)
            .map(|reason| {
                let Reason { code, weighs, text } = reason;
                Reason { code: short(&code, NAME), weighs, text: short(&text, TEXT) }
            })
            .collect();
        let failure = self.failure().map(|StageFailure { stage, failure }| {
            let silent = ("TIMEOUT".to_owned(), "no response within its limit".to_owned());
            let (code, message) = failure.map_or(silent, |failure| (failure.code, failure.message));
            FailureText { stage: stage.to_string(), code: short(&code, NAME), message: short(&message, TEXT) }
        });
        let suspects = self.state.suspects().map(|suspects| {
            let names: Vec<_> = suspects.nodes.iter().map(|suspect| suspect.node.as_str()).collect();
            short(&names.join(", "), TEXT)
        });
        let began = match what {
            Occasion::New(new) if new.first != line.run => Some(new),
            _ => None,
        };
        let said = environment()?.get_template(template)?.render(context! {
            headline => headline(self, what),
            workflow => short(&line.workflow, NAME),
            cluster => line.cluster.as_deref().map(|cluster| short(cluster, NAME)),
            run => line.run.as_str(),
            reasons => Serde(reasons),
            failure => Serde(failure),
            suspects => suspects.filter(|names| !names.is_empty()),
            since => began.map(|new| new.since.to_string()),
            first => began.map(|new| new.first.to_string()),
            cause => short(&format!("{}: {}", line.trigger.kind, line.trigger.by), NAME),
            closed_at => line.closed_at.map(|at| at.to_string()),
            // Configured by the operator and checked when read.
            link => self.link.clone().map(Value::from_safe_string),
        })?;
        Ok(said.trim().to_owned())
    }
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut world = Environment::new();
    world.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    world.set_auto_escape_callback(|name| match name.rsplit_once('.') {
        Some((_, "mrkdwn")) => AutoEscape::Custom("mrkdwn".into()),
        Some((_, "md")) => AutoEscape::Custom("markdown".into()),
        _ => AutoEscape::None,
    });
    world.set_formatter(escape);
    world.add_template("slack.mrkdwn", include_str!("../templates/slack.mrkdwn"))?;
    world.add_template("check.md", include_str!("../templates/check.md"))?;
    world.add_template("status.txt", include_str!("../templates/status.txt"))?;
    Ok(world)
}

fn escape(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let text = value.to_string();
    let text = match state.auto_escape() {
        _ if value.is_safe() => text,
        AutoEscape::Custom(form) if form == "mrkdwn" => mrkdwn(&text),
        AutoEscape::Custom(_) => report::escaped(&text),
        _ => text,
    };
    out.write_str(&text).map_err(Error::from)
}

/// Escapes text for Slack and for other receivers of its webhooks that read Markdown: no mentions, no links, no line breaks.
/// `*`, `_` and similar characters may change the font, which is harmless.
fn mrkdwn(raw: &str) -> String {
    const BREAK: char = '\u{200b}';
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            c if c.is_control() => safe.push(' '),
            // Breaks `@channel`, `[shown](elsewhere)` and `https://`.
            '@' | ']' | '`' => safe.extend([c, BREAK]),
            '/' if safe.ends_with(':') => safe.extend([BREAK, c]),
            c => safe.push(c),
        }
    }
    safe
}
