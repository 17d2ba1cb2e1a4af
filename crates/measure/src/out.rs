//! Collects metrics, findings and GPUs within a memory limit.

use std::{collections::BTreeSet, fmt::Display, sync::Arc};

use model::{
    measurement::{LogEnd, Reading},
    metric::{Better, Finding, Gpu, Metric, Scope, Severity, Subject},
};

use crate::{known::Known, number::Number, text::trim};

/// Maximum memory of the collected data, bytes. A vector exists twice while it grows.
const MAX_BYTES: usize = 13 << 20;
/// Maximum memory of findings and GPUs, which metrics never displace, bytes.
const REPORTS: usize = 1 << 20;
/// Maximum length of a finding's text, characters.
const TEXT: usize = 400;
/// Maximum length of a name, label or other short text, bytes.
const SHORT: usize = 200;
/// Memory of the first B-tree node of a map with labels, bytes.
const LABELS: usize = 640;
/// Allocator overhead of one allocation, bytes.
const OVERHEAD: usize = 32;
/// Memory of a metric without labels, bytes.
const METRIC: usize = size_of::<Metric>() * 5 / 2;

/// The reading in progress.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) reading: Reading,
    /// Node and rank of the process whose line is read; they complete each subject.
    pub(crate) origin: Subject,
    /// Bytes of open JSON documents, of all processes.
    pub(crate) documents: usize,
    /// Bytes of the log that the reader of a line took, if they are more than the line.
    pub(crate) taken: usize,
    used: usize,
    reports: usize,
    /// A metric was omitted, and so are all after it.
    full: bool,
    left_out: usize,
    names: BTreeSet<Arc<str>>,
    /// Name and unit of the metrics of the registry that were used.
    known: Vec<(&'static Known, Arc<str>, Arc<str>)>,
    /// Index in `known` after the last metric: programs print metrics in the same order again and again.
    next: usize,
    /// Buffer for a name.
    text: String,
}

impl Out {
    /// Starts a metric of the registry.
    #[inline]
    pub(crate) fn put(&mut self, known: &'static Known) -> Put<'_> {
        // After the first omitted value all others are omitted as well.
        self.full |= self.used + METRIC > MAX_BYTES;
        if !self.full {
            self.start(known);
        }
        Put { out: self, known, whole: false }
    }

    /// Whether no more metrics are kept.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Counts a value instead of adding it, if the memory limit is reached. A reader can omit the work for its name and unit.
    #[inline]
    pub(crate) fn omit(&mut self) -> bool {
        self.full |= self.used + METRIC > MAX_BYTES;
        self.left_out += usize::from(self.full);
        self.full
    }

    fn start(&mut self, known: &'static Known) {
        let (name, unit) = self.known(known);
        self.reading.metrics.push(Metric {
            name,
            unit,
            better: known.better,
            scope: known.scope,
            subject: Subject::default(),
            labels: Default::default(),
            value: None,
            resolution: None,
            unmeasurable: None,
            line: 0,
        });
    }

    /// Starts a metric that is not in the registry.
    pub(crate) fn custom(&mut self, name: &str, unit: &str, better: Better, scope: Scope) -> Put<'_> {
        static OTHER: Known = Known::new("other", "1", Better::None, Scope::World, "Replaced below");
        self.put(&OTHER).name(name).unit(unit).better(better).scope(scope)
    }

    /// Adds a finding. Its texts are formatted only if it may fit.
    pub(crate) fn finding(
        &mut self,
        code: impl Display,
        subject: Subject,
        severity: Severity,
        text: impl Display,
        line: u64,
    ) {
        let least = size_of::<Finding>() * 2 + 2 * OVERHEAD;
        if self.reports + least > REPORTS {
            self.left_out += 1;
            return;
        }
        let (code, text) = (code.to_string(), text.to_string());
        let text = beginning(trim(&text));
        if self.report(least + text.len() + code.len()) {
            let (text, subject) = (text.to_owned(), self.complete(subject));
            self.reading.findings.push(Finding { code, subject, severity, text, line });
        }
    }

