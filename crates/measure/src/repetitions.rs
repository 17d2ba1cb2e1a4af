//! Repeated measurements of one log.

use std::collections::BTreeMap;

use crate::reading_builder::MetricBuilder;

/// Maximum number of different measurements of a log that are counted.
const COUNTED: usize = 1024;

/// Numbers the measurements that a program repeats with the same settings. Without a number two values would have the same identity,
/// and the verdict could not compare either of them with an earlier run.
#[derive(Default)]
pub(crate) struct Repetitions {
    counts: BTreeMap<String, u32>,
    identity: String,
}

impl Repetitions {
    /// Counts a measurement with these settings, and returns its number; `None` for the first measurement with these
    /// settings.
    pub(crate) fn count<'a>(&mut self, settings: impl IntoIterator<Item = &'a str>) -> Repetition {
        self.identity.clear();
        for setting in settings {
            self.identity.push_str(setting);
            self.identity.push('\0');
        }
        if let Some(count) = self.counts.get_mut(&self.identity) {
            *count = count.saturating_add(1);
            return Repetition(Some(*count));
        }
        if self.counts.len() < COUNTED {
            self.counts.insert(self.identity.clone(), 1);
        }
        Repetition(None)
    }
}

/// Number of a repetition; `None`: the first measurement.
#[derive(Clone, Copy, Default)]
pub(crate) struct Repetition(Option<u32>);

impl Repetition {
    /// Adds the label `repetition`, except to the first measurement.
    pub(crate) fn label(self, metric: MetricBuilder<'_>) -> MetricBuilder<'_> {
        match self.0 {
            Some(number) => metric.number("repetition", number.into()),
            None => metric,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repetition_has_its_own_number() {
        let mut repetitions = Repetitions::default();
        let mut number = |settings: [&str; 2]| repetitions.count(settings).0;
        assert_eq!([number(["a", "b"]), number(["a", "b"]), number(["ab", ""])], [None, Some(2), None]);
        assert_eq!([number(["a", "b"]), number(["ab", ""])], [Some(3), Some(2)]);
    }
}
