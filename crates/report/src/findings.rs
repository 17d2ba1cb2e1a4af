//! What a run comes to: the headline, its reasons, and what else a reader must know. Both reports tell the same.

use lifecycle::{End, LeaseState, RunState};
use model::{Conclusion, Drained, Entry, Fact, Reason, Stage, SuspectNode, Suspects, Verdict};
use serde::Serialize;

use crate::{Run, StageLine, Story, text, words};

/// How a reader should feel about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    Good,
    Bad,
    Unsure,
    Busy,
}

impl From<Verdict> for Tone {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Good,
            Verdict::Fail => Self::Bad,
            Verdict::Inconclusive => Self::Unsure,
        }
    }
}

/// What the run comes to, in a word.
pub struct Headline {
    pub word: &'static str,
    pub tone: Tone,
}

/// Something that a reader must know besides the verdict.
#[derive(Serialize)]
pub struct Note {
    pub tone: Tone,
    pub head: String,
    /// What to do about it, where that is known.
    pub text: String,
}

/// The reasons of the verdict, gravest first.
pub fn reasons<'a>(story: &Story<'a>) -> &'a [Reason] {
    match (story.whole(), story.run.and_then(|run| run.state.verdict())) {
        (Some(judgement), _) => &judgement.reasons,
        (None, Some(reached)) => &reached.reasons,
        (None, None) => &[],
    }
}

pub fn headline(story: &Story<'_>) -> Headline {
    let settled = story.run.and_then(|run| run.state.settled.as_ref()).map(|(how, _)| how);
    let (word, tone) = match (story.verdict(), settled) {
        (Some(Verdict::Pass), _) => ("PASS", Tone::Good),
        (Some(Verdict::Fail), _) => ("FAIL", Tone::Bad),
        (Some(Verdict::Inconclusive), _) => ("INCONCLUSIVE", Tone::Unsure),
        // Nothing was asked to be judged.
        (None, Some(Conclusion::Completed)) => ("DONE", Tone::Good),
        (None, Some(Conclusion::Failed { .. })) => ("NO VERDICT", Tone::Bad),
        (None, Some(Conclusion::TimedOut { .. })) => ("NO VERDICT", Tone::Bad),
        (None, Some(Conclusion::Cancelled { .. })) => ("CANCELLED", Tone::Unsure),
        (None, None) if story.run.is_some() => ("RUNNING", Tone::Busy),
        (None, None) => ("NO VERDICT", Tone::Unsure),
    };
    Headline { word, tone }
}

/// How it ended if it did not complete, which nodes are bad, what is still held, and what was reported twice.
pub fn notes(story: &Story<'_>) -> Vec<Note> {
    let Some(run) = story.run else { return Vec::new() };
    let state = run.state;
    let mut notes: Vec<_> = state.settled.iter().filter_map(|(how, _)| ending(&run, how)).collect();
    if let Some(suspects) = state.suspects() {
        notes.extend(named(suspects));
    }
    notes.extend(not_located(state));
    if state.settled.is_none() {
        notes.extend(state.frontier().map(|stage| now(state, stage)));
    }
    if state.settled.is_some() {
        notes.extend(held(state));
    }
    for (stage, _) in state.stages.iter().filter(|(_, stage)| stage.contested) {
        let head = format!("two different endings were reported for {stage}");
        notes.push(Note { tone: Tone::Unsure, head, text: "The first one counts.".to_owned() });
    }
    notes
}

fn ending(run: &Run<'_>, how: &Conclusion) -> Option<Note> {
    let (tone, head, text) = match how {
        Conclusion::Completed => return None,
        Conclusion::Failed { stage, failure } => {
            (Tone::Bad, format!("failed at {stage}: {}", failure.code), failure.message.clone())
        }
        Conclusion::TimedOut { stage } => {
            let limit = run.state.limit(*stage);
            let handle = run.state.stage(*stage).and_then(|stage| stage.handle.as_deref());
            let look = handle.map_or_else(
                || "Nothing was ever heard of it: is its worker running?".to_owned(),
                |handle| format!("Look for {handle} where it runs; its worker may be down."),
            );
            (Tone::Bad, format!("timed out at {stage}: silent past its limit of {limit}"), look)
        }
        Conclusion::Cancelled { by } => {
            (Tone::Unsure, format!("cancelled by {by}"), cancel_reason(run).unwrap_or_default())
        }
    };
    Some(Note { tone, head, text })
}

