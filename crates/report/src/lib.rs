//! What was measured and what it comes to, for whoever asks.
//!
//! | form | for |
//! |---|---|
//! | [`terminal()`] | the one who waits |
//! | [`html`] | those who look later: one page that asks nobody for anything |
//! | [`markdown()`] | a pull request or an issue |
//! | [`junit()`] | a CI system |
//! | [`csv()`] | a spreadsheet |
//!
//! Two logs beside each other are told by [`comparison`].
//!
//! Pure: a story in, text out. There is no clock, so a report made twice of the same ledger is the same report.
//!
//! Much of what a report repeats was written by others: names, messages, lines of a log. It reaches each form through
//! one place, where everything that would act instead of being shown is taken out.

pub mod comparison;
mod csv;
mod evidence;
mod facts;
mod findings;
mod fingerprint;
mod history;
mod junit;
mod markdown;
mod measured;
mod page;
mod plot;
pub mod sizes;
mod story;
mod terminal;
mod text;
mod timeline;
mod words;

pub use csv::{cell, csv};
pub use junit::junit;
pub use markdown::{escaped, markdown};
pub use page::{CSS, html, part};
pub use story::{Log, Places, Run, Story};
pub use terminal::{Style, terminal};
pub use text::{acts, count, neutral, shortened, size, took};
pub use timeline::{StageLine, timeline};
