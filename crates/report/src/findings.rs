//! Summary of a run: headline, reasons and notes, identical in all forms.

use lifecycle::{AttemptEnd, LeaseState, RunState};
use model::{
    Conclusion, Drained, Fact, Reason, RecordEntry, RetestedNode, Returned, Stage, Step, SuspectNode,
    Suspects, Verdict,
};
use serde::Serialize;

use crate::{ReportInput, ReportedRun, StageLine, fact_texts, text};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    Good,
    Bad,
    Unsure,
    Busy,
    /// Excluded by the workflow: neither good nor bad.
    Excluded,
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

/// Result in one word.
pub struct Headline {
    pub word: &'static str,
    pub tone: Tone,
}

/// A note in addition to the verdict.
#[derive(Serialize)]
pub struct ReportNote {
    pub tone: Tone,
    pub head: String,
    /// Explanation or next step; may be empty.
    pub text: String,
}

/// The reasons of the verdict, most severe first.
pub fn reasons<'a>(input: &ReportInput<'a>) -> &'a [Reason] {
    match (input.reported_judgement(), input.run.and_then(ReportedRun::recorded_verdict)) {
        (Some(judgement), _) => &judgement.reasons,
        (None, Some(reached)) => &reached.reasons,
        (None, None) => &[],
    }
}

/// The reasons, with all dips below one standard merged into one reason, because a slow plateau shows at many sizes.
pub fn merged(reasons: &[Reason]) -> Vec<Reason> {
    let mut merged: Vec<Reason> = Vec::new();
    // The position of each merged reason, and its dips.
    let mut dips: Vec<(usize, Vec<Dip<'_>>)> = Vec::new();
    for reason in reasons {
        let dip = Dip::of(reason);
        let known = dip.as_ref().and_then(|dip| dips.iter_mut().find(|(_, same)| same[0].same(dip)));
        match (dip, known) {
            (Some(dip), Some((_, same))) => same.push(dip),
            (dip, _) => {
                dips.extend(dip.map(|dip| (merged.len(), vec![dip])));
                merged.push(reason.clone());
            }
        }
    }
    for (at, same) in dips {
        if let [Dip { log, size: first, standard, .. }, .., Dip { size: last, .. }] = same[..] {
            let percent = || same.iter().map(|dip| dip.percent);
            let distance = match standard {
                DipStandard::Reference => {
                    format!("are at least {} % below the reference's points", percent().min().unwrap_or(0))
                }
                DipStandard::Baseline => format!(
                    "take much longer than the baseline, out of place up to {} %",
                    percent().max().unwrap_or(0)
                ),
            };
            merged[at].text =
                format!("{log}at {} sizes from {first} to {last} both placements {distance}", same.len());
        }
    }
    merged
}

/// Curve with which a dip is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DipStandard {
    Reference,
    Baseline,
}

/// Text of a reason `DIP`: `at 16 MiB both placements are at least 21 % below ...`, after the name of the log if there are several.
#[derive(Clone, Copy)]
struct Dip<'a> {
    log: &'a str,
    size: &'a str,
    standard: DipStandard,
    percent: u64,
}

impl<'a> Dip<'a> {
    fn of(reason: &'a Reason) -> Option<Self> {
        let (before, after) = reason.text.split_once(" both placements ").filter(|_| reason.code == "DIP")?;
        let at = before.rfind("at ")?;
        let standard =
            if after.contains("the reference") { DipStandard::Reference } else { DipStandard::Baseline };
        let percent = after.split(" %").next()?.rsplit(' ').next()?.parse().ok()?;
        Some(Self { log: &before[..at], size: &before[at + 3..], standard, percent })
    }

    fn same(&self, other: &Self) -> bool {
        self.log == other.log && self.standard == other.standard
    }
}