/// Nodes and links that are held to be bad, and what is left open.
fn named(suspects: &Suspects) -> impl Iterator<Item = Note> + '_ {
    let node = |SuspectNode { node, confidence, drained }: &SuspectNode| Note {
        tone: Tone::Bad,
        head: format!("bad node: {node}, sure to {:.0} %", (100.0 * confidence).floor()),
        text: match drained {
            Drained::Proposed { command } => format!("Take it out with: {command}"),
            Drained::Applied { reason } => format!("It was taken out of service: {reason}"),
            Drained::Left { why } => format!("It was left in service: {why}"),
        },
    };
    let link = |[a, b]: &[String; 2]| Note {
        tone: Tone::Bad,
        head: format!("bad link: {a} with {b}"),
        text: "Both are good with others.".to_owned(),
    };
    let open = suspects.undecided.as_ref().map(|why| Note {
        tone: Tone::Unsure,
        head: format!("not located, after {}", text::count(suspects.tests, "pair")),
        text: why.clone(),
    });
    suspects.nodes.iter().map(node).chain(suspects.links.iter().map(link)).chain(open)
}

/// The verdict stands without it, so it is not how the run ended.
fn not_located(state: &RunState) -> Option<Note> {
    let text = match state.end(Stage::Locate)? {
        End::Succeeded(_) => return None,
        End::Failed(failure) => words::failure(failure),
        End::TimedOut => format!("silent past its limit of {}", state.limit(Stage::Locate)),
    };
    Some(Note { tone: Tone::Unsure, head: "bad nodes could not be looked for".to_owned(), text })
}

fn cancel_reason(run: &Run<'_>) -> Option<String> {
    run.records.iter().find_map(|record| match &record.entry {
        Entry::Accepted { fact, .. } => match &**fact {
            Fact::CancelRequested(cancel) => Some(cancel.reason.clone()),
            _ => None,
        },
        _ => None,
    })
}

fn now(state: &RunState, stage: Stage) -> Note {
    let since = state.stage(stage).and_then(|stage| stage.since);
    let since = since.map_or_else(String::new, |at| format!(" since {}", text::moment(at)));
    Note { tone: Tone::Busy, head: format!("now at {stage}{since}"), text: String::new() }
}

/// A cluster that nobody waits for any more costs money until the provider says that it is gone.
fn held(state: &RunState) -> impl Iterator<Item = Note> + '_ {
    let held = state.leases.iter().filter(|(_, lease)| lease.state != LeaseState::Returned);
    held.map(|(attempt, lease)| Note {
        tone: Tone::Unsure,
        head: format!("cluster {} is not confirmed gone", state.cluster_name(*attempt)),
        text: format!("It ends by itself at {}.", text::moment(lease.expires_at)),
    })
}

pub fn tone_of(state: &RunState, line: &StageLine) -> Tone {
    if line.teardown {
        return if line.ended.is_some() { Tone::Good } else { Tone::Busy };
    }
    if line.attempt < state.attempt(line.stage) {
        return Tone::Unsure;
    }
    match state.end(line.stage) {
        Some(End::Succeeded(fact)) => match &**fact {
            Fact::VerdictReached(reached) => reached.verdict.into(),
            Fact::JobDone(end) if end.state != "COMPLETED" => Tone::Bad,
            _ => Tone::Good,
        },
        Some(End::Failed(_) | End::TimedOut) => Tone::Bad,
        None if line.ended.is_some() => Tone::Unsure,
        None => Tone::Busy,
    }
}

/// Stages that the workflow asks for and that never had their turn.
pub fn unreached(state: &RunState, lines: &[StageLine]) -> Vec<Stage> {
    let begun = |stage: &Stage| lines.iter().any(|line| !line.teardown && line.stage == *stage);
    Stage::ALL.into_iter().filter(|stage| state.wants(*stage) && !begun(stage)).collect()
}

/// The image a run was given, where none had to be built.
pub fn given_image(state: &RunState) -> Option<String> {
    state.image().filter(|_| !state.wants(Stage::Image)).map(words::image)
}
