//! Rounds of a soak: the measurement next to the clock, temperature and power of the GPUs.

use lifecycle::{RunState, SoakEnd};
use model::count;
use serde::Serialize;

use crate::{ReportedRun, findings::Tone, round_values::RoundValues, text};

/// The rounds of the shown check as a table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RoundsSection {
    /// Measured quantity with its unit.
    metric: String,
    rows: Vec<RoundRow>,
    /// Number of rounds that the table omits.
    omitted: usize,
    /// Whether a round has hardware evidence.
    has_evidence: bool,
}

#[derive(Clone, Debug, Serialize)]
struct RoundRow {
    number: u16,
    /// Time since the start of the soak.
    after: String,
    tone: Tone,
    mark: &'static str,
    verdict: String,
    median: String,
    worst: String,
    clock: String,
    temperature: String,
    power: String,
}

impl RoundsSection {
    pub(crate) fn of(run: &ReportedRun<'_>) -> Option<Self> {
        let rounds = run.rounds;
        let metric = rounds.iter().find_map(|round| round.metric.as_ref());
        let began = run.state.soak?.began;
        let row = |round: &RoundValues| {
            let tone = Tone::from(round.verdict);
            let number = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
            let value = |of: fn((f64, f64)) -> f64| {
                round.value.map_or_else(String::new, |value| text::figure(of(value)))
            };
            RoundRow {
                number: round.round,
                after: round.ended.map_or_else(String::new, |ended| text::duration(ended.since(began))),
                tone,
                mark: tone.mark(),
                verdict: round.verdict.to_string(),
                median: value(|(median, _)| median),
                worst: value(|(_, worst)| worst),
                clock: number(round.lowest_clock_mhz),
                temperature: number(round.highest_temperature_c),
                power: number(round.highest_power_w),
            }
        };
        (rounds.len() > 1).then(|| Self {
            metric: metric
                .map_or_else(String::new, |(name, unit)| text::single_line(&format!("{name}, {unit}"))),
            rows: rounds.iter().map(row).collect(),
            omitted: usize::from(run.state.rounds()).saturating_sub(rounds.len()),
            has_evidence: rounds.iter().any(|round| round.lowest_clock_mhz.is_some()),
        })
    }
}

/// Duration and end of a soak in one sentence; `None` without a soak or before its first job.
pub(crate) fn progress(state: &RunState) -> Option<String> {
    let (soak, progress) = (state.workflow.soak?, state.soak?);
    let lasted = text::duration(progress.lasted(state.recorded_at));
    let wanted = text::duration(soak.duration);
    let rounds = count(progress.rounds, "round");
    Some(match progress.ended.map(|(_, end)| end) {
        None => format!("{lasted} of {wanted}, round {}", progress.rounds),
        Some(SoakEnd::TimePassed) => format!("{lasted} of {wanted}, {rounds}"),
        Some(SoakEnd::NotPassed) => {
            format!("ended after {lasted} of {wanted}, because round {} did not pass", progress.rounds)
        }
        Some(SoakEnd::Lease) => {
            format!("ended after {rounds}, {lasted} of {wanted}: another round would exceed the lease")
        }
        Some(SoakEnd::Budget) => {
            format!("ended after {rounds}, {lasted} of {wanted}: another round would exceed the budget")
        }
        Some(SoakEnd::MaxChecks) => format!("ended after {lasted} of {wanted}: the maximum of {rounds}"),
    })
}
