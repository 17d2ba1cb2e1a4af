//! Reports on measurements and their verdict.
//!
//! | format | reader |
//! |---|---|
//! | [`terminal()`] | a terminal |
//! | [`html`] | a browser: one self-contained page |
//! | [`markdown()`] | a pull request or an issue |
//! | [`junit()`] | a CI system |
//! | [`csv()`] | a spreadsheet |
//!
//! [`comparison`] compares two logs.
//!
//! Pure functions from data to text. They use no clock, so a repeated report of the same ledger is identical.
//!
//! Much of a report's content is external: names, messages, log lines. Each form escapes it in a single
//! place.

mod checks;
pub mod comparison;
mod csv;
mod evidence;
mod fact_texts;
mod facts;
mod findings;
mod fingerprint;
mod handover;
mod history;
mod input;
mod junit;
mod markdown;
mod measured;
mod metrics;
mod page;
mod placements;
mod plot;
pub mod reasons;
mod render;
mod round_values;
mod rounds;
pub mod sizes;
mod summary;
mod terminal;
mod text;
mod timeline;
pub mod trend;
mod values;

pub use csv::{cell, csv};
pub use handover::handover;
pub use input::{ReportInput, ReportedLog, ReportedRun, RunLocations};
pub use junit::junit;
pub use markdown::{escaped, markdown};
pub use metrics::{FindingSummary, MetricSummary, Metrics, WorstValue, metrics};
pub use page::{html, part};
pub use placements::{PlacementMeasurement, placements};
pub use render::CSS;
pub use round_values::RoundValues;
pub use summary::{next, sentence, verdict_of};
pub use terminal::{Screen, Style, paragraph, terminal};
pub use text::{count, duration, ending, is_control, neutral, shortened, shortened_line, single_line, size};
pub use timeline::{StageLine, timeline};
pub use values::{MetricValue, NodeFinding, NodeValue, Values, values};
