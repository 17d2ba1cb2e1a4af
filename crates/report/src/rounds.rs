//! Rounds of a soak: the measurement beside the clock, temperature and power of the GPUs.

use lifecycle::{RunState, SoakEnd};
use model::{
    Timestamp, Verdict, count,
    measurement::Reading,
    metric::{Better, Metric},
};
use serde::Serialize;

use crate::{RunStory, findings::Tone, text};

/// Values of one round of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundValues {
    /// Number of the round, starting at 1.
    pub round: u16,
    /// End of the job.
    pub ended: Option<Timestamp>,
    pub verdict: Verdict,
    /// Name and unit of the measured quantity.
    pub metric: Option<(String, String)>,
    /// Median and worst value of all subjects.
    pub value: Option<(f64, f64)>,
    /// Lowest clock of all GPUs during the job, MHz.
    pub lowest_clock_mhz: Option<u64>,
    /// Highest temperature of all GPUs during the job, degrees Celsius.
    pub highest_temperature_c: Option<u64>,
    /// Highest power of a GPU during the job, W.
    pub highest_power_w: Option<u64>,
}

impl RoundValues {
    /// The values of a round: the first metric of the log, or the bus bandwidth of the largest size.
    #[must_use]
    pub fn of<'a>(
        round: u16,
        ended: Option<Timestamp>,
        verdict: Verdict,
        readings: impl Iterator<Item = &'a Reading> + Clone,
    ) -> Self {
        let metrics = readings.clone().flat_map(|reading| &reading.metrics);
        let is_judged = |metric: &&Metric| matches!(metric.better, Better::Higher | Better::Lower);
        let first = metrics.clone().find(is_judged);
        let of_first = |metric: &&Metric| {
            first.is_some_and(|first| (&first.name, &first.unit) == (&metric.name, &metric.unit))
        };
        let mut values: Vec<f64> = metrics.filter(of_first).filter_map(|metric| metric.value).collect();
        let mut metric = first.map(|first| (first.name.to_string(), first.unit.to_string()));
        let mut lower_is_better = first.is_some_and(|first| first.better == Better::Lower);
        if metric.is_none() {
            let rows = readings.clone().flat_map(|reading| &reading.tables).flat_map(|table| &table.rows);
            if let Some(row) = rows.max_by_key(|row| row.size_bytes) {
                let halves = [row.out_of_place, row.in_place];
                values.extend(halves.into_iter().flatten().map(|half| half.busbw));
                metric =
                    Some((format!("bus bandwidth at {}", text::size(row.size_bytes)), "GB/s".to_owned()));
                lower_is_better = false;
            }
        }
        values.sort_by(f64::total_cmp);
        let worst = if lower_is_better { values.last() } else { values.first() };
        let value = worst.map(|worst| (values[values.len() / 2], *worst));
        let gpus = readings.flat_map(|reading| &reading.evidence).flat_map(|node| &node.gpus);
        let during = gpus.filter_map(|gpu| gpu.during.as_ref());
        Self {
            round,
            ended,
            verdict,
            metric,
            value,
            lowest_clock_mhz: during.clone().map(|samples| samples.lowest_clock_mhz).min(),
            highest_temperature_c: during.clone().map(|samples| samples.highest_temperature_c).max(),
            highest_power_w: during.map(|samples| samples.highest_power_w).max(),
        }
    }
}

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
    pub(crate) fn of(run: &RunStory<'_>) -> Option<Self> {
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
                after: round.ended.map_or_else(String::new, |ended| text::took(ended.since(began))),
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
            metric: metric.map_or_else(String::new, |(name, unit)| text::line(&format!("{name}, {unit}"))),
            rows: rounds.iter().map(row).collect(),
            omitted: usize::from(run.state.rounds()).saturating_sub(rounds.len()),
            has_evidence: rounds.iter().any(|round| round.lowest_clock_mhz.is_some()),
        })
    }
}

/// Duration and end of a soak in one sentence; `None` without a soak or before its first job.
pub(crate) fn progress(state: &RunState) -> Option<String> {
    let (soak, progress) = (state.workflow.soak?, state.soak?);
    let lasted = text::took(progress.lasted(state.recorded_at));
    let wanted = text::took(soak.duration);
    let rounds = count(progress.rounds, "round");
    Some(match progress.ended.map(|(_, end)| end) {
        None => format!("{lasted} of {wanted}, round {}", progress.rounds),
        Some(SoakEnd::TimePassed) => format!("{lasted} of {wanted}, {rounds}"),
        Some(SoakEnd::NotPassed) => {
            format!("ended after {lasted} of {wanted}, because round {} did not pass", progress.rounds)
        }
        Some(SoakEnd::Lease) => {
            format!("ended after {lasted} of {wanted} and {rounds}: another round would exceed the lease")
        }
        Some(SoakEnd::Budget) => {
            format!("ended after {lasted} of {wanted} and {rounds}: another round would exceed the budget")
        }
        Some(SoakEnd::MaxChecks) => format!("ended after {lasted} of {wanted}: the maximum of {rounds}"),
    })
}
