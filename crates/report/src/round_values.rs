//! Values of one round of a check in a soak.

use model::{
    Timestamp, Verdict,
    measurement::Reading,
    metric::{Better, Metric},
};

use crate::text;

#[derive(Clone, Debug, PartialEq)]
pub struct RoundValues {
    /// Number of the round, starting at 1.
    pub round: u16,
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
