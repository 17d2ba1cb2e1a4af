//! Live progress on standard error: one line per stage, and the awaited event.

use std::{collections::BTreeSet, io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use lifecycle::{LeaseState, RunState};
use model::{Record, Stage};
use report::StageLine;

use crate::output::{is_quiet, note_above, status};

pub struct Progress {
    spinner: Option<ProgressBar>,
    said: BTreeSet<String>,
    waiting: String,
}

impl Progress {
    /// A moving line on a terminal, otherwise plain lines.
    pub fn new() -> Self {
        let spinner = (std::io::stderr().is_terminal() && !is_quiet()).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(
                ProgressStyle::with_template("  {spinner} {msg} {elapsed}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        note_above(spinner.clone());
        Self { spinner, said: BTreeSet::new(), waiting: String::new() }
    }

    /// Prints stages that ended, and updates the moving line.
    pub fn show(&mut self, state: &RunState, records: &[Record]) {
        self.show_stages(&report::timeline(records), waiting(state));
    }

    /// The same, from the stages of a run elsewhere.
    pub fn show_stages(&mut self, stages: &[StageLine], waiting: String) {
        for line in stages.iter().filter(|line| line.ended.is_some()) {
            let text = ended(line);
            if self.said.insert(text.clone()) {
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

    /// Removes the moving line.
    pub fn finish(self) {
        note_above(None);
        if let Some(bar) = self.spinner {
            bar.finish_and_clear();
        }
    }
}

fn ended(line: &StageLine) -> String {
    let took = line.ended.map_or(Duration::ZERO, |ended| ended.since(line.began).0);
    format!("  {:<8} {:>6.1}s  {}", line.name(), took.as_secs_f64(), line.checked_outcome())
}

fn waiting(state: &RunState) -> String {
    let returning = state
        .leases
        .iter()
        .any(|(attempt, lease)| lease.state != LeaseState::Returned && !state.needs_lease(*attempt));
    let Some(step) = state.frontier() else {
        return if returning {
            "teardown: waits for the deletion of the cluster".to_owned()
        } else {
            String::new()
        };
    };
    let begun = state.stage(step).is_some_and(|stage| stage.handle.is_some());
    let for_what = match (step.stage, begun) {
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
        (Stage::Locate, _) => "the tests of node pairs",
    };
    let attempt = state.attempt(step).number;
    let again = if attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
    let check = state.workflow.check(step.check).filter(|_| step.stage.is_of_check());
    let check = check.map_or_else(String::new, |check| format!(" of {}", check.name));
    format!("{}{check}{again}: waits for {for_what}", step.stage)
}
