//! Collects metrics, findings and GPUs within a memory limit.

mod metric_builder;
mod names;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    iter,
    sync::Arc,
};

use model::{
    measurement::{LogEnd, Reading},
    metric::{Better, Finding, Gpu, Labels, Metric, Scope, Severity, Subject},
};

use crate::{metric_definition::MetricDefinition, recent::Recent, text::trim};

use metric_builder::complete;
use names::{NameSource, RecentName};

pub(crate) use metric_builder::MetricBuilder;
pub(crate) use names::hash;

/// Maximum memory of the collected data, bytes. A vector exists twice while it grows.
const MAX_BYTES: usize = 13 << 20;
/// Maximum memory of findings and GPUs, which metrics never displace, bytes.
const REPORTS: usize = 1 << 20;
/// Memory of a finding without its texts, bytes.
const FINDING: usize = size_of::<Finding>() * 2 + 2 * OVERHEAD;
/// Maximum length of a finding's text, characters.
const TEXT: usize = 400;
/// Maximum length of a name, label or other short text, bytes.
pub(crate) const SHORT: usize = 200;
/// Memory of the first B-tree node of a map with labels, bytes. Every metric is charged for a map, even if it shares one, so
/// that the number of kept metrics does not depend on the order of a log.
const LABELS: usize = 640;
/// Allocator overhead of one allocation, bytes.
const OVERHEAD: usize = 32;
/// Memory of a metric without labels, bytes: a constant, so that all versions keep the same metrics of a log.
const METRIC: usize = 560;
const _: () = assert!(size_of::<Metric>() * 5 / 2 <= METRIC);
/// Maximum length of the key text of recent names and labels, bytes.
const RECENT_TEXT: usize = 512;

/// The reading in progress.
#[derive(Default)]
pub(crate) struct ReadingBuilder {
    pub(crate) reading: Reading,
    /// Node and rank of the process whose line is read; they are added to each subject.
    pub(crate) origin: Subject,
    /// Bytes of open JSON documents, of all processes.
    pub(crate) documents: usize,
    /// Number of bytes that a line's reader consumed, if it consumed more than the line; otherwise 0.
    pub(crate) taken: usize,
    /// Length of the log, bytes; 0 if it is unknown.
    pub(crate) length: usize,
    /// Position of the current line in a log of known length.
    pub(crate) position: usize,
    used: usize,
    reports: usize,
    /// Whether a metric was omitted; all later metrics are omitted as well.
    full: bool,
    left_out: usize,
    names: BTreeSet<Arc<str>>,
    /// Names and units by the hash of their source texts.
    recent_names: Recent<RecentName>,
    /// Labels by the hash of their texts.
    recent_labels: Recent<RecentLabels>,
    last_line: u64,
    /// Whether the metrics are not in the order of their lines.
    is_unsorted: bool,
    /// Labels of the metric in progress: each name and value follows its length in one byte.
    labels: Vec<u8>,
    /// Label of the metric in progress whose value is a number.
    number: Option<NumberLabel>,
    /// The label of the last metric, if it is a number.
    last_number: Option<NumberLabel>,
    /// Buffer for a name.
    text: String,
}

