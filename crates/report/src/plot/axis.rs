//! Axes: message sizes, runs, and values with a unit.

use std::ops::Range;

use plotters::coord::{
    ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter},
    types::RangedCoordf64,
};

use crate::text;

/// Margin beyond the outermost sizes, in doublings.
const MARGIN: f64 = 0.4;

/// From the smallest to the largest size, bytes: logarithmic, base 2, with labels at round sizes. Zero cannot
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
        // Run 1, and then round numbers.
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

/// Values with as many decimals as the range requires, and a unit.
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
            _ => 3,
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