/// Result of the run or the logs in one word.
pub fn headline(input: &ReportInput<'_>) -> Headline {
    let settled = input.run.and_then(|run| run.state.settled.as_ref()).map(|(how, _)| how);
    let (word, tone) = match (input.verdict(), settled) {
        (Some(Verdict::Pass), _) => ("PASS", Tone::Good),
        (Some(Verdict::Fail), _) => ("FAIL", Tone::Bad),
        (Some(Verdict::Inconclusive), _) => ("INCONCLUSIVE", Tone::Unsure),
        // The workflow has no benchmark to judge.
        (None, Some(Conclusion::Completed)) => ("DONE", Tone::Good),
        (None, Some(Conclusion::Failed { .. })) => ("NO VERDICT", Tone::Bad),
        (None, Some(Conclusion::TimedOut { .. })) => ("NO VERDICT", Tone::Bad),
        (None, Some(Conclusion::Cancelled { .. })) => ("CANCELLED", Tone::Unsure),
        (None, Some(Conclusion::Yielded { .. })) => ("YIELDED", Tone::Unsure),
        (None, None) if input.run.is_some() => ("RUNNING", Tone::Busy),
        (None, None) => ("NO VERDICT", Tone::Unsure),
    };
    Headline { word, tone }
}

/// The end of an incomplete run, suspected nodes, unreleased clusters, and contradictory facts.
pub fn notes(input: &ReportInput<'_>) -> Vec<ReportNote> {
    let Some(run) = input.run else { return Vec::new() };
    let state = run.state;
    let mut notes: Vec<_> = state.settled.iter().filter_map(|(how, _)| conclusion_note(&run, how)).collect();
    notes.extend(state.retested().iter().map(retested));
    if let Some(suspects) = state.suspects() {
        notes.extend(suspect_notes(suspects));
    }
    notes.extend(not_located(state));
    if state.settled.is_none() {
        notes.extend(state.current_step().map(|step| current_step_note(state, step)));
    }
    if state.settled.is_some() {
        notes.extend(held_clusters(state));
    }
    // The end of a job that is cancelled because of its timeout is expected.
    let is_unexpected = |end: &Option<AttemptEnd>| !matches!(end, Some(AttemptEnd::TimedOut));
    for (step, _) in state.stages.iter().filter(|(_, stage)| stage.contested && is_unexpected(&stage.end)) {
        let step = fact_texts::step(&state.workflow, *step);
        let head = format!("two different endings were reported for {step}");
        notes.push(ReportNote {
            tone: Tone::Unsure,
            head,
            text: "The first reported ending is final.".to_owned(),
        });
    }
    notes
}

fn conclusion_note(run: &ReportedRun<'_>, how: &Conclusion) -> Option<ReportNote> {
    let (tone, head, text) = match how {
        Conclusion::Completed => return None,
        Conclusion::Failed { stage, check, failure } => {
            let step = fact_texts::step(&run.state.workflow, stage.of(*check));
            (Tone::Bad, format!("failed at {step}: {}", failure.code), failure.message.clone())
        }
        Conclusion::TimedOut { stage, check } => {
            let step = stage.of(*check);
            let limit = run.state.limit(step);
            let handle = run.state.stage(step).and_then(|stage| stage.handle.as_deref());
            let advice = handle.map_or_else(
                || "No fact was received: check that the worker of the stage is running.".to_owned(),
                |handle| {
                    format!(
                        "Look up `{handle}` in the system that runs it; the worker of the stage may be down."
                    )
                },
            );
            (
                Tone::Bad,
                format!(
                    "timed out at {}: no response within its limit of {limit}",
                    fact_texts::step(&run.state.workflow, step)
                ),
                advice,
            )
        }
        Conclusion::Cancelled { by } => {
            (Tone::Unsure, format!("cancelled by {by}"), cancel_reason(run).unwrap_or_default())
        }
        Conclusion::Yielded { stage, check, failure } => {
            let step = fact_texts::step(&run.state.workflow, stage.of(*check));
            (Tone::Unsure, format!("yielded to other jobs at {step}"), failure.message.clone())
        }
    };
    Some(ReportNote { tone, head, text })
}

/// Suspected nodes and links, and undecided parts.
fn suspect_notes(suspects: &Suspects) -> impl Iterator<Item = ReportNote> + '_ {
    let node = |SuspectNode { node, confidence, drained }: &SuspectNode| ReportNote {
        tone: Tone::Bad,
        head: format!("bad node: {node}, confidence {:.0} %", (100.0 * confidence).floor()),
        text: match drained {
            Drained::Proposed { command, why: None } => format!("Drain it with: {command}"),
            Drained::Proposed { command, why: Some(why) } => {
                format!("Not drained: {why}. Drain it with: {command}")
            }
            Drained::Applied { reason } => format!("Drained: {reason}"),
            Drained::Left { why } => format!("Not drained: {why}"),
        },
    };
    let link = |[a, b]: &[String; 2]| ReportNote {
        tone: Tone::Bad,
        head: format!("bad link: {a} with {b}"),
        text: "Both nodes pass with other nodes.".to_owned(),
    };
    let open = suspects.undecided.as_ref().map(|why| ReportNote {
        tone: Tone::Unsure,
        head: format!("search for bad nodes undecided after {}", text::count(suspects.tests, "pair")),
        text: why.clone(),
    });
    suspects.nodes.iter().map(node).chain(suspects.links.iter().map(link)).chain(open)
}

