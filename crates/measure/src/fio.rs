//! fio `--output-format=json`: bandwidth, operations and latency of storage.

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    json::{JsonDocuments, JsonValue},
    lines::{Line, Lines},
    reading_builder::ReadingBuilder,
    repetitions::Repetitions,
};

const BANDWIDTH: MetricDefinition = MetricDefinition::new(
    "fio.<operation>.bandwidth",
    "B/s",
    Better::Higher,
    Scope::Node,
    "Bandwidth of `read`, `write` or `trim`; label `job`, and label `repetition` from the second job of the same name on (`numjobs`). Operations without input or output are omitted",
);
const OPERATIONS: MetricDefinition = MetricDefinition::new(
    "fio.<operation>.iops",
    "1/s",
    Better::Higher,
    Scope::Node,
    "Operations per second",
);
const MEAN: MetricDefinition = MetricDefinition::new(
    "fio.<operation>.latency.mean",
    "ns",
    Better::Lower,
    Scope::Node,
    "Mean latency from submission to completion",
);
const P99: MetricDefinition = MetricDefinition::new(
    "fio.<operation>.latency.p99",
    "ns",
    Better::Lower,
    Scope::Node,
    "99th percentile of the latency",
);

pub(crate) const FORMAT: Format = Format {
    name: "fio",
    programs: "fio 3, JSON; text may precede the document",
    end: "the closing bracket of the document",
    unread: "options, processor use, other percentiles and statistics",
    metrics: &[BANDWIDTH, OPERATIONS, MEAN, P99],
    findings: &[("FIO_ERROR", "A job failed")],
    marks: &[&["\"fio version\""]],
    reader: Reader::Lines(|| Box::<Fio>::default()),
};

#[derive(Default)]
struct Fio {
    json: JsonDocuments,
    /// Counts over all documents: `--status-interval`, and fio in a loop, print several documents.
    repetitions: Repetitions,
    failed: bool,
}

impl Lines for Fio {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let Self { json, repetitions, .. } = self;
        let is_document = json.line(&line, b"{", out, |root, out| document(root, repetitions, out));
        if !is_document && line.text.starts_with("fio: ") {
            let text = line.text;
            // Notes have the same prefix; only these words report a failure.
            if text.contains("error") || text.contains("failed") || text.contains("pid=") {
                self.failed = true;
                out.error(text);
                out.finding("FIO_ERROR", Subject::default(), Severity::Unknown, text, line.number);
            }
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        let ended = self.json.finish(LogEnd::Empty);
        if ended == LogEnd::Empty && self.failed { LogEnd::Failed } else { ended }
    }
}

fn document(root: JsonValue<'_>, repetitions: &mut Repetitions, out: &mut ReadingBuilder) -> LogEnd {
    let Some(version) = root.get_text("fio version") else { return LogEnd::Empty };
    out.version(version.strip_prefix("fio-").unwrap_or(&version));
    let mut ended = LogEnd::Truncated;
    for job in root.get_items("jobs") {
        let name = job.get_text("jobname").unwrap_or_default();
        if let Some(error) = job.get("error").filter(|error| error.text().is_some_and(|text| text != "0")) {
            let text = format!("job {name}: error {}", error.text().unwrap_or_default());
            out.error(&text);
            out.finding("FIO_ERROR", Subject::default(), Severity::Unknown, &text, error.line());
        }
        let repetition = repetitions.count([&*name]);
        for operation in ["read", "write", "trim"] {
            let Some(values) = job.get(operation) else { continue };
            let idle = values.get_text("io_bytes").is_none_or(|bytes| bytes == "0");
            if idle {
                continue;
            }
            ended = LogEnd::Complete;
            let latency = ["lat_ns", "clat_ns"].into_iter().filter_map(|key| values.get(key));
            let percentile = |value: JsonValue<'_>| value.get("percentile").is_some();
            let p99 = latency
                .clone()
                .filter(|value| percentile(*value))
                .find_map(|value| value.get("percentile")?.get("99.000000"));
            let mean = latency.clone().find_map(|value| value.get("mean"));
            let parts = [
                (&BANDWIDTH, values.get("bw_bytes")),
                (&OPERATIONS, values.get("iops")),
                (&MEAN, mean),
                (&P99, p99),
            ];
            for (known, value) in parts {
                let Some(value) = value else {
                    if known.name == BANDWIDTH.name {
                        ended = LogEnd::Truncated;
                    }
                    continue;
                };
                let metric = out.put_parts(known, &[operation], known.unit).label("job", &name);
                repetition.label(metric).read(&value.text().unwrap_or_default(), value.line());
            }
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_the_same_name_are_numbered_over_all_documents() {
        let document = |bandwidths: [u64; 2]| {
            let job = |bandwidth| {
                format!("{{\"jobname\": \"a\", \"read\": {{\"io_bytes\": 1, \"bw_bytes\": {bandwidth}}}}}")
            };
            let jobs = bandwidths.map(job).join(",\n");
            format!("{{\n\"fio version\": \"fio-3.36\",\n\"jobs\": [\n{jobs}\n]\n}}\n")
        };
        let log = document([5, 6]) + &document([7, 8]);
        let reading = crate::read_as(&FORMAT, log.as_bytes()).unwrap();
        let repetitions: Vec<_> =
            reading.metrics.iter().map(|metric| metric.labels.get("repetition").cloned()).collect();
        let [second, third, fourth] = ["2", "3", "4"].map(|number| Some(number.to_owned()));
        assert_eq!(repetitions, [None, second, third, fourth]);
        assert_eq!(reading.ended, LogEnd::Complete);
    }
}
