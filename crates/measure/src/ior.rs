//! IOR and mdtest: bandwidth and metadata rates of shared storage.

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    lines::{Line, Lines},
    number::number,
    reading_builder::{ReadingBuilder, short},
    text::{trim, words},
};

const BANDWIDTH: MetricDefinition = MetricDefinition::new(
    "ior.<operation>.bandwidth",
    "printed",
    Better::Higher,
    Scope::World,
    "Highest bandwidth of `write` or `read`, MiB/s; label `test` numbers the tests of a log",
);
const RATE: MetricDefinition = MetricDefinition::new(
    "mdtest.<operation>",
    "1/s",
    Better::Higher,
    Scope::World,
    "Mean rate of an operation such as `file_creation` over the iterations; label `test` numbers the summaries of a log",
);

pub(crate) const IOR: Format = Format {
    name: "ior",
    programs: "IOR 3 and 4, text",
    end: "`Finished` for each banner `IOR-...`",
    unread: "options, single repetitions and the summary, which repeats the highest bandwidth",
    metrics: &[BANDWIDTH],
    findings: &[("IOR_ERROR", "The program failed or found wrong data")],
    marks: &[&["IOR-", "MPI Coordinated Test of Parallel I/O"]],
    reader: Reader::Lines(|| Box::<Ior>::default()),
};

pub(crate) const MDTEST: Format = Format {
    name: "mdtest",
    programs: "mdtest 1, 3 and 4, text",
    end: "`-- finished at` for each `-- started at`",
    unread: "highest, lowest and deviation of the rates; verbose lines",
    metrics: &[RATE],
    findings: &[("MDTEST_ERROR", "The program failed")],
    marks: &[&["mdtest-", "was launched with"], &["-- started at", "SUMMARY"]],
    reader: Reader::Lines(|| Box::<Mdtest>::default()),
};

#[derive(Default)]
struct Ior {
    started: u32,
    finished: u32,
    tests: [u32; 2],
    broken: bool,
    failed: bool,
}

impl Lines for Ior {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = trim(line.text);
        if let Some(version) = text.strip_prefix("IOR-").filter(|text| text.contains("Coordinated")) {
            self.started += 1;
            out.version(version.split(':').next().unwrap_or_default());
        } else if let Some((operation, rest)) =
            text.strip_prefix("Max ").and_then(|text| text.split_once(':'))
        {
            let which = usize::from(operation == "Read");
            if !matches!(operation, "Write" | "Read") {
                return;
            }
            let mut words = rest.split_whitespace();
            let (value, unit) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            if !line.whole {
                self.broken = true;
                return;
            }
            self.tests[which] += 1;
            let unit = if unit == "MiB/sec" { "MiB/s" } else { unit };
            let metric = out.put_parts(&BANDWIDTH, &[["write", "read"][which]], unit);
            let metric = metric.label("test", &self.tests[which].to_string());
            metric.read(value, line.number);
        } else if text.starts_with("Finished") {
            self.finished += 1;
        } else if text.contains("ERROR") || text.contains("incorrect data") || text.starts_with("ior ERROR") {
            let wrong = text.contains("incorrect data") || text.contains("data check");
            self.failed = true;
            out.error(text);
            let severity = if wrong { Severity::WrongData } else { Severity::Unknown };
            out.finding("IOR_ERROR", Subject::default(), severity, text, line.number);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        let measured = self.tests.iter().sum::<u32>() > 0;
        match () {
            () if measured && self.started > 0 && self.finished == self.started && !self.broken => {
                LogEnd::Complete
            }
            () if self.failed => LogEnd::Failed,
            () if self.started > 0 || measured => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

#[derive(Default)]
struct Mdtest {
    started: u32,
    finished: u32,
    summaries: u32,
    rows: u32,
    operation: String,
    in_summary: bool,
    broken: bool,
    failed: bool,
}

impl Lines for Mdtest {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = trim(line.text);
        if let Some((version, _)) =
            text.strip_prefix("mdtest-").and_then(|text| text.split_once(" was launched"))
        {
            out.version(version);
        } else if text.starts_with("-- started at") {
            self.started += 1;
        } else if text.starts_with("-- finished at") {
            self.finished += 1;
            self.in_summary = false;
        } else if text.starts_with("SUMMARY") {
            // Skip the summary `SUMMARY time`, which lists times instead of rates.
            self.in_summary = !text.starts_with("SUMMARY time");
            self.summaries += u32::from(self.in_summary);
        } else if let Some((operation, rates)) = text.split_once(':').filter(|_| self.in_summary) {
            let mut rates = words(rates);
            let mean = rates.clone().nth(2);
            let Some(mean) = mean.filter(|_| rates.all(|rate| number(rate).is_some())) else { return };
            if !line.whole {
                self.broken = true;
                return;
            }
            self.rows += 1;
            self.operation.clear();
            for word in operation.split_whitespace() {
                self.operation.push_str(if self.operation.is_empty() { "" } else { "_" });
                self.operation.push_str(word);
            }
            self.operation.make_ascii_lowercase();
            let metric = out
                .put_parts(&RATE, &[short(&self.operation)], RATE.unit)
                .label("test", &self.summaries.to_string());
            metric.read(mean, line.number);
        } else if text.contains("FAILED") || text.contains("ERROR") {
            self.failed = true;
            out.error(text);
            out.finding("MDTEST_ERROR", Subject::default(), Severity::Unknown, text, line.number);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        match () {
            () if self.rows > 0 && self.started > 0 && self.started == self.finished && !self.broken => {
                LogEnd::Complete
            }
            () if self.failed => LogEnd::Failed,
            () if self.started > 0 || self.rows > 0 => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}
