//! Results in the formats of other tools: BMF, github-action-benchmark, OpenMetrics and key=value.
//!
//! These formats state no direction of improvement: the metrics are evidence until criteria state a direction.

use std::{borrow::Cow, collections::BTreeMap};

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    json::{JsonDocuments, JsonValue},
    lines::{Line, Lines},
    number::{count, number},
    reading_builder::{ReadingBuilder, short},
    text::{find_near, same, trim, words},
};

const MEASURE: MetricDefinition = MetricDefinition::new(
    "bmf.<measure>",
    "unknown",
    Better::None,
    Scope::Node,
    "Value of a measure; label `benchmark`. The format has no unit",
);
const ENTRY: MetricDefinition = MetricDefinition::new(
    "github_benchmark.value",
    "printed",
    Better::None,
    Scope::Node,
    "Value of a benchmark; label `benchmark`",
);
const SAMPLE: MetricDefinition = MetricDefinition::new(
    "openmetrics.<name>",
    "printed",
    Better::None,
    Scope::Node,
    "A sample; its labels are kept, except that `gpu`, `UUID`, `pci_bus_id` and `device` identify the GPU, and `hostname` the node. The unit is \
     that of `# UNIT`, otherwise `unknown`",
);
const PAIR: MetricDefinition = MetricDefinition::new(
    "kv.<key>",
    "printed",
    Better::None,
    Scope::Node,
    "A number of a line `key=value`; the unit follows from the suffix of the key, such as `_us`, otherwise `unknown`. Label `repetition` from \
     the second run of the program; a run starts at the first key of the log after an end mark",
);

pub(crate) const BMF: Format = Format {
    name: "bmf",
    programs: "Bencher Metric Format: `{benchmark: {measure: {value, ...}}}`; not detected, `read: bmf` selects it",
    end: "the closing bracket",
    unread: "lower and upper values",
    metrics: &[MEASURE],
    findings: &[],
    marks: &[],
    reader: Reader::Lines(|| Box::<Bmf>::default()),
};

pub(crate) const GITHUB: Format = Format {
    name: "github-action-benchmark",
    programs: "`[{name, unit, value, ...}]`; not detected, `read: github-action-benchmark` selects it",
    end: "the closing bracket",
    unread: "range and extra",
    metrics: &[ENTRY],
    findings: &[],
    marks: &[],
    reader: Reader::Lines(|| Box::<GithubBenchmark>::default()),
};

pub(crate) const OPENMETRICS: Format = Format {
    name: "openmetrics",
    programs: "OpenMetrics text, and Prometheus text with an end mark",
    end: "`# EOF`",
    unread: "time stamps and exemplars",
    metrics: &[SAMPLE],
    findings: &[],
    marks: &[&["# TYPE ", "# EOF"]],
    reader: Reader::Lines(|| Box::<OpenMetrics>::default()),
};

pub(crate) const KEY_VALUE: Format = Format {
    name: "key-value",
    programs: "lines `key=value`; not detected, `read: key-value` selects it",
    end: "a line of capitals that ends with `PASS`, `FAIL` or `SKIP`",
    unread: "values other than numbers and `n/a`",
    metrics: &[PAIR],
    findings: &[("CHECK_FAILED", "The last line is `FAIL`"), ("CHECK_SKIPPED", "The last line is `SKIP`")],
    marks: &[],
    reader: Reader::Lines(|| Box::<KeyValue>::default()),
};

#[derive(Default)]
struct Bmf(JsonDocuments);

impl Lines for Bmf {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        self.0.line(&line, b"{", out, |root, out| {
            let mut ended = LogEnd::Truncated;
            for (benchmark, measures) in root.members() {
                for (measure, values) in measures.members() {
                    let Some(value) = values.get("value") else { return LogEnd::Truncated };
                    ended = LogEnd::Complete;
                    if out.omit() {
                        continue;
                    }
                    let metric = out
                        .put_made(&MEASURE, &measure, |measure| {
                            MEASURE.name.replace("<measure>", &plain(measure))
                        })
                        .label("benchmark", &benchmark);
                    metric.read(&value.text().unwrap_or_default(), value.line());
                }
            }
            ended
        });
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        self.0.finish(LogEnd::Empty)
    }
}

#[derive(Default)]
struct GithubBenchmark(JsonDocuments);

impl Lines for GithubBenchmark {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        self.0.line(&line, b"[", out, |root, out| {
            let mut ended = LogEnd::Truncated;
            for entry in root.items() {
                let [name, value, unit] = entry.get_each(["name", "value", "unit"]);
                let (Some(name), Some(value)) = (name.and_then(JsonValue::text), value) else {
                    return LogEnd::Truncated;
                };
                ended = LogEnd::Complete;
                if out.omit() {
                    continue;
                }
                let unit = unit.and_then(JsonValue::text).filter(|unit| !unit.is_empty());
                let metric = out
                    .put_parts(&ENTRY, &[], unit.as_deref().unwrap_or("unknown"))
                    .label("benchmark", &name);
                metric.read(&value.text().unwrap_or_default(), value.line());
            }
            ended
        });
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        self.0.finish(LogEnd::Empty)
    }
}

