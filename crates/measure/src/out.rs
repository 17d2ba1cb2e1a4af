//! Collects metrics, findings and GPUs within a memory limit.

use std::{collections::BTreeSet, sync::Arc};

use model::{
    measurement::{LogEnd, Reading},
    metric::{Better, Finding, Gpu, Metric, Scope, Severity, Subject},
};

use crate::{known::Known, number::Number};

/// Maximum memory of the collected data, bytes. A vector exists twice while it grows.
const MOST: usize = 13 << 20;
/// Maximum memory of findings and GPUs, which metrics never displace, bytes.
const REPORTS: usize = 1 << 20;
/// Maximum length of a finding's text, characters.
const TEXT: usize = 400;
/// Maximum length of a name, label or other short text, bytes.
const SHORT: usize = 200;
/// Memory of the first node of a map with labels, bytes.
const LABELS: usize = 640;
/// Allocator overhead of one allocation, bytes.
const OVERHEAD: usize = 32;

/// The reading in progress.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) reading: Reading,
    /// Node and rank of the process whose line is read; they complete each subject.
    pub(crate) origin: Subject,
    /// Bytes of open JSON documents, of all processes.
    pub(crate) documents: usize,
    used: usize,
    reports: usize,
    /// A metric was omitted, and so are all after it.
    full: bool,
    left_out: usize,
    names: BTreeSet<Arc<str>>,
    /// Names of the registry that were used, by address and length.
    fixed: Vec<(usize, usize, Arc<str>)>,
}

impl Out {
    /// Starts a metric of the registry.
    pub(crate) fn put<'a>(&'a mut self, known: &Known) -> Put<'a> {
        // After the first omitted value, none is kept.
        let full = self.full;
        let metric = Metric {
            name: self.fixed(known.name),
            unit: self.fixed(known.unit),
            better: known.better,
            scope: known.scope,
            subject: Subject::default(),
            labels: Default::default(),
            value: None,
            resolution: None,
            unmeasurable: None,
            line: 0,
        };
        Put { out: self, metric, whole: false, full }
    }

    /// Starts a metric that is not in the registry.
    pub(crate) fn custom<'a>(&'a mut self, name: &str, unit: &str, better: Better, scope: Scope) -> Put<'a> {
        const OTHER: Known = Known::new("other", "1", Better::None, Scope::World, "Replaced below");
        self.put(&OTHER).name(name).unit(unit).better(better).scope(scope)
    }

    /// Adds a finding.
    pub(crate) fn finding(
        &mut self,
        code: &str,
        subject: Subject,
        severity: Severity,
        text: &str,
        line: u64,
    ) {
        let text: String = text.trim().chars().take(TEXT).collect();
        let subject = self.complete(subject);
        if self.report(size_of::<Finding>() * 2 + text.len() + code.len() + 2 * OVERHEAD) {
            let code = code.to_owned();
            self.reading.findings.push(Finding { code, subject, severity, text, line });
        }
    }

    /// Adds a GPU.
    pub(crate) fn gpu(&mut self, subject: Subject, name: Option<&str>) {
        let subject = self.complete(subject);
        let name = name.map(|name| short(name.trim()).to_owned());
        if self.report(size_of::<Gpu>() * 2 + name.as_ref().map_or(0, String::len) + 4 * OVERHEAD) {
            self.reading.gpus.push(Gpu { subject, name });
        }
    }

    /// Records the first error of the program.
    pub(crate) fn error(&mut self, text: &str) {
        let text = text.trim();
        if self.reading.first_error.is_none() && !text.is_empty() {
            self.reading.first_error = Some(text.chars().take(TEXT).collect());
        }
    }

    /// Records the version of the program.
    pub(crate) fn version(&mut self, version: &str) {
        if self.reading.version.is_none() && !version.trim().is_empty() {
            self.reading.version = Some(short(version.trim()).to_owned());
        }
    }

    /// A shared copy of a short text.
    pub(crate) fn name(&mut self, text: &str) -> Arc<str> {
        let text = short(text);
        if let Some(name) = self.names.get(text) {
            return name.clone();
        }
        let name: Arc<str> = text.into();
        if self.used + text.len() + 3 * OVERHEAD <= MOST {
            self.used += text.len() + 3 * OVERHEAD;
            self.names.insert(name.clone());
        }
        name
    }

    /// A shared copy of a name of the registry, found by its address.
    fn fixed(&mut self, text: &'static str) -> Arc<str> {
        let address = text.as_ptr() as usize;
        let known = self.fixed.iter().find(|(known, length, _)| (*known, *length) == (address, text.len()));
        if let Some((_, _, name)) = known {
            return name.clone();
        }
        let name = self.name(text);
        self.fixed.push((address, text.len(), name.clone()));
        name
    }

    fn complete(&self, mut subject: Subject) -> Subject {
        subject.node = subject.node.or_else(|| self.origin.node.clone());
        subject.rank = subject.rank.or(self.origin.rank);
        subject
    }

    fn report(&mut self, bytes: usize) -> bool {
        let fits = self.reports + bytes <= REPORTS;
        if fits {
            self.reports += bytes;
        } else {
            self.left_out += 1;
        }
        fits
    }

    fn take(&mut self, bytes: usize) -> bool {
        let fits = !self.full && self.used + bytes <= MOST;
        if fits {
            self.used += bytes;
        } else {
            self.full = true;
            self.left_out += 1;
        }
        fits
    }

    /// Completes the reading. Omitted data makes it incomplete.
    pub(crate) fn finish(mut self, format: &str, ended: LogEnd) -> Reading {
        self.reading.format = Some(format.to_owned());
        if !self.reading.metrics.is_sorted_by_key(|metric| metric.line) {
            self.reading.metrics.sort_by_key(|metric| metric.line);
        }
        if !self.reading.findings.is_sorted_by_key(|finding| finding.line) {
            self.reading.findings.sort_by_key(|finding| finding.line);
        }
        self.reading.ended = ended;
        if self.left_out > 0 {
            let (metrics, omitted) = (self.reading.metrics.len(), self.left_out);
            let limit =
                format!("the log exceeds the memory limit: kept {metrics} metrics, omitted {omitted} values");
            let said = self.reading.first_error.take();
            self.reading.first_error = Some(said.map_or(limit.clone(), |said| format!("{said}; {limit}")));
            if ended == LogEnd::Complete {
                self.reading.ended = LogEnd::Truncated;
            }
        }
        self.reading
    }
}

