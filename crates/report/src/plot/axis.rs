//! The axis of message sizes: logarithmic, base 2, labelled at round sizes.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::text;

/// Room left and right of the outermost sizes, in doublings.
const MARGIN: f64 = 0.4;

/// From the smallest to the largest size, bytes.
pub struct Sizes {
    smallest: u64,
    largest: u64,
}

impl Sizes {
    /// None where there is nothing to show. A size of zero has no place on a logarithmic axis.
    pub fn of(sizes: impl Iterator<Item = u64> + Clone) -> Option<Self> {
        let sizes = sizes.filter(|size| *size > 0);
        Some(Self { smallest: sizes.clone().min()?, largest: sizes.max()? })
    }
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
        // Steps under which 1 KiB, 1 MiB and 1 GiB keep their labels.
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
