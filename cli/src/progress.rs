//! Live progress on standard error: one line per stage, and the awaited event.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use lifecycle::{LeaseState, RunState};
use model::{Conclusion, Record, Span, Stage};
use report::StageLine;
use run_index::RunSummary;

use crate::output::{self, is_quiet, note_above, status};

pub struct Progress {
    spinner: Option<ProgressBar>,
    shown: BTreeSet<String>,
    waiting: String,
}

impl Progress {
    /// Shows a progress line on a terminal, plain lines elsewhere. `expected`: usual duration of the whole run,
    /// if known.
    pub fn new(expected: Option<Duration>) -> Self {
        let spinner = is_moving().then(|| {
            let bar = ProgressBar::new_spinner();
            let start = Instant::now();
            let left = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
                _ = out.write_str(
                    &expected.map_or_else(String::new, |expected| remaining_time(expected, start.elapsed())),
                );
            };
            let style = ProgressStyle::with_template("  {spinner} {wide_msg} {elapsed}{left}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            bar.set_style(style.with_key("left", left));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        note_above(spinner.clone());
        Self { spinner, shown: BTreeSet::new(), waiting: String::new() }
    }

    /// Prints the ended stages, and updates the progress line.
    pub fn show(&mut self, state: &RunState, records: &[Record]) {
        self.show_stages(&report::timeline(records), waiting(state));
    }

    /// Prints the ended stages, and updates the progress line. For runs on a server, which returns stages instead
    /// of records.
    pub fn show_stages(&mut self, stages: &[StageLine], waiting: String) {
        for line in stages.iter().filter(|line| line.ended.is_some()) {
            let text = ended(line);
            if self.shown.insert(text.clone()) {
                status(text);
            }
        }
        if waiting == self.waiting {
            return;
        }
        match &self.spinner {
            Some(bar) => {
                bar.set_message(waiting.clone());
                bar.reset_elapsed();
            }
            None if !waiting.is_empty() => status(format_args!("  ... {waiting}")),
            None => {}
        }
        self.waiting = waiting;
    }

    /// Removes the progress line.
    pub fn finish(self) {
        note_above(None);
        if let Some(bar) = self.spinner {
            bar.finish_and_clear();
        }
    }
}

/// Whether progress is shown in one line that is updated, which requires a terminal.
pub fn is_moving() -> bool {
    std::io::stderr().is_terminal() && !is_quiet()
}

/// Text of the remaining time, computed from the usual duration, such as `, about 2m 10s left`.
fn remaining_time(expected: Duration, elapsed: Duration) -> String {
    let mut text = String::new();
    match expected.checked_sub(elapsed) {
        Some(left) => {
            let left = Duration::from_secs(left.as_secs() + 1);
            _ = write!(text, ", about {} left", report::duration(Span(left)).replace(".0s", "s"));
        }
        None => _ = write!(text, ", usually {}", report::duration(Span(expected))),
    }
    text
}

/// Usual duration of a run of a workflow: the median of its last completed runs, newest first.
pub fn usual_duration<'a>(runs: impl Iterator<Item = &'a RunSummary>, workflow: &str) -> Option<Duration> {
    /// Maximum number of runs.
    const LAST: usize = 9;
    let completed =
        runs.filter(|run| run.workflow == workflow && run.conclusion == Conclusion::Completed.as_str());
    let spans = completed.filter_map(|run| Some(run.settled_at?.since(run.requested_at).0));
    let mut spans: Vec<_> = spans.take(LAST).collect();
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied()
}

fn ended(line: &StageLine) -> String {
    let took = line.ended.map_or(Duration::ZERO, |ended| ended.since(line.began).0);
    let line = format!("  {:<8} {:>6.1}s  {}", line.name(), took.as_secs_f64(), line.checked_outcome());
    // A line printed above the progress line must fit the width: wrapped lines are counted wrongly.
    match output::stderr_width() {
        Some(width) => report::shortened_line(&line, width),
        None => line,
    }
}

fn waiting(state: &RunState) -> String {
    let returning = state
        .leases
        .iter()
        .any(|(attempt, lease)| lease.state != LeaseState::Returned && !state.needs_lease(*attempt));
    let Some(step) = state.current_step() else {
        return if returning {
            "teardown: waits for the deletion of the cluster".to_owned()
        } else {
            String::new()
        };
    };
    let started = state.stage(step).is_some_and(|stage| stage.handle.is_some());
    let for_what = match (step.stage, started) {
        (Stage::Image, false) => "the build to be accepted",
        (Stage::Image, true) => "the build to end",
        (Stage::Cluster, false) if returning => "the deletion of the previous cluster",
        (Stage::Cluster, false) => "the cluster to be accepted",
        (Stage::Cluster, true) => "every node to be ready",
        (Stage::Job, false) => "the scheduler to accept the job",
        (Stage::Job, true) => "the benchmark to end",
        (Stage::Logs, _) => "the upload of the logs",
        (Stage::Results, _) => "the load into the warehouse",
        (Stage::Verdict, _) => "the judge",
        (Stage::Locate, _) if state.workflow.retest.is_some() => "the return of the nodes",
        (Stage::Locate, _) => "the tests of node pairs",
    };
    let attempt = state.attempt(step).number;
    let again = if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
    let check = state.workflow.check(step.check).filter(|_| step.stage.is_of_check());
    let check = check.map_or_else(String::new, |_| format!(" of {}", state.workflow.check_name(step.check)));
    format!("{}{check}{again}: waits for {for_what}", step.stage)
}
