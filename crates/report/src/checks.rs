//! The checks of a run, worst first.

use lifecycle::{AttemptEnd, RunState};
use model::{CheckIndex, Stage, Verdict, count};
use serde::Serialize;

use crate::{ReportedRun, fact_texts, findings::Tone, text};

/// A check of a run, for display.
#[derive(Clone, Debug, Serialize)]
pub struct CheckLine {
    /// Name of the check, sanitized.
    pub name: String,
    /// Severity of the check's state.
    pub tone: Tone,
    pub mark: &'static str,
    /// Verdict or state of the check: `pass`, `skipped`, `no verdict`, ...
    pub word: String,
    /// Most severe reason of the verdict, or the reason of its absence.
    pub why: String,
    /// Whether the report shows the measurements of this check.
    pub is_shown: bool,
}

/// The checks of a run, worst first and then in order of execution; empty for a single benchmark.
pub fn checks(run: &ReportedRun<'_>) -> Vec<CheckLine> {
    let (state, shown) = (run.state, run.shown_check());
    let named = state.summarized_checks().filter(|check| state.workflow.check(*check).is_some());
    let mut lines: Vec<_> = named.map(|check| check_line(state, check, check == shown)).collect();
    lines.sort_by_key(|line| match line.tone {
        Tone::Bad => 0,
        Tone::Unsure => 1,
        Tone::Busy => 2,
        Tone::Good => 3,
        Tone::Excluded => 4,
    });
    let excluded = state.workflow.excluded.iter().map(|(name, reason)| CheckLine {
        name: text::single_line(name),
        tone: Tone::Excluded,
        mark: Tone::Excluded.mark(),
        word: "not run".to_owned(),
        why: text::single_line(reason),
        is_shown: false,
    });
    lines.extend(excluded);
    lines
}

fn check_line(state: &RunState, check: CheckIndex, is_shown: bool) -> CheckLine {
    let (tone, word, mut why) = outcome(state, check);
    if let Some(passed) = state.rounds_passed(check) {
        why = format!("{passed} of {} passed; {why}", count(state.rounds(), "round"));
    }
    // A round is named only if it did not pass.
    let name = match (tone, state.workflow.check(check)) {
        (Tone::Good | Tone::Busy, Some(named)) => text::single_line(&named.name),
        _ => text::single_line(&state.workflow.check_name(check)),
    };
    CheckLine { name, tone, mark: tone.mark(), word, why: text::single_line(&why), is_shown }
}

fn outcome(state: &RunState, check: CheckIndex) -> (Tone, String, String) {
    if let Some(reached) = state.verdict_of(check) {
        let most_severe = reached.reasons.first();
        let why = most_severe.map_or_else(String::new, |reason| format!("{}: {}", reason.code, reason.text));
        return (reached.verdict.into(), reached.verdict.to_string(), why);
    }
    if state.skipped(check) {
        let needs = state.workflow.check(check).map_or_else(String::new, |check| check.needs.join(", "));
        let why = format!("needs a pass of {needs}");
        return (Verdict::Inconclusive.into(), "skipped".to_owned(), why);
    }
    let ends = [Stage::Job, Stage::Logs, Stage::Verdict].map(|stage| (stage, state.end(stage.of(check))));
    let failure = ends.into_iter().find_map(|(stage, end)| match end? {
        AttemptEnd::Failed(failure) => Some(format!("failed at {stage}: {}", fact_texts::failure(failure))),
        AttemptEnd::TimedOut => Some(format!("timed out at {stage}")),
        AttemptEnd::Succeeded(_) => None,
    });
    let current = state.current_step().is_some_and(|step| step.check == check && step.stage.is_of_check());
    match failure {
        _ if current => (Tone::Busy, "running".to_owned(), String::new()),
        Some(failure) => (Tone::Bad, "no verdict".to_owned(), failure),
        None if state.settled.is_some() => {
            let started = state.stage(Stage::Job.of(check)).is_some();
            let why = if started { "the run ended before the check" } else { "the check did not run" };
            (Tone::Unsure, "no verdict".to_owned(), why.to_owned())
        }
        None => (Tone::Busy, "to come".to_owned(), String::new()),
    }
}
