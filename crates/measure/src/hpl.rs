//! HPL and HPL-NVIDIA: solves a linear system and checks the residual.

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    lines::{Line, Lines},
    number::{count, number},
    reading_builder::{ReadingBuilder, short},
    repetitions::{Repetition, Repetitions},
    text::{SearchPhrase, trim},
};

const THROUGHPUT: MetricDefinition = MetricDefinition::new(
    "hpl.throughput",
    "GFLOP/s",
    Better::Higher,
    Scope::World,
    "Rate of a test; labels `n`, `nb`, `p`, `q` and `variant`, and `repetition` from the second test with the same labels. Four or five digits are printed, so equal values are common",
);
const PER_GPU: MetricDefinition = MetricDefinition::new(
    "hpl.throughput.per_gpu",
    "GFLOP/s",
    Better::Higher,
    Scope::World,
    "Rate divided by the number of GPUs",
);
const TIME: MetricDefinition =
    MetricDefinition::new("hpl.time", "s", Better::Lower, Scope::World, "Duration of a test");
const RESIDUAL: MetricDefinition = MetricDefinition::new(
    "hpl.residual",
    "1",
    Better::Lower,
    Scope::World,
    "Scaled residual of the preceding test",
);

pub(crate) const FORMAT: Format = Format {
    name: "hpl",
    programs: "HPL 2.x and HPL-NVIDIA 23 to 26",
    end: "`End of Tests.`, if the numbers of results and residuals equal those in the summary",
    unread: "parameters and progress",
    metrics: &[THROUGHPUT, PER_GPU, TIME, RESIDUAL],
    findings: &[
        ("HPL_RESIDUAL", "The result of a test is wrong"),
        ("HPL_SKIPPED", "Tests were skipped because of illegal input"),
        ("HPL_ERROR", "The program failed"),
    ],
    marks: &[&["HPLinpack "], &["HPL-NVIDIA "], &["T/V", "NB", "Gflops"]],
    reader: Reader::Lines(|| Box::<Hpl>::default()),
};

#[derive(Default)]
struct Hpl {
    labels: [String; 5],
    repetitions: Repetitions,
    repetition: Repetition,
    /// Title of the column with the rates, which states their unit. `None` without a known header.
    unit: Option<String>,
    rows: u64,
    residuals: u64,
    /// Results that the summary counts: finished, passed, failed, skipped.
    summary: [Option<u64>; 4],
    started: bool,
    ended: bool,
    failed: bool,
}

static TESTS: SearchPhrase = SearchPhrase::new("tests ");
static ERROR: SearchPhrase = SearchPhrase::new(" error");