/// Name in lower case; characters other than letters, digits and `.` become `_`.
fn plain(name: &str) -> Cow<'_, str> {
    let name = short(name);
    if name.bytes().all(|byte| PLAIN[usize::from(byte)]) {
        return name.into();
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '_' };
    name.chars().map(plain).collect()
}

/// For each byte, whether a lower-case name may contain it.
const PLAIN: [bool; 256] = {
    let (mut plain, mut byte) = ([false; 256], 0);
    while byte < plain.len() {
        plain[byte] = matches!(byte as u8, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_');
        byte += 1;
    }
    plain
};

/// Maximum number of metric families with a declared unit.
const UNITS: usize = 512;

#[derive(Default)]
struct OpenMetrics {
    units: BTreeMap<String, String>,
    samples: u64,
    ended: bool,
    broken: bool,
}

impl Lines for OpenMetrics {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = trim(line.text);
        if let Some(comment) = text.strip_prefix('#') {
            let mut words = comment.split_whitespace();
            match words.next() {
                Some("EOF") => self.ended = true,
                Some("UNIT") => {
                    let stated =
                        words.next().zip(words.next()).filter(|_| self.units.len() < UNITS && line.whole);
                    self.units
                        .extend(stated.map(|(name, unit)| (short(name).to_owned(), short(unit).to_owned())));
                }
                _ => {}
            }
        } else if self.ended || !line.whole || self.sample(text, line, out).is_none() {
            // A line after the end mark, a truncated line or an invalid sample makes the log incomplete.
            self.broken = true;
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        match () {
            () if self.ended && self.samples > 0 && !self.broken => LogEnd::Complete,
            () if self.samples > 0 || self.ended => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

impl OpenMetrics {
    /// Unit of a sample. The sample name is the metric family name, possibly with a type suffix (OpenMetrics 1.0, section "Suffixes").
    fn unit(&self, name: &str) -> &str {
        let of = |family: &str| self.units.get(family).map(String::as_str);
        let with = |suffixes: &[&str]| suffixes.iter().find_map(|suffix| of(name.strip_suffix(suffix)?));
        of(name)
            .or_else(|| with(&["_total", "_sum", "_gsum"]))
            .or_else(|| with(&["_count", "_bucket", "_gcount"]).and(Some("count")))
            .or_else(|| with(&["_created"]).and(Some("s")))
            .unwrap_or("unknown")
    }

    /// Reads a sample: `name{label="value"} 1.5 [time]`.
    fn sample(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) -> Option<()> {
        let end = text.find(['{', ' '])?;
        let (name, mut rest) = text.split_at(end);
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            loop {
                rest = rest.trim_start_matches([',', ' ']);
                if let Some(after) = rest.strip_prefix('}') {
                    rest = after;
                    break;
                }
                let (label, after) = rest.split_once("=\"")?;
                let quote = closing(after)?;
                if labels.len() < 32 {
                    labels.push((label, &after[..quote]));
                }
                rest = &after[quote + 1..];
            }
        }
        let value = words(rest).next()?;
        self.samples += 1;
        let mut put = out.put_parts(&SAMPLE, &[&plain(name)], self.unit(name));
        let gpu = labels
            .iter()
            .find(|(label, _)| label.eq_ignore_ascii_case("gpu"))
            .and_then(|(_, gpu)| count(gpu));
        if let Some(gpu) = gpu {
            put = put.gpu(gpu).scope(Scope::Gpu);
        }
        for (label, value) in labels {
            // The identity of a GPU, by the labels of dcgm-exporter (NVIDIA/dcgm-exporter, internal/pkg/rendermetrics/render_metrics.go at
            // 4.5.3-4.8.2). As labels they would prevent every comparison of GPUs.
            put = match label.to_ascii_lowercase().as_str() {
                "gpu" if gpu.is_some() => put,
                "device" if gpu.is_some_and(|gpu| *value == format!("nvidia{gpu}")) => put,
                "uuid" if gpu.is_some() => put.subject(|subject| subject.serial = Some(short(value).into())),
                "pci_bus_id" if gpu.is_some() => {
                    put.subject(|subject| subject.bus_id = Some(short(value).into()))
                }
                "hostname" => put.subject(|subject| subject.node = Some(short(value).into())),
                _ => put.label(label, value),
            };
        }
        put.read(value, line.number);
        Some(())
    }
}

/// Position of the closing quote.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes.then_some(at)
    })
}

/// Key and value of a text `key=value`. Surrounding blanks are ignored; only the value may contain blanks.
fn pair(text: &str) -> Option<(&str, &str)> {
    let first = find_near([b'=', b' '], text.as_bytes())?;
    let equals = first + text.as_bytes()[first..].iter().position(|byte| *byte == b'=')?;
    let key = trim(&text[..equals]);
    let is_key = first == equals || !key.bytes().any(|byte| byte == b' ');
    is_key.then(|| (key, trim(&text[equals + 1..])))
}

