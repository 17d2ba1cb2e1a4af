//! Axes: message sizes, runs, and values with a unit.

use std::ops::Range;

use model::Timestamp;
use plotters::coord::{
    ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter},
    types::RangedCoordf64,
};

use crate::text;

/// Margin beyond the outermost sizes, in doublings.
const MARGIN: f64 = 0.4;

/// An axis from the smallest to the largest size, bytes: logarithmic, base 2, with labels at round sizes. Zero cannot
/// be shown.
pub struct Sizes {
    pub smallest: u64,
    pub largest: u64,
}

impl Ranged for Sizes {
    type FormatOption = NoDefaultFormatting;
    type ValueType = u64;

    fn map(&self, size: &u64, (from, to): (i32, i32)) -> i32 {
        let log = |size: u64| (size.max(1) as f64).log2();
        let (low, high) = (log(self.smallest) - MARGIN, log(self.largest) + MARGIN);
        from + (f64::from(to - from) * (log(*size) - low) / (high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<u64> {
        let exponents = self.smallest.ilog2()..=self.largest.ilog2();
        let round = |step: u32| exponents.clone().filter(move |exponent| exponent % step == 0);
        // Steps that keep labels at 1 KiB, 1 MiB and 1 GiB.
        let step = [1, 2, 5, 10]
            .into_iter()
            .find(|step| round(*step).count() <= hint.max_num_points())
            .unwrap_or(20);
        round(step).map(|exponent| 1 << exponent).filter(|size| *size >= self.smallest).collect()
    }

    fn range(&self) -> Range<u64> {
        self.smallest..self.largest
    }
}

impl ValueFormatter<u64> for Sizes {
    fn format_ext(&self, size: &u64) -> String {
        text::size(*size)
    }
}

/// Runs by number, displayed from 1.
pub struct Runs {
    pub count: usize,
}

impl Ranged for Runs {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, run: &f64, (from, to): (i32, i32)) -> i32 {
        from + (f64::from(to - from) * (run + 0.5) / self.count as f64).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let fits = |step: &usize| self.count / step < hint.max_num_points();
        let step = [1, 2, 5, 10, 20, 50].into_iter().find(fits).unwrap_or(100);
        // Label run 1, and then round numbers.
        let round = (1..=self.count).filter(|run| *run == 1 || run % step == 0);
        round.map(|run| run as f64 - 1.0).collect()
    }

    fn range(&self) -> Range<f64> {
        -0.5..self.count as f64 - 0.5
    }
}

impl ValueFormatter<f64> for Runs {
    fn format_ext(&self, run: &f64) -> String {
        format!("{:.0}", run + 1.0)
    }
}

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Steps between labels, milliseconds.
const STEPS: [i64; 16] = [
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    5 * DAY,
    7 * DAY,
    14 * DAY,
    30 * DAY,
    60 * DAY,
    120 * DAY,
    360 * DAY,
];

/// Times in milliseconds, UTC, with labels at round steps.
pub struct Dates {
    first: i64,
    last: i64,
}

impl Dates {
    /// An axis from the first to the last time, with a margin, so that no point is at its end.
    pub fn between(first: i64, last: i64) -> Self {
        let room = ((last - first) / 50).max(MINUTE);
        Self { first: first - room, last: last + room }
    }

    fn step(&self, most: usize) -> i64 {
        let fits = |step: &i64| ((self.last - self.first) / step) as usize <= most;
        STEPS.into_iter().find(fits).unwrap_or((self.last - self.first) / most.max(1) as i64 + 1)
    }
}

impl Ranged for Dates {
    type FormatOption = NoDefaultFormatting;
    type ValueType = i64;

    fn map(&self, at: &i64, (from, to): (i32, i32)) -> i32 {
        let part = (at - self.first) as f64 / (self.last - self.first) as f64;
        from + (f64::from(to - from) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<i64> {
        let step = self.step(hint.max_num_points());
        let first = self.first.div_euclid(step) + 1;
        (first..).map(|index| index * step).take_while(|at| *at <= self.last).collect()
    }

    fn range(&self) -> Range<i64> {
        self.first..self.last
    }
}

impl ValueFormatter<i64> for Dates {
    fn format_ext(&self, at: &i64) -> String {
        let text = Timestamp::from_millis(*at).to_string();
        let part = |range: Range<usize>| text.get(range).unwrap_or_default().to_owned();
        match self.last - self.first {
            span if span < 2 * DAY => part(11..16),
            // The label omits the year, because the range states it.
            span if span < 300 * DAY => part(5..10),
            _ => part(0..7),
        }
    }
}

/// Values with a unit; the range determines the number of decimals.
pub struct AxisFigures {
    range: RangedCoordf64,
    decimals: usize,
    unit: &'static str,
}

impl AxisFigures {
    pub fn new(least: f64, most: f64, unit: &'static str) -> Self {
        let decimals = match most - least {
            wide if wide >= 10.0 => 0,
            some if some >= 1.0 => 1,
            little if little >= 0.05 || little <= 0.0 => 3,
            least => (-least.log10()).ceil().min(9.0) as usize + 1,
        };
        Self { range: (least..most).into(), decimals, unit }
    }
}

impl Ranged for AxisFigures {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.range.key_points(hint)
    }

    fn range(&self) -> Range<f64> {
        self.range.range()
    }
}

impl ValueFormatter<f64> for AxisFigures {
    fn format_ext(&self, value: &f64) -> String {
        let value = if value.abs() < 1e-9 { 0.0 } else { *value };
        format!("{value:.*}{}", self.decimals, self.unit)
    }
}