    /// Adds a GPU.
    pub(crate) fn gpu(&mut self, subject: Subject, name: Option<&str>) {
        let name = name.map(|name| short(trim(name)));
        if self.report(size_of::<Gpu>() * 2 + name.map_or(0, str::len) + 4 * OVERHEAD) {
            let (subject, name) = (self.complete(subject), name.map(str::to_owned));
            self.reading.gpus.push(Gpu { subject, name });
        }
    }

    /// Records the first error of the program.
    pub(crate) fn error(&mut self, text: &str) {
        let text = trim(text);
        if self.reading.first_error.is_none() && !text.is_empty() {
            self.reading.first_error = Some(beginning(text).to_owned());
        }
    }

    /// Records the version of the program.
    pub(crate) fn version(&mut self, version: &str) {
        if self.reading.version.is_none() && !trim(version).is_empty() {
            self.reading.version = Some(short(trim(version)).to_owned());
        }
    }

    /// A shared copy of a short text.
    pub(crate) fn name(&mut self, text: &str) -> Arc<str> {
        let text = short(text);
        if let Some(name) = self.names.get(text) {
            return name.clone();
        }
        let name: Arc<str> = text.into();
        if self.used + text.len() + 3 * OVERHEAD <= MAX_BYTES {
            self.used += text.len() + 3 * OVERHEAD;
            self.names.insert(name.clone());
        }
        name
    }

    /// Shared copies of the name and the unit of a metric of the registry.
    fn known(&mut self, known: &'static Known) -> (Arc<str>, Arc<str>) {
        let is_known = |(used, _, _): &(&Known, _, _)| std::ptr::eq(*used, known);
        if !self.known.get(self.next).is_some_and(is_known) {
            self.next = self.known.iter().position(is_known).unwrap_or(self.known.len());
            if self.next == self.known.len() {
                let (name, unit) = (self.name(known.name), self.name(known.unit));
                self.known.push((known, name, unit));
            }
        }
        let (_, name, unit) = &self.known[self.next];
        self.next += 1;
        (name.clone(), unit.clone())
    }

    fn complete(&self, mut subject: Subject) -> Subject {
        complete(&mut subject, &self.origin);
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

/// The beginning of a longer text, at most [`TEXT`] characters.
fn beginning(text: &str) -> &str {
    // A character has at least one byte.
    let end = if text.len() <= TEXT { None } else { text.char_indices().nth(TEXT) };
    end.map_or(text, |(end, _)| &text[..end])
}

/// A metric in progress: the last one of the reading. It must be completed with a value or a reason.
///
/// Beyond the memory limit a metric is counted, but not kept.
#[must_use]
pub(crate) struct Put<'a> {
    out: &'a mut Out,
    known: &'static Known,
    whole: bool,
}

impl Put<'_> {
    #[inline]
    fn metric(&mut self) -> Option<&mut Metric> {
        if self.out.full { None } else { self.out.reading.metrics.last_mut() }
    }

    /// Sets the parts of the name for which the registry has placeholders.
    #[inline]
    pub(crate) fn parts(self, parts: &[&str]) -> Self {
        if self.out.full { self } else { self.filled(parts) }
    }

    fn filled(self, parts: &[&str]) -> Self {
        let mut name = std::mem::take(&mut self.out.text);
        name.clear();
        let mut pattern = self.known.name;
        for part in parts {
            let Some((before, after)) = pattern.split_once('<') else { break };
            name.push_str(before);
            name.push_str(part);
            pattern = after.split_once('>').map_or("", |(_, after)| after);
        }
        name.push_str(pattern);
        let put = self.name(&name);
        put.out.text = name;
        put
    }

