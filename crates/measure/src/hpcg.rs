//! HPCG: conjugate gradients, limited by memory and network.

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    lines::{Line, Lines},
    reading_builder::{ReadingBuilder, short},
    text::{SearchPhrase, trim},
};

const THROUGHPUT: MetricDefinition =
    MetricDefinition::new("hpcg.throughput", "GFLOP/s", Better::Higher, Scope::World, "The final rating");

pub(crate) const FORMAT: Format = Format {
    name: "hpcg",
    programs: "HPCG 3.x (`Final Summary`), and NVIDIA's HPCG before it (`final =`)",
    end: "`Final Summary::HPCG result is ...`, or `end of application` after `final =`",
    unread: "progress, residuals and parts of the rating",
    metrics: &[THROUGHPUT],
    findings: &[
        ("HPCG_INVALID", "The program reports its result as invalid"),
        ("HPCG_ERROR", "The program failed"),
    ],
    marks: &[
        &["HPCG result is"],
        &["HPCG-Benchmark"],
        &["SymGS", "final =", "GF_per"],
        &["Final Summary=", "HPCG"],
    ],
    reader: Reader::Lines(|| Box::<Hpcg>::default()),
};

#[derive(Default)]
struct Hpcg {
    started: bool,
    rated: bool,
    ended: bool,
    failed: bool,
    /// Whether the line with the name of the program was read.
    is_named: bool,
}

static RESULT: SearchPhrase = SearchPhrase::new("HPCG result is");

impl Lines for Hpcg {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = trim(line.text);
        if let Some((_, result)) = RESULT.split_once(text) {
            let result = result.trim_start();
            self.started = true;
            // Version 3.0 prints a colon instead of the equals sign.
            let rated = result.split_once("rating of=").or_else(|| result.split_once("rating of: "));
            let Some((before, rating)) = rated.filter(|_| line.whole) else {
                if result.trim_start_matches([':', '=', ' ']).starts_with("INVALID") && line.whole {
                    (self.rated, self.ended) = (true, true);
                    invalid(text, line, out);
                }
                return;
            };
            // Bounds without a unit are in the unit of the registry, so they do not judge a rating in another unit.
            let unit = before.split_once("with a ").map_or("", |(_, unit)| trim(unit));
            let unit = if unit.is_empty() { "unknown" } else { short(unit) };
            out.put_parts(&THROUGHPUT, &[], unit).read(rating, line.number);
            (self.rated, self.ended) = (true, true);
            if !result.starts_with("VALID") {
                invalid(text, line, out);
            }
        } else if let Some(rest) = text.strip_prefix("final =") {
            let mut words = rest.split_whitespace();
            let (value, unit) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            if line.whole {
                self.rated = true;
                let unit = if unit == "GF" { "GFLOP/s" } else { unit };
                out.put_parts(&THROUGHPUT, &[], unit).read(value, line.number);
            }
        } else if text.starts_with("end of application") {
            self.ended |= self.rated;
        } else if let Some(version) = text.strip_prefix("HPCG-Benchmark version: ") {
            self.started = true;
            out.version(version);
        } else if text.contains("HPCG") || text.starts_with("SpMV") {
            // Version 3.1 prints its number in the line after the name.
            self.started = true;
            self.is_named = text == "HPCG-Benchmark";
        } else if let Some(version) = text.strip_prefix("version=").filter(|_| self.is_named) {
            out.version(version);
        } else if text.contains("CUDA error") || text.starts_with("ERROR") {
            self.failed = true;
            out.error(text);
            out.finding("HPCG_ERROR", Subject::default(), Severity::Unknown, text, line.number);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        match () {
            () if self.rated && self.ended => LogEnd::Complete,
            () if self.failed => LogEnd::Failed,
            () if self.started || self.rated => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

fn invalid(text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
    out.finding("HPCG_INVALID", Subject::default(), Severity::WrongData, text, line.number);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rating_has_the_printed_unit() {
        let unit = |text: &str| {
            let log = format!("Final Summary::HPCG result is VALID {text} of=523.118\n");
            crate::read_as(&FORMAT, log.as_bytes()).unwrap().metrics[0].unit.to_string()
        };
        assert_eq!(unit("with a GFLOP/s rating"), "GFLOP/s");
        assert_eq!(unit("with a TFLOP/s rating"), "TFLOP/s");
        assert_eq!(unit("with a rating"), "unknown");
        assert_eq!(unit("rating"), "unknown");
    }
}