/// The beginning of a text, at most [`SHORT`] bytes.
pub(crate) fn short(text: &str) -> &str {
    let mut end = text.len().min(SHORT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A metric in progress.
#[must_use]
pub(crate) struct Put<'a> {
    out: &'a mut Out,
    metric: Metric,
    whole: bool,
    /// The metric is only counted.
    full: bool,
}

impl Put<'_> {
    /// Replaces the name, where the registry has a pattern.
    pub(crate) fn name(mut self, name: &str) -> Self {
        if !self.full {
            self.metric.name = self.out.name(name);
        }
        self
    }

    /// The printed unit.
    pub(crate) fn unit(mut self, unit: &str) -> Self {
        if !self.full {
            self.metric.unit = self.out.name(unit);
        }
        self
    }

    pub(crate) fn better(mut self, better: Better) -> Self {
        self.metric.better = better;
        self
    }

    pub(crate) fn scope(mut self, scope: Scope) -> Self {
        self.metric.scope = scope;
        self
    }

    /// The subject so far.
    pub(crate) fn subject(&self) -> Subject {
        self.metric.subject.clone()
    }

    pub(crate) fn of(mut self, subject: Subject) -> Self {
        self.metric.subject = subject;
        self
    }

    /// The value is that of the whole job, whichever process printed it.
    pub(crate) fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    pub(crate) fn gpu(mut self, gpu: u32) -> Self {
        self.metric.subject.gpu = Some(gpu);
        self
    }

    pub(crate) fn label(mut self, name: &str, value: &str) -> Self {
        if !self.full {
            self.metric.labels.insert(short(name).to_owned(), short(value).to_owned());
        }
        self
    }

    /// Adds the metric with a value.
    pub(crate) fn value(mut self, number: Number, line: u64) {
        self.metric.value = Some(number.value);
        self.metric.resolution = number.resolution;
        self.add(line);
    }

    /// Adds the metric without a value, with the program's reason.
    pub(crate) fn unmeasurable(mut self, reason: &str, line: u64) {
        if !self.full {
            self.metric.unmeasurable = Some(reason.trim().chars().take(TEXT).collect());
        }
        self.add(line);
    }

    /// Adds the metric with the number in the text; a text such as `N/A` is the reason for a missing value.
    pub(crate) fn read(self, text: &str, line: u64) {
        let text = text.trim();
        match crate::number::number(text) {
            Some(number) => self.value(number, line),
            None => self.unmeasurable(if text.is_empty() { "no value" } else { text }, line),
        }
    }

    fn add(self, line: u64) {
        let Put { out, mut metric, whole, full } = self;
        if full {
            out.left_out += 1;
            return;
        }
        metric.line = line;
        if !whole {
            metric.subject = out.complete(metric.subject);
        }
        let labels = metric.labels.iter().map(|(name, value)| name.len() + value.len() + 2 * OVERHEAD);
        let labels = labels.sum::<usize>() + if metric.labels.is_empty() { 0 } else { LABELS };
        let reason = metric.unmeasurable.as_ref().map_or(0, |reason| reason.len() + OVERHEAD);
        if out.take(size_of::<Metric>() * 5 / 2 + labels + reason) {
            out.reading.metrics.push(metric);
        }
    }
}