/// Name and value of a label.
type NumberLabel = (&'static str, u64);

struct RecentLabels {
    /// The labels in the form of [`ReadingBuilder::labels`].
    text: Box<[u8]>,
    labels: SharedLabels,
}

/// Labels that several metrics share.
#[derive(Clone, Default)]
pub(crate) struct SharedLabels {
    labels: Labels,
    /// Memory of the labels, bytes.
    bytes: usize,
}

impl From<BTreeMap<String, String>> for SharedLabels {
    fn from(labels: BTreeMap<String, String>) -> Self {
        let of_label = |(name, value): (&String, &String)| name.len() + value.len() + 2 * OVERHEAD;
        let bytes = LABELS + labels.iter().map(of_label).sum::<usize>();
        Self { labels: labels.into(), bytes }
    }
}

impl SharedLabels {
    fn of_number((name, number): NumberLabel, labels: Labels) -> Self {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        Self { labels, bytes: LABELS + name.len() + digits + 2 * OVERHEAD }
    }
}

impl ReadingBuilder {
    /// Starts a metric of the registry.
    #[inline]
    pub(crate) fn put(&mut self, definition: &'static MetricDefinition) -> MetricBuilder<'_> {
        self.begin(definition, NameSource::Parts, &[], definition.unit)
    }

    /// Starts a metric of the registry with the texts for the placeholders of its name, and the printed unit.
    #[inline]
    pub(crate) fn put_parts(
        &mut self,
        definition: &'static MetricDefinition,
        parts: &[&str],
        unit: &str,
    ) -> MetricBuilder<'_> {
        self.begin(definition, NameSource::Parts, parts, unit)
    }

    /// Starts a metric of the registry whose name is made from a text. The names of recent texts are cached.
    #[inline]
    pub(crate) fn put_made(
        &mut self,
        definition: &'static MetricDefinition,
        text: &str,
        make: fn(&str) -> String,
    ) -> MetricBuilder<'_> {
        self.begin(definition, NameSource::Made(make), &[text], definition.unit)
    }

    /// Starts a metric of the registry whose name and unit are made from a text. The names and units of recent texts are
    /// cached.
    #[inline]
    pub(crate) fn put_made_with_unit(
        &mut self,
        definition: &'static MetricDefinition,
        text: &str,
        make: fn(&str) -> (String, &'static str),
    ) -> MetricBuilder<'_> {
        self.begin(definition, NameSource::MadeWithUnit(make), &[text], definition.unit)
    }

    #[inline]
    fn begin(
        &mut self,
        definition: &'static MetricDefinition,
        kind: NameSource,
        parts: &[&str],
        unit: &str,
    ) -> MetricBuilder<'_> {
        // After the first omitted value all others are omitted as well.
        self.full |= self.used + METRIC > MAX_BYTES;
        let kept = !self.full;
        if kept {
            self.start(definition, kind, parts, unit);
        }
        MetricBuilder { out: self, kept, whole: false }
    }

    /// Counts a value as omitted and returns `true` if the memory limit is reached, so that the reader need not make the name and unit.
    #[inline]
    pub(crate) fn omit(&mut self) -> bool {
        self.full |= self.used + METRIC > MAX_BYTES;
        self.left_out += usize::from(self.full);
        self.full
    }

    /// Adds a metric with its name and unit, still without value.
    fn start(&mut self, definition: &'static MetricDefinition, kind: NameSource, parts: &[&str], unit: &str) {
        self.labels.clear();
        if self.reading.metrics.len() == self.reading.metrics.capacity() {
            self.grow();
        }
        let mut key = std::ptr::from_ref(definition).addr() as u64;
        for part in parts {
            key = hash(key, part.as_bytes());
        }
        let unit = if std::ptr::eq(unit, definition.unit) { None } else { Some(unit) };
        if let Some(unit) = unit {
            key = hash(key, unit.as_bytes());
        }
        match self.recent_names.get(key, |recent| recent.is(definition, parts, unit)) {
            Some(recent) => push(&mut self.reading.metrics, definition, &recent.name, &recent.unit),
            None => {
                let (name, unit) = self.make_name(key, definition, kind, parts, unit);
                push(&mut self.reading.metrics, definition, &name, &unit);
            }
        }
    }

    /// Starts a metric that is not in the registry.
    pub(crate) fn custom(
        &mut self,
        name: &str,
        unit: &str,
        better: Better,
        scope: Scope,
    ) -> MetricBuilder<'_> {
        static OTHER: MetricDefinition =
            MetricDefinition::new("other", "1", Better::None, Scope::World, "Replaced below");
        self.begin(&OTHER, NameSource::Made(str::to_owned), &[name], unit).better(better).scope(scope)
    }

    /// Adds a finding. Its texts are formatted only if it may fit.
    #[inline]
    pub(crate) fn finding(
        &mut self,
        code: impl Display,
        subject: Subject,
        severity: Severity,
        text: impl Display,
        line: u64,
    ) {
        if self.reports + FINDING > REPORTS {
            self.left_out += 1;
        } else {
            self.add_finding(code, subject, severity, text, line);
        }
    }

    #[inline(never)]
    fn add_finding(
        &mut self,
        code: impl Display,
        subject: Subject,
        severity: Severity,
        text: impl Display,
        line: u64,
    ) {
        let (code, mut text) = (code.to_string(), text.to_string());
        let kept = beginning(trim(&text));
        if kept.len() < text.len() {
            text = kept.to_owned();
        }
        if self.report(FINDING + text.len() + code.len()) {
            let subject = self.complete(subject);
            self.reading.findings.push(Finding { code, subject, severity, text, line });
        }
    }

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

    /// Adds a label to the metric in progress.
    fn label(&mut self, name: &str, value: &str) {
        for text in [short(name), short(value)] {
            // A short text has at most 200 bytes.
            self.labels.push(text.len() as u8);
            self.labels.extend_from_slice(text.as_bytes());
        }
    }

    /// The labels of the metric in progress. Equal ones are shared.
    #[inline]
    fn take_labels(&mut self) -> SharedLabels {
        let number = self.number.take();
        let last = std::mem::take(&mut self.last_number);
        if let Some((name, value)) = number {
            if self.labels.is_empty() {
                self.last_number = number;
                let labels = match self.reading.metrics.as_slice() {
                    // Compare the number first: it differs more often than the name.
                    [.., previous, _] if last.is_some_and(|last| last.1 == value && last.0 == name) => {
                        previous.labels.clone()
                    }
                    _ => Labels::number(name, value),
                };
                return SharedLabels::of_number((name, value), labels);
            }
            self.label(name, &value.to_string());
        }
        if self.labels.is_empty() { SharedLabels::default() } else { self.shared_labels() }
    }

    fn shared_labels(&mut self) -> SharedLabels {
        let key = hash(0, &self.labels);
        if let Some(recent) = self.recent_labels.get(key, |recent| *recent.text == *self.labels) {
            return recent.labels.clone();
        }
        let mut labels = BTreeMap::new();
        let mut rest = &self.labels[..];
        let mut next = || {
            let (length, after) = rest.split_first()?;
            let (text, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            str::from_utf8(text).ok().map(str::to_owned)
        };
        while let (Some(name), Some(value)) = (next(), next()) {
            labels.insert(name, value);
        }
        let labels = SharedLabels::from(labels);
        if self.labels.len() <= RECENT_TEXT {
            let text = self.labels.as_slice().into();
            self.recent_labels.insert(key, RecentLabels { text, labels: labels.clone() });
        }
        labels
    }

    /// Reserves memory for the metrics of the rest of the log, if its length is known: growing step by step would copy them and use new
    /// pages of memory repeatedly.
    #[cold]
    fn grow(&mut self) {
        let count = self.reading.metrics.len();
        let room = (MAX_BYTES - self.used) / METRIC + 1;
        // An early estimate would be wrong: all metrics of a large document are recorded at the position of its first line.
        if count >= 32 && self.position > self.length / 64 {
            let all = count * self.length / self.position;
            let more = (all + all / 16).saturating_sub(count).max(count / 4);
            self.reading.metrics.reserve_exact(more.min(room));
        }
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
        if self.is_unsorted {
            self.reading.metrics.sort_by_key(|metric| metric.line);
        }
        if !self.reading.findings.is_sorted_by_key(|finding| finding.line) {
            self.reading.findings.sort_by_key(|finding| finding.line);
        }
        identify(&mut self.reading);
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

/// Adds serial number and bus id of the listed GPUs to metrics and findings of the same node, rank and index. If the log lists different
/// devices for one node, rank and index, neither is added.
fn identify(reading: &mut Reading) {
    let Reading { gpus, metrics, findings, .. } = reading;
    let mut devices: BTreeMap<_, Option<&Subject>> = BTreeMap::new();
    for Gpu { subject, .. } in gpus.iter().filter(|gpu| gpu.subject.gpu.is_some()) {
        let key = (subject.gpu, subject.rank, subject.node.as_deref());
        let device = devices.entry(key).or_insert(Some(subject));
        *device =
            device.filter(|device| (&device.serial, &device.bus_id) == (&subject.serial, &subject.bus_id));
    }
    devices
        .retain(|_, device| device.is_some_and(|device| device.serial.is_some() || device.bus_id.is_some()));
    if devices.is_empty() {
        return;
    }
    let subjects = metrics.iter_mut().map(|metric| &mut metric.subject);
    for subject in subjects.chain(findings.iter_mut().map(|finding| &mut finding.subject)) {
        let place = (subject.gpu, subject.rank, subject.node.as_deref());
        let Some(Some(device)) = devices.get(&place).copied() else { continue };
        // The texts are shared: a log has many metrics of each GPU.
        if subject.serial.is_none() {
            subject.serial.clone_from(&device.serial);
        }
        if subject.bus_id.is_none() {
            subject.bus_id.clone_from(&device.bus_id);
        }
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

/// Prefix of a text, at most [`TEXT`] characters.
fn beginning(text: &str) -> &str {
    // A character has at least one byte.
    let end = if text.len() <= TEXT { None } else { text.char_indices().nth(TEXT) };
    end.map_or(text, |(end, _)| &text[..end])
}

/// Adds a metric without value. The metric is changed in place: moving its 200 bytes right after its parts were written would wait for each
/// of the writes.
#[inline]
fn push(metrics: &mut Vec<Metric>, definition: &MetricDefinition, name: &Arc<str>, unit: &Arc<str>) {
    // Unlike `push`, this reserves memory before the metric is made, so that it is made in place.
    metrics.extend(iter::once_with(|| Metric {
        name: name.clone(),
        unit: unit.clone(),
        better: definition.better,
        scope: definition.scope,
        subject: Subject::default(),
        labels: Labels::default(),
        value: None,
        resolution: None,
        unmeasurable: None,
        line: 0,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::PrintedNumber;

    fn device(gpu: u32, rank: Option<u32>, serial: &str) -> Gpu {
        Gpu { subject: Subject { rank, serial: Some(serial.into()), ..Subject::gpu(gpu) }, name: None }
    }

    /// Serial numbers of metrics and findings of GPU 0 of rank 1, GPU 1 of rank 1, and GPU 0 without rank.
    fn serials(gpus: Vec<Gpu>) -> Vec<Option<String>> {
        static KNOWN: MetricDefinition =
            MetricDefinition::new("a.b", "1", Better::None, Scope::Gpu, "A value");
        let mut out =
            ReadingBuilder { reading: Reading { gpus, ..Reading::default() }, ..ReadingBuilder::default() };
        let one = PrintedNumber { value: 1.0, resolution: None };
        for subject in [(0, Some(1)), (1, Some(1)), (0, None)] {
            out.put(&KNOWN).gpu(subject.0).subject(|own| own.rank = subject.1).value(one, 1);
            let subject = Subject { rank: subject.1, ..Subject::gpu(subject.0) };
            out.finding("A", subject, Severity::Unknown, "text", 1);
        }
        let reading = out.finish("test", LogEnd::Complete);
        let own = |subject: &Subject| subject.serial.as_deref().map(str::to_owned);
        let of_metrics: Vec<_> = reading.metrics.iter().map(|metric| own(&metric.subject)).collect();
        let of_findings: Vec<_> = reading.findings.iter().map(|finding| own(&finding.subject)).collect();
        assert_eq!(of_metrics, of_findings);
        of_metrics
    }

    #[test]
    fn metrics_and_findings_have_the_serial_number_of_their_gpu_only() {
        let (a, b) = (Some("a".to_owned()), Some("b".to_owned()));
        assert_eq!(
            serials(vec![device(0, Some(1), "a"), device(1, Some(1), "b")]),
            [a.clone(), b.clone(), None]
        );
        assert_eq!(serials(vec![device(0, None, "a")]), [None, None, a.clone()]);
        assert_eq!(serials(vec![device(0, Some(2), "a")]), [None, None, None]);
        // A GPU that is listed twice, and two GPUs with the same index.
        let twice = vec![device(0, Some(1), "a"), device(0, Some(1), "a"), device(1, Some(1), "b")];
        assert_eq!(serials(twice), [a.clone(), b.clone(), None]);
        let other = vec![device(0, Some(1), "a"), device(0, Some(1), "b"), device(0, Some(1), "a")];
        assert_eq!(serials(other), [None, None, None]);
    }

    #[test]
    fn an_existing_serial_number_is_not_replaced() {
        let mut out = ReadingBuilder {
            reading: Reading { gpus: vec![device(0, None, "a")], ..Reading::default() },
            ..ReadingBuilder::default()
        };
        let own = Subject { serial: Some("own".into()), ..Subject::gpu(0) };
        out.finding("A", own, Severity::Unknown, "text", 1);
        let reading = out.finish("test", LogEnd::Complete);
        assert_eq!(reading.findings[0].subject.serial.as_deref(), Some("own"));
    }
}
