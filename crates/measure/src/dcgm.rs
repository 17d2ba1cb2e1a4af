//! `dcgmi diag -r N -j`: tests of GPUs by NVIDIA's Data Center GPU Manager.
//!
//! A skipped test is unmeasurable, never passed. From version 4 on, each error has a category and a severity, which
//! separate hardware from settings.

use std::{
    borrow::Cow,
    fmt, iter,
    sync::{Arc, LazyLock},
};

use aho_corasick::AhoCorasick;
use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    json::{JsonDocuments, JsonValue},
    lines::{Line, Lines},
    number::{PrintedNumber, count},
    reading_builder::ReadingBuilder,
};

const TEST: MetricDefinition = MetricDefinition::new(
    "dcgm.<test>",
    "1",
    Better::Exact,
    Scope::Gpu,
    "1 if the test passed on the GPU, 0 if it failed or warned; no value if it was skipped",
);
const NODE_TEST: MetricDefinition = MetricDefinition::new(
    "dcgm.<test>",
    "1",
    Better::Exact,
    Scope::Node,
    "1 if a test without GPU passed, 0 if it failed or warned, no value if it was skipped; label `entity` names a CPU or NVSwitch, label `gpus` \
     lists the GPUs that failed or warned together (version 3)",
);

pub(crate) const FORMAT: Format = Format {
    name: "dcgm-diag",
    programs: "`dcgmi diag -j` of DCGM 3 and 4; text may precede the JSON document",
    end: "the closing bracket of the document",
    unread: "device ids, the ids of entity groups, driver version",
    metrics: &[TEST, NODE_TEST],
    findings: &[
        ("DCGM_<id>", "A test reported the error with this id of `dcgm_errors.h`"),
        ("DCGM_FAIL", "A test failed and named no error id"),
        ("DCGM_WARN", "A test reported a warning without an error id"),
        ("DCGM_ERROR", "The diagnostic itself failed"),
    ],
    marks: &[&["\"DCGM Diagnostic\""], &["\"DCGM GPU Diagnostic\""]],
    reader: Reader::Lines(|| Box::<Diagnostic>::default()),
};

/// Errors that report wrong data: faulty memory, a memory or cache miscompare, wrong peer-to-peer copies, NaN.
const WRONG_DATA: [u32; 8] = [52, 58, 79, 86, 87, 111, 113, 114];

#[derive(Default)]
struct Diagnostic {
    json: JsonDocuments,
    failed: bool,
    seen: bool,
}

impl Lines for Diagnostic {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let seen = &mut self.seen;
        let taken = self.json.line(&line, b"{", out, |root, out| {
            *seen = true;
            document(root, out)
        });
        if !taken && line.text.trim_start().starts_with("Error") {
            self.failed = true;
            out.error(line.text);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        let failed = self.failed && !self.seen;
        self.json.finish(if failed { LogEnd::Failed } else { LogEnd::Empty })
    }
}

/// Reads `{"DCGM Diagnostic": {...}, "entity_groups": [...], "metadata": {...}}`, or the document of version 3.
fn document(root: JsonValue<'_>, out: &mut ReadingBuilder) -> LogEnd {
    let [diagnostic, old_diagnostic, metadata, groups, error] = root.get_each([
        "DCGM Diagnostic",
        "DCGM GPU Diagnostic",
        "metadata",
        "entity_groups",
        "runtime_error",
    ]);
    let Some(diagnostic) = diagnostic.or(old_diagnostic) else { return LogEnd::Empty };
    let [inner_metadata, inner_error, categories] =
        diagnostic.get_each(["metadata", "runtime_error", "test_categories"]);
    for metadata in [metadata, inner_metadata, Some(root), Some(diagnostic)].into_iter().flatten() {
        let [version, serials] = metadata.get_each(["version", "GPU Device Serials"]);
        if let Some(version) = version.and_then(JsonValue::text) {
            out.version(&version);
        }
        for (index, serial) in serials.into_iter().flat_map(JsonValue::members) {
            gpu(count(&index), serial.text().as_deref(), out);
        }
    }
    for group in groups.into_iter().flat_map(JsonValue::items) {
        if group.get_text("entity_group").is_some_and(|name| name == "GPU") {
            for entity in group.get_items("entities") {
                let serial = entity.get_text("serial_num");
                gpu(entity.get("entity_id").and_then(JsonValue::count), serial.as_deref(), out);
            }
        }
    }
    let mut ended = LogEnd::Complete;
    if let Some(error) = inner_error.or(error) {
        let text = error.text().unwrap_or_default();
        out.error(&text);
        out.finding("DCGM_ERROR", Subject::default(), Severity::Software, &text, error.line());
        ended = LogEnd::Failed;
    }
    let mut tests = 0;
    let categories = categories.into_iter().flat_map(JsonValue::items);
    for test in categories.flat_map(|category| category.get_items("tests")) {
        tests += 1;
        if !read(test, out) {
            ended = if ended == LogEnd::Failed { ended } else { LogEnd::Truncated };
        }
    }
    if tests == 0 && ended == LogEnd::Complete { LogEnd::Truncated } else { ended }
}

