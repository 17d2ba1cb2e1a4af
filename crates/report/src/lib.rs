//! A run, told to people: [`terminal()`] for the one who waits, [`html`] for those who look later.
//!
//! Pure: a story in, text out. There is no clock, so a report made twice of the same ledger is the same report.
//!
//! Much of what a report repeats was written by others: names, messages, lines of a log. It reaches a terminal and a
//! browser through one place each, where everything that would act instead of being shown is taken out.

mod facts;
mod findings;
mod measured;
mod page;
mod plot;
mod terminal;
mod text;
mod timeline;
mod words;

use machine::RunState;
use terms::{Record, measurement::Reading};
use verdict::Judgement;

pub use page::html;
pub use terminal::{Style, terminal};
pub use text::size;
pub use timeline::{StageLine, timeline};

/// Where everything of a run lies, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The ledger.
    pub ledger: String,
    /// The files that the stages committed.
    pub artefacts: String,
    /// The benchmark's output, once it is safe.
    pub logs: Option<String>,
    /// The warehouse with the measurements.
    pub warehouse: String,
    /// The HTML page, where one is written.
    pub report: Option<String>,
}

/// A run as its report tells it.
#[derive(Clone, Copy, Debug)]
pub struct Story<'a> {
    /// What is known of the run.
    pub state: &'a RunState,
    /// Its whole ledger, in order.
    pub records: &'a [Record],
    /// What the logs say, once they were read.
    pub reading: Option<&'a Reading>,
    /// The verdict with all its reasons, once it was fetched.
    pub judgement: Option<&'a Judgement>,
    /// Where everything lies.
    pub places: &'a Places,
}