/// Unit from the suffix of a key.
fn unit(key: &str) -> &'static str {
    let Some(at) = key.bytes().rposition(|byte| byte == b'_') else { return "unknown" };
    let (rest, suffix) = (&key[..at], &key[at + 1..]);
    match suffix {
        "seconds" => "s",
        "percent" => "%",
        "tflops" => "TFLOP/s",
        "gflops" => "GFLOP/s",
        "bytes" => "B",
        "count" => "count",
        "watts" => "W",
        "ratio" => "1",
        "mhz" => "MHz",
        "ms" => "ms",
        "us" => "us",
        "ns" => "ns",
        "c" => "C",
        "s" => match rest.rsplit_once('_') {
            Some((_, "mib")) => "MiB/s",
            Some((_, "gib")) => "GiB/s",
            Some((_, "gb")) => "GB/s",
            _ => "unknown",
        },
        _ => "unknown",
    }
}

#[derive(Default)]
struct KeyValue {
    values: u64,
    ended: bool,
    /// The first key with a value. A second occurrence marks a repeated run of the program: another section of the same run starts
    /// with another key.
    first: Option<String>,
    /// Number of the current run of the program; `None` for the first run.
    repetition: Option<u64>,
    /// Whether an end mark followed the first key of the run.
    marked: bool,
}

impl Lines for KeyValue {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = trim(line.text);
        let Some((key, value)) = pair(text) else { return self.result(text, line, out) };
        self.ended = false;
        let number = number(value);
        if !line.whole || number.is_none() && !value.eq_ignore_ascii_case("n/a") {
            return;
        }
        self.values += 1;
        let first = self.first.get_or_insert_with(|| short(key).to_owned());
        if self.marked && same(first.as_bytes(), short(key).as_bytes()) {
            self.marked = false;
            self.repetition = Some(self.repetition.map_or(2, |number| number.saturating_add(1)));
        }
        if out.omit() {
            return;
        }
        let mut put = out.put_made_with_unit(&PAIR, key, |key| {
            let key = plain(key);
            (PAIR.name.replace("<key>", &key), unit(&key))
        });
        if let Some(repetition) = self.repetition {
            put = put.number("repetition", repetition);
        }
        match number {
            Some(number) => put.value(number, line.number),
            None => put.unmeasurable(value, line.number),
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        match () {
            () if self.ended => LogEnd::Complete,
            () if self.values > 0 => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

impl KeyValue {
    /// Reads the result of a check: `PROBE_PASS`. Other lines without a pair are ignored.
    fn result(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let Some((check, result @ (b"PASS" | b"FAIL" | b"SKIP"))) = text.as_bytes().split_last_chunk::<4>()
        else {
            return;
        };
        if check.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'_')) {
            self.ended = self.values > 0;
            self.marked = self.ended;
            let code = match result {
                b"FAIL" => "CHECK_FAILED",
                b"SKIP" => "CHECK_SKIPPED",
                _ => return,
            };
            out.finding(code, Subject::default(), Severity::Unknown, text, line.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(log: &str) -> Vec<model::metric::Metric> {
        crate::read_as(&OPENMETRICS, format!("{log}# EOF\n").as_bytes()).unwrap().metrics
    }

    #[test]
    fn a_sample_has_the_unit_of_its_own_family() {
        let log = "# UNIT io_seconds seconds\n# UNIT io bytes\nio_seconds_sum 1\nio_seconds_count 2\nio_seconds_bucket{le=\"1\"} 2\n\
                   io_seconds_created 5\nio_total 7\nio_seconds_other 3\niops 4\n";
        let units: Vec<_> = read(log).iter().map(|metric| metric.unit.to_string()).collect();
        assert_eq!(units, ["seconds", "count", "count", "s", "bytes", "unknown", "unknown"]);
    }

    #[test]
    fn labels_that_identify_a_gpu_are_its_subject() {
        let log = "power{gpu=\"3\",UUID=\"GPU-1\",pci_bus_id=\"00000000:1B:00.0\",device=\"nvidia3\",modelName=\"H100\",Hostname=\"n1\"} 9\n\
                   load{device=\"sda\"} 1\n";
        let metrics = read(log);
        let subject = Subject {
            node: Some("n1".into()),
            serial: Some("GPU-1".into()),
            bus_id: Some("00000000:1B:00.0".into()),
            ..Subject::gpu(3)
        };
        assert_eq!((&metrics[0].subject, metrics[0].scope), (&subject, Scope::Gpu));
        // Only GPUs with equal labels are compared with each other.
        assert_eq!(metrics[0].labels.keys().collect::<Vec<_>>(), ["modelName"]);
        assert_eq!(metrics[1].labels["device"], "sda");
    }
}