/// A node that passed its re-test.
fn retested(RetestedNode { node, returned }: &RetestedNode) -> ReportNote {
    let (tone, head, text) = match returned {
        Returned::Applied => (Tone::Good, "returned to service", String::new()),
        Returned::Proposed { command } => {
            (Tone::Good, "passed its re-test", format!("Return it to service: {command}"))
        }
        Returned::Left { why } => (Tone::Unsure, "passed its re-test", format!("Not returned: {why}")),
    };
    ReportNote { tone, head: format!("{node} {head}"), text }
}

/// A failed search for bad nodes: a note in addition to the verdict, which does not depend on the search.
fn not_located(state: &RunState) -> Option<ReportNote> {
    let text = state.checks().find_map(|check| match state.end(Stage::Locate.of(check))? {
        AttemptEnd::Succeeded(_) => None,
        AttemptEnd::Failed(failure) => Some(fact_texts::failure(failure)),
        AttemptEnd::TimedOut => {
            Some(format!("no response within its limit of {}", state.limit(Stage::Locate)))
        }
    })?;
    let head = match state.workflow.retest {
        Some(_) => "the re-tested nodes were not returned to service",
        None => "the search for bad nodes failed",
    };
    Some(ReportNote { tone: Tone::Unsure, head: head.to_owned(), text })
}

fn cancel_reason(run: &ReportedRun<'_>) -> Option<String> {
    run.records.iter().find_map(|record| match &record.entry {
        RecordEntry::Accepted { fact, .. } => match &**fact {
            Fact::CancelRequested(cancel) => Some(cancel.reason.clone()),
            _ => None,
        },
        _ => None,
    })
}

fn current_step_note(state: &RunState, step: Step) -> ReportNote {
    let since = state.stage(step).and_then(|stage| stage.since);
    let since = since.map_or_else(String::new, |at| format!(" since {}", text::utc(at)));
    ReportNote {
        tone: Tone::Busy,
        head: format!("now at {}{since}", fact_texts::step(&state.workflow, step)),
        text: String::new(),
    }
}

/// An unneeded cluster costs money until the provider confirms its deletion.
fn held_clusters(state: &RunState) -> impl Iterator<Item = ReportNote> + '_ {
    let held = state.leases.iter().filter(|(_, lease)| lease.state != LeaseState::Returned);
    held.map(|(attempt, lease)| ReportNote {
        tone: Tone::Unsure,
        head: format!("cluster {} is not confirmed deleted", state.cluster_name(*attempt)),
        text: format!("It expires at {}.", text::utc(lease.expires_at)),
    })
}

pub fn tone_of(state: &RunState, line: &StageLine) -> Tone {
    if line.teardown {
        return if line.ended.is_some() { Tone::Good } else { Tone::Busy };
    }
    if line.attempt < state.attempt(line.step()) {
        return Tone::Unsure;
    }
    match state.end(line.step()) {
        Some(AttemptEnd::Succeeded(fact)) => match &**fact {
            Fact::VerdictReached(reached) => reached.verdict.into(),
            Fact::JobDone(end) if end.state != "COMPLETED" => Tone::Bad,
            _ => Tone::Good,
        },
        Some(AttemptEnd::Failed(_) | AttemptEnd::TimedOut) => Tone::Bad,
        None if line.ended.is_some() => Tone::Unsure,
        None => Tone::Busy,
    }
}

/// Required stages that never started.
pub fn unreached(state: &RunState, lines: &[StageLine]) -> Vec<String> {
    let started = |step: &Step| lines.iter().any(|line| !line.teardown && line.step() == *step);
    let unreached = state.steps().filter(|step| state.requires(*step) && !started(step));
    unreached.map(|step| fact_texts::step(&state.workflow, step)).collect()
}

/// The prebuilt image of a run, if it has one.
pub fn prebuilt_image(state: &RunState) -> Option<String> {
    state.image().filter(|_| !state.requires(Stage::Image)).map(fact_texts::image)
}