impl Lines for Hpl {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = trim(line.text);
        // Skip most lines early: they have neither the first letter of a line that is read nor one of the phrases.
        let begins = text.starts_with(['H', 'W', '|', 'F', 'E', 'T']);
        if !begins && TESTS.find(text).is_none() && ERROR.find(text).is_none()
            || text.starts_with("Column=")
            || text.starts_with("Prog=")
        {
            return;
        }
        if let Some(rest) = text.strip_prefix("HPLinpack ").or_else(|| text.strip_prefix("HPL-NVIDIA ")) {
            self.started = true;
            out.version(rest.split_whitespace().next().unwrap_or_default());
        } else if text.starts_with('W') && line.whole {
            self.row(text, line, out);
        } else if let Some(columns) = text.strip_prefix("T/V") {
            // The line `T/V    : Wall time / encoded variant.` is not a header: the unit stays unknown.
            let title =
                columns.split_once(" Time ").map(|(_, title)| title.split('(').next().unwrap_or(title));
            self.unit = title.map(|title| short(trim(title)).to_owned());
        } else if text.starts_with("||") && text.contains("=") {
            self.residual(text, line, out);
        } else if text.starts_with("Finished ") && text.contains(" tests with") {
            self.summary[0] = text.split_whitespace().nth(1).and_then(count);
        } else if text.contains("tests completed and passed") {
            self.summary[1] = text.split_whitespace().next().and_then(count);
        } else if text.contains("tests completed and failed") {
            self.summary[2] = text.split_whitespace().next().and_then(count);
            if self.summary[2] != Some(0) {
                out.finding("HPL_RESIDUAL", Subject::default(), Severity::WrongData, text, line.number);
            }
        } else if text.contains("tests skipped because of illegal") {
            self.summary[3] = text.split_whitespace().next().and_then(count);
            if self.summary[3] != Some(0) {
                out.finding("HPL_SKIPPED", Subject::default(), Severity::Configuration, text, line.number);
            }
        } else if text.starts_with("End of Tests") {
            self.ended = true;
        } else if text.starts_with("HPL ERROR") || text.contains("CUDA error") || text.contains("NCCL error")
        {
            self.failed = true;
            out.error(text);
            out.finding("HPL_ERROR", Subject::default(), Severity::Unknown, text, line.number);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        let [finished, passed, failed, _] = self.summary.map(|count| count.unwrap_or(0));
        let counted = self.rows > 0 && self.rows == finished && self.residuals == passed + failed;
        match () {
            () if self.ended && counted => LogEnd::Complete,
            () if self.failed => LogEnd::Failed,
            () if self.started || self.rows > 0 => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

impl Hpl {
    /// `WC0 376832 1024 4 4 85.42 4.176e+05 ( 2.610e+04)`.
    fn row(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let words: Vec<_> = text.split(|c: char| c.is_whitespace() || c == '(' || c == ')').collect();
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let (7..=8) = words.len() else { return };
        if words[1..5].iter().any(|word| count::<u64>(word).is_none()) || number(words[5]).is_none() {
            return;
        }
        self.started = true;
        self.rows += 1;
        for (label, word) in self.labels.iter_mut().zip([words[0], words[1], words[2], words[3], words[4]]) {
            short(word).clone_into(label);
        }
        self.repetition = self.repetitions.count(self.labels.iter().map(String::as_str));
        // Bounds without a unit are in the unit of the registry, so they do not judge a rate in another unit.
        let (time, rate) = match self.unit.as_deref() {
            Some("Gflops") => (TIME.unit, THROUGHPUT.unit),
            Some("") => (TIME.unit, "unknown"),
            Some(unit) => (TIME.unit, unit),
            None => ("unknown", "unknown"),
        };
        for (known, unit, word) in [
            (&TIME, time, Some(&words[5])),
            (&THROUGHPUT, rate, Some(&words[6])),
            (&PER_GPU, rate, words.get(7)),
        ] {
            if let Some(word) = word {
                self.put(known, unit, word, line, out);
            }
        }
    }

    fn put(
        &self,
        definition: &'static MetricDefinition,
        unit: &str,
        text: &str,
        line: Line<'_>,
        out: &mut ReadingBuilder,
    ) {
        let mut put = out.put_parts(definition, &[], unit);
        for (name, label) in ["variant", "n", "nb", "p", "q"].into_iter().zip(&self.labels) {
            put = put.label(name, label);
        }
        self.repetition.label(put).read(text, line.number);
    }

    /// Reads a residual: `||Ax-b||_oo/(...)=   4.12139792e-03 ...... PASSED`.
    fn residual(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let Some((_, rest)) = text.rsplit_once('=') else { return };
        let mut words = rest.split_whitespace();
        let (value, result) = (words.next().unwrap_or_default(), words.next_back().unwrap_or_default());
        if !matches!(result, "PASSED" | "FAILED") {
            return;
        }
        self.residuals += 1;
        self.put(&RESIDUAL, RESIDUAL.unit, value, line, out);
        let wrong = result == "FAILED" || number(value).is_none();
        if wrong {
            out.finding("HPL_RESIDUAL", Subject::default(), Severity::WrongData, text, line.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(header: &str) -> Vec<String> {
        let log = format!("HPLinpack 2.3\n{header}\nWR0 1000 100 1 2 46.37 8.1e+03 ( 4.0e+03)\n");
        let metrics = crate::read_as(&FORMAT, log.as_bytes()).unwrap().metrics;
        metrics.iter().map(|metric| metric.unit.to_string()).collect()
    }

    #[test]
    fn the_unit_of_the_rates_is_read_from_the_column_title() {
        let old = "T/V                N    NB     P     Q               Time                 Gflops";
        assert_eq!(units(old), ["s", "GFLOP/s", "GFLOP/s"]);
        let new = "T/V                N    NB     P     Q         Time          Gflops (   per GPU)";
        assert_eq!(units(new), ["s", "GFLOP/s", "GFLOP/s"]);
        assert_eq!(units(&new.replace("Gflops", "Tflops")), ["s", "Tflops", "Tflops"]);
        assert_eq!(units(&new.replace("Gflops", "")), ["s", "unknown", "unknown"]);
        assert_eq!(units("T/V    : Wall time / encoded variant."), ["unknown"; 3], "no header");
        assert_eq!(units(&new.replace("Time", "Time(ms)")), ["unknown"; 3], "another header");
    }

    /// Input files repeat a size to measure it several times.
    #[test]
    fn a_repeated_test_has_the_label_repetition() {
        let row = "WR0 1000 100 1 2 46.37 8.1e+03 ( 4.0e+03)\n";
        let log = format!("HPLinpack 2.3\n{row}{}{row}", row.replace("1000", "2000"));
        let metrics = crate::read_as(&FORMAT, log.as_bytes()).unwrap().metrics;
        let rates = metrics.iter().filter(|metric| *metric.name == *THROUGHPUT.name);
        let numbers: Vec<_> =
            rates.map(|metric| metric.labels.get("repetition").map(String::as_str)).collect();
        assert_eq!(numbers, [None, None, Some("2")]);
    }
}