fn gpu(index: Option<u32>, serial: Option<&str>, out: &mut ReadingBuilder) {
    let serial = serial.filter(|serial| !serial.contains("NOT_SUPPORTED") && !serial.is_empty());
    let serial = serial.map(|serial| out.name(serial));
    if index.is_some() {
        out.gpu(Subject { gpu: index, serial, ..Subject::default() }, None);
    }
}

/// Reads a test; returns whether it has a result.
fn read(test: JsonValue<'_>, out: &mut ReadingBuilder) -> bool {
    let [title, results_of_test, summary] = test.get_each(["name", "results", "test_summary"]);
    let Some(title) = title.and_then(JsonValue::text) else { return false };
    let (mut results, mut failed) = (0, false);
    for result in results_of_test.into_iter().flat_map(JsonValue::items) {
        let Some(outcome) = TestOutcome::of(result) else { return false };
        results += 1;
        failed |= outcome.is_bad();
        let (first, others) = subjects(result, out);
        if !others.is_empty() && outcome.is_bad() {
            // One result covers several GPUs: an error may name the GPU that failed.
            let among = iter::once(first).chain(others).collect();
            put(&title, &Entity { among, ..Entity::default() }, &outcome, out);
            continue;
        }
        put(&title, &first, &outcome, out);
        for entity in &others {
            put(&title, entity, &outcome, out);
        }
    }
    if let Some(outcome) = summary.and_then(TestOutcome::of) {
        if results == 0 || outcome.is_bad() && !failed {
            put(&title, &Entity::default(), &outcome, out);
        }
        return true;
    }
    results > 0
}

/// The result of a test, or its summary.
struct TestOutcome<'d> {
    status: Cow<'d, str>,
    line: u64,
    info: Option<JsonValue<'d>>,
    warnings: Option<JsonValue<'d>>,
}

impl<'d> TestOutcome<'d> {
    fn of(result: JsonValue<'d>) -> Option<Self> {
        let [status, info, warnings] = result.get_each(["status", "info", "warnings"]);
        let status = status?;
        Some(Self { status: status.text().unwrap_or_default(), line: status.line(), info, warnings })
    }

    fn is_bad(&self) -> bool {
        is_bad(&self.status)
    }
}

/// Name of the metric of a test, such as `dcgm.memory_bandwidth`.
fn metric_name(title: &str) -> String {
    let mut name = String::with_capacity("dcgm.".len() + 2 * title.len());
    name.push_str("dcgm");
    let mut separator = Some('.');
    for byte in title.bytes() {
        if byte.is_ascii_alphanumeric() {
            name.extend(separator.take());
            name.push(char::from(byte.to_ascii_lowercase()));
        } else {
            separator = separator.or(Some('_'));
        }
    }
    name
}

/// The tested part of a node.
#[derive(Clone, Default)]
struct Entity {
    gpu: Option<u32>,
    /// A CPU or an NVSwitch.
    other: Option<Arc<str>>,
    /// GPUs with one common result.
    among: Vec<Entity>,
}

impl Entity {
    /// The GPU that a text names, if the result covers it.
    fn named(&self, text: &str) -> Option<u32> {
        let (_, rest) = text.split_once("GPU ")?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        count(digits).filter(|gpu| self.among.iter().any(|entity| entity.gpu == Some(*gpu)))
    }
}

/// GPUs and other devices that a result covers. The first is separate, because most results cover only one device.
fn subjects(result: JsonValue<'_>, out: &mut ReadingBuilder) -> (Entity, Vec<Entity>) {
    let [group, id, gpus, gpu] = result.get_each(["entity_group", "entity_id", "gpu_ids", "gpu_id"]);
    if let Some(group) = group.and_then(JsonValue::text) {
        let id = id.and_then(JsonValue::text).unwrap_or_default();
        let gpu = count(&id).filter(|_| group == "GPU");
        let other = if gpu.is_none() { Some(out.name(&format!("{group} {id}"))) } else { None };
        return (Entity { gpu, other, ..Entity::default() }, Vec::new());
    }
    let Some(ids) = gpus.and_then(JsonValue::text).or_else(|| gpu?.text()) else {
        return Default::default();
    };
    let gpus = ids.split(',').filter_map(|id| count(id.trim())).take(1024);
    let mut entities = gpus.map(|gpu| Entity { gpu: Some(gpu), ..Entity::default() });
    (entities.next().unwrap_or_default(), entities.collect())
}

fn is_bad(status: &str) -> bool {
    status.eq_ignore_ascii_case("fail") || status.eq_ignore_ascii_case("warn")
}

