//! Errors and warnings of a run.

use crate::budget::{self, Budget, BudgetKind};

/// The messages of one run, with their line numbers, so that the earliest can be determined.
#[derive(Default)]
pub(crate) struct Notes {
    /// The first failure line.
    pub(crate) failure: Option<(u64, String)>,
    /// The first NCCL warning. Successful runs also have warnings.
    pub(crate) warning: Option<(u64, String)>,
    /// The first message that may explain missing output.
    pub(crate) hint: Option<(u64, String)>,
    pub(crate) summary_failed: bool,
    /// Whether no row follows the last warning.
    warned_last: bool,
}

impl Notes {
    pub(crate) fn fail(&mut self, line: u64, text: impl FnOnce() -> String, budget: &mut Budget) {
        keep(&mut self.failure, line, text, budget);
    }

    pub(crate) fn warn(&mut self, line: u64, text: impl FnOnce() -> String, budget: &mut Budget) {
        self.warned_last = true;
        keep(&mut self.warning, line, text, budget);
    }

    pub(crate) fn hint(&mut self, line: u64, text: impl FnOnce() -> String, budget: &mut Budget) {
        keep(&mut self.hint, line, text, budget);
    }

    pub(crate) fn row(&mut self) {
        self.warned_last = false;
    }

    /// Whether a run without a summary failed rather than stopped. A warning followed by rows is not a
    /// failure.
    pub(crate) fn failed(&self) -> bool {
        self.failure.is_some() || self.warned_last
    }

    /// Whether a run with a summary failed.
    pub(crate) fn has_failures(&self) -> bool {
        self.failure.is_some() || self.summary_failed
    }

    /// The earliest failure or warning.
    pub(crate) fn earliest(&self) -> Option<(u64, String)> {
        let notes = [&self.failure, &self.warning];
        notes.into_iter().flatten().min_by_key(|note| note.0).cloned()
    }
}

/// Keeps the first message; if the budget has no room for its text, keeps only its line number.
fn keep(slot: &mut Option<(u64, String)>, line: u64, text: impl FnOnce() -> String, budget: &mut Budget) {
    slot.get_or_insert_with(|| {
        let text = text();
        (line, if budget.take(budget::text(&text), BudgetKind::Runs) { text } else { String::new() })
    });
}