    /// Replaces the name.
    pub(crate) fn name(mut self, name: &str) -> Self {
        if !self.out.full {
            let name = self.out.name(name);
            if let Some(metric) = self.metric() {
                metric.name = name;
            }
        }
        self
    }

    /// The printed unit.
    #[inline]
    pub(crate) fn unit(mut self, unit: &str) -> Self {
        if !self.out.full && unit != self.known.unit {
            let unit = self.out.name(unit);
            if let Some(metric) = self.metric() {
                metric.unit = unit;
            }
        }
        self
    }

    pub(crate) fn better(mut self, better: Better) -> Self {
        if let Some(metric) = self.metric() {
            metric.better = better;
        }
        self
    }

    pub(crate) fn scope(mut self, scope: Scope) -> Self {
        if let Some(metric) = self.metric() {
            metric.scope = scope;
        }
        self
    }

    /// The subject of the metric.
    #[inline]
    pub(crate) fn subject(mut self, set: impl FnOnce(&mut Subject)) -> Self {
        if let Some(metric) = self.metric() {
            set(&mut metric.subject);
        }
        self
    }

    pub(crate) fn of(self, subject: Subject) -> Self {
        self.subject(|old| *old = subject)
    }

    /// The value describes the whole job; any of its processes may print it.
    pub(crate) fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    pub(crate) fn gpu(self, gpu: u32) -> Self {
        self.subject(|subject| subject.gpu = Some(gpu))
    }

    pub(crate) fn label(mut self, name: &str, value: &str) -> Self {
        if let Some(metric) = self.metric() {
            metric.labels.insert(short(name).to_owned(), short(value).to_owned());
        }
        self
    }

    /// Adds the metric with a value.
    #[inline]
    pub(crate) fn value(mut self, number: Number, line: u64) {
        if let Some(metric) = self.metric() {
            (metric.value, metric.resolution) = (Some(number.value), number.resolution);
        }
        self.add(line);
    }

    /// Adds the metric without a value, with the program's reason.
    pub(crate) fn unmeasurable(mut self, reason: impl Display, line: u64) {
        if let Some(metric) = self.metric() {
            metric.unmeasurable = Some(beginning(reason.to_string().trim()).to_owned());
        }
        self.add(line);
    }

    /// Adds the metric with the number in the text; a text such as `N/A` is the reason for a missing value.
    #[inline]
    pub(crate) fn read(self, text: &str, line: u64) {
        if self.out.full {
            self.out.left_out += 1;
        } else {
            self.read_kept(text, line);
        }
    }

    fn read_kept(self, text: &str, line: u64) {
        let text = trim(text);
        match crate::number::number(text) {
            Some(number) => self.value(number, line),
            None => self.unmeasurable(if text.is_empty() { "no value" } else { text }, line),
        }
    }

    fn add(self, line: u64) {
        let Put { out, whole, .. } = self;
        let Some(metric) = out.reading.metrics.last_mut().filter(|_| !out.full) else {
            out.left_out += 1;
            return;
        };
        metric.line = line;
        if !whole {
            complete(&mut metric.subject, &out.origin);
        }
        let labels = metric.labels.iter().map(|(name, value)| name.len() + value.len() + 2 * OVERHEAD);
        let labels = labels.sum::<usize>() + if metric.labels.is_empty() { 0 } else { LABELS };
        let reason = metric.unmeasurable.as_ref().map_or(0, |reason| reason.len() + OVERHEAD);
        let used = out.used + METRIC + labels + reason;
        if used <= MAX_BYTES {
            out.used = used;
        } else {
            out.full = true;
            out.left_out += 1;
            out.reading.metrics.pop();
        }
    }
}

/// Adds node and rank of the process to a subject without them.
fn complete(subject: &mut Subject, origin: &Subject) {
    if subject.node.is_none() && origin.node.is_some() {
        subject.node.clone_from(&origin.node);
    }
    subject.rank = subject.rank.or(origin.rank);
}