/// Adds the metric and the findings of one entity.
fn put(title: &str, entity: &Entity, outcome: &TestOutcome<'_>, out: &mut ReadingBuilder) {
    let TestOutcome { status: text, line, info, warnings } = outcome;
    let (line, info, warnings) = (*line, *info, *warnings);
    let subject = Subject { gpu: entity.gpu, ..Subject::default() };
    let definition = if entity.gpu.is_some() { &TEST } else { &NODE_TEST };
    let mut metric = out.put_made(definition, title, metric_name).subject(|subject| subject.gpu = entity.gpu);
    if let Some(other) = &entity.other {
        metric = metric.label("entity", other);
    }
    if !entity.among.is_empty() {
        let gpus: Vec<_> = entity.among.iter().filter_map(|entity| Some(entity.gpu?.to_string())).collect();
        metric = metric.label("gpus", &gpus.join(","));
    }
    if text.eq_ignore_ascii_case("pass") {
        metric.value(PrintedNumber { value: 1.0, resolution: None }, line);
    } else if outcome.is_bad() {
        metric.value(PrintedNumber { value: 0.0, resolution: None }, line);
    } else {
        let reason = info.into_iter().flat_map(JsonValue::items).find_map(JsonValue::text);
        let reason = reason.or_else(|| info?.text()).unwrap_or_default();
        metric.unmeasurable(format_args!("{text} {reason}"), line);
    }
    let mut said = 0;
    let single = warnings.filter(|warning| warning.text().is_some());
    for warning in warnings.into_iter().flat_map(JsonValue::items).chain(single) {
        said += 1;
        let mut subject = subject.clone();
        let words = warning.get_text("warning").or_else(|| warning.text()).unwrap_or_default();
        subject.gpu = subject.gpu.or_else(|| entity.named(&words));
        finding(title, text, subject, warning, out);
    }
    if said == 0 && outcome.is_bad() {
        let code = if text.eq_ignore_ascii_case("fail") { "DCGM_FAIL" } else { "DCGM_WARN" };
        let severity = if is_setting(title) { Severity::Configuration } else { Severity::Unknown };
        out.finding(code, subject, severity, format_args!("{title}: {text}"), line);
    }
}

fn finding(title: &str, status: &str, subject: Subject, warning: JsonValue<'_>, out: &mut ReadingBuilder) {
    let text = warning.get_text("warning").or_else(|| warning.text()).unwrap_or_default();
    let part = |key| warning.get(key).and_then(JsonValue::count::<u32>);
    let id = part("error_id");
    let code = match id {
        Some(id) => Code::Error(id),
        None if status.eq_ignore_ascii_case("warn") => Code::Named("WARN"),
        None => Code::Named("FAIL"),
    };
    let severity = match (part("error_category"), part("error_severity")) {
        _ if id.is_some_and(|id| WRONG_DATA.contains(&id)) => Severity::WrongData,
        // The error reports a setting that the operator can change.
        (_, Some(5)) | (Some(3), _) => Severity::Configuration,
        // DCGM's severity 1: the GPU can perform its work. Clocks reduced under load by the power limit have this severity (NVIDIA/DCGM,
        // issue 285).
        (Some(9..=15), Some(1)) => Severity::Unknown,
        (Some(9..=15), _) => Severity::Hardware,
        // The recommended action is to isolate or reset the GPU, which cannot be used until then.
        (Some(1 | 2 | 5 | 16), Some(2 | 6)) => Severity::Hardware,
        (Some(4..=8), _) => Severity::Software,
        (Some(_), _) => Severity::Unknown,
        (None, _) if is_setting(title) || is_setting(&text) => Severity::Configuration,
        (None, _) if is_hardware(&text) => Severity::Hardware,
        (None, _) => Severity::Unknown,
    };
    out.finding(code, subject, severity, format_args!("{title}: {text}"), warning.line());
}

enum Code {
    /// An id of `dcgm_errors.h`.
    Error(u32),
    Named(&'static str),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(id) => write!(f, "DCGM_{id}"),
            Self::Named(name) => write!(f, "DCGM_{name}"),
        }
    }
}

/// Whether the text names a setting that an administrator can change. DCGM 3 reports no category.
fn is_setting(text: &str) -> bool {
    static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
        words(&["persistence mode", "denylist", "blacklist", "environment", "permission", "graphics process"])
    });
    WORDS.is_match(text)
}

/// Whether the text names a hardware defect. DCGM 3 reports no category.
fn is_hardware(text: &str) -> bool {
    static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
        words(&[
            "double bit",
            "dbe",
            "row remap",
            "retired page",
            "page retirement",
            "nvlink",
            "pcie replay",
            "uncorrectable",
        ])
    });
    WORDS.is_match(text)
}

/// Case-insensitive search for words.
fn words(words: &[&str]) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(words)
        .expect("the word list is within the automaton's size limit")
}
