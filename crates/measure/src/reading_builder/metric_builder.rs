//! A metric in progress.

use std::fmt::Display;

use model::metric::{Better, Metric, Scope, Subject};

use crate::{
    number::{PrintedNumber, number},
    text::trim,
};

use super::{MAX_BYTES, METRIC, OVERHEAD, ReadingBuilder, SharedLabels, beginning};

/// A metric in progress. It must be completed with a value or a reason.
///
/// Beyond the memory limit a metric is counted, but not kept.
#[must_use]
pub(crate) struct MetricBuilder<'a> {
    pub(super) out: &'a mut ReadingBuilder,
    /// Whether the metric was added to the reading, as its last metric; otherwise it is only counted.
    pub(super) kept: bool,
    pub(super) whole: bool,
}

impl MetricBuilder<'_> {
    /// Changes the metric, if it is kept.
    #[inline]
    fn set(self, set: impl FnOnce(&mut Metric)) -> Self {
        if self.kept
            && let Some(metric) = self.out.reading.metrics.last_mut()
        {
            set(metric);
        }
        self
    }

    pub(crate) fn unit(self, unit: &str) -> Self {
        if !self.kept {
            return self;
        }
        let unit = self.out.name(unit);
        self.set(|metric| metric.unit = unit)
    }

    #[inline]
    pub(crate) fn better(self, better: Better) -> Self {
        self.set(|metric| metric.better = better)
    }

    #[inline]
    pub(crate) fn scope(self, scope: Scope) -> Self {
        self.set(|metric| metric.scope = scope)
    }

    #[inline]
    pub(crate) fn subject(self, set: impl FnOnce(&mut Subject)) -> Self {
        self.set(|metric| set(&mut metric.subject))
    }

    /// The value describes the whole job; any of its processes may print it.
    #[inline]
    pub(crate) fn of_whole_job(self) -> Self {
        Self { whole: true, ..self }
    }

    #[inline]
    pub(crate) fn gpu(self, gpu: u32) -> Self {
        self.subject(|subject| subject.gpu = Some(gpu))
    }

    #[inline]
    pub(crate) fn label(self, name: &str, value: &str) -> Self {
        if self.kept {
            self.out.label(name, value);
        }
        self
    }

    /// Adds a label whose value is a number; at most one for each metric.
    #[inline]
    pub(crate) fn number(self, name: &'static str, number: u64) -> Self {
        if self.kept {
            self.out.number = Some((name, number));
        }
        self
    }

    /// Adds the metric with a value.
    #[inline]
    pub(crate) fn value(self, number: PrintedNumber, line: u64) {
        let PrintedNumber { value, resolution } = number;
        self.set(|metric| (metric.value, metric.resolution) = (Some(value), resolution)).finish(line);
    }

    /// Adds the metric without a value, with the program's reason.
    pub(crate) fn unmeasurable(self, reason: impl Display, line: u64) {
        self.set(|metric| metric.unmeasurable = Some(beginning(reason.to_string().trim()).into()))
            .finish(line);
    }

    /// Adds the metric with the number in the text; a text such as `N/A` is the reason for a missing value.
    #[inline]
    pub(crate) fn read(self, text: &str, line: u64) {
        if !self.kept {
            self.out.left_out += 1;
        } else {
            self.read_kept(text, line);
        }
    }

    fn read_kept(self, text: &str, line: u64) {
        let text = trim(text);
        match number(text) {
            Some(number) => self.value(number, line),
            None => self.unmeasurable(if text.is_empty() { "no value" } else { text }, line),
        }
    }

    /// Adds subject and labels, and removes the metric again if it exceeds the memory limit.
    fn finish(self, line: u64) {
        let MetricBuilder { out, kept, whole } = self;
        if !kept {
            out.left_out += 1;
            return;
        }
        let SharedLabels { labels, bytes } = out.take_labels();
        let Some(metric) = out.reading.metrics.last_mut() else { return };
        let reason = metric.unmeasurable.as_ref().map_or(0, |reason| reason.len() + OVERHEAD);
        let used = out.used + METRIC + bytes + reason;
        if used > MAX_BYTES {
            out.full = true;
            out.left_out += 1;
            out.reading.metrics.pop();
            return;
        }
        out.used = used;
        if !whole {
            complete(&mut metric.subject, &out.origin);
        }
        metric.labels = labels;
        metric.line = line;
        out.is_unsorted |= line < out.last_line;
        out.last_line = line;
    }
}

/// Adds node and rank of the process to a subject without them.
pub(super) fn complete(subject: &mut Subject, origin: &Subject) {
    if subject.node.is_none() && origin.node.is_some() {
        subject.node.clone_from(&origin.node);
    }
    subject.rank = subject.rank.or(origin.rank);
}
