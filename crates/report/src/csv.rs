//! All measurements as CSV for a spreadsheet (RFC 4180), with their references and bounds.
//!
//! The rows of tables come first, then one row for each metric, finding and suspect. All have the same columns, so
//! that files of several runs can be joined; columns that do not apply are empty.

use model::metric::{Better, Scope};
use serde::Serialize;
use verdict::baseline::Region;

use crate::{
    ReportInput, evidence,
    measured::{MeasuredSize, MeasuredTable, Placed, measured},
    metrics::{FindingSummary, MetricSummary, Metrics, metrics, severity, subject_or_log},
    text,
};

/// One placement of one size, one metric, one finding or one suspect. The field names are an interface.
#[derive(Default, Serialize)]
struct CsvRow<'a> {
    source: &'a str,
    table: Option<usize>,
    collective: Option<&'a str>,
    ranks: Option<u32>,
    size_bytes: Option<u64>,
    dtype: String,
    redop: Option<String>,
    placement: &'static str,
    region: Option<Region>,
    time_us: Option<f64>,
    algbw: Option<f64>,
    busbw: Option<f64>,
    wrong: Option<u64>,
    floor_busbw: Option<f64>,
    reference_busbw: Option<f64>,
    baseline_time_us: Option<f64>,
    baseline_low_us: Option<f64>,
    baseline_high_us: Option<f64>,
    slowdown: Option<f64>,
    below: String,
    metric: String,
    labels: String,
    unit: String,
    better: Option<Better>,
    scope: Option<Scope>,
    subjects: Option<u64>,
    measured: Option<u64>,
    median: Option<f64>,
    worst: Option<f64>,
    /// The worst subject of a metric, or the subject of a finding.
    subject: String,
    finding: String,
    severity: &'static str,
    times: Option<u64>,
    text: String,
    suspect: String,
    confidence: Option<f64>,
}

/// All measurements; the number of rows is unlimited. The header is written even without rows.
#[must_use]
pub fn csv(input: &ReportInput<'_>) -> String {
    let mut out = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
    let mut lines = 0;
    // Writing to memory cannot fail.
    for table in measured(input) {
        let (source, collective) = (cell(table.source), table.table.collective.as_deref().map(cell));
        for row in &table.rows {
            let placed = [("out_of_place", &row.out_of_place), ("in_place", &row.in_place)];
            for (placement, placed) in placed {
                let Some(placed) = placed else { continue };
                let named = (source.as_str(), collective.as_deref(), placement);
                drop(out.serialize(line(&table, row, placed, named)));
                lines += 1;
            }
        }
    }
    others(input, |row| {
        drop(out.serialize(row));
        lines += 1;
    });
    let written = String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default();
    if lines == 0 { heading() } else { written }
}

/// The header alone. The writer derives a header from its first row, so a default row is written and cut off.
fn heading() -> String {
    let mut out = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
    drop(out.serialize(CsvRow::default()));
    let written = String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default();
    written.split_inclusive("\r\n").next().unwrap_or_default().to_owned()
}

fn line<'a>(
    table: &MeasuredTable<'_>,
    row: &MeasuredSize<'_>,
    placed: &Placed<'_>,
    (source, collective, placement): (&'a str, Option<&'a str>, &'static str),
) -> CsvRow<'a> {
    let number = |value: f64| value.is_finite().then_some(value);
    let expected = placed.expected.as_ref();
    CsvRow {
        source,
        table: Some(table.number),
        collective,
        ranks: table.table.ranks,
        size_bytes: Some(row.size_bytes),
        dtype: cell(row.dtype),
        redop: row.redop.map(cell),
        placement,
        region: row.region,
        time_us: number(placed.half.time_us),
        algbw: number(placed.half.algbw),
        busbw: number(placed.half.busbw),
        wrong: placed.half.wrong,
        floor_busbw: row.floor,
        reference_busbw: row.reference.and_then(number),
        baseline_time_us: expected.and_then(|it| number(it.time_us)),
        baseline_low_us: expected.and_then(|it| number(rounded(it.band_us[0]))),
        baseline_high_us: expected.and_then(|it| number(rounded(it.band_us[1]))),
        slowdown: placed.slower().map(|slower| (slower * 1e6).round() / 1e6),
        below: placed.below.join(" "),
        ..CsvRow::default()
    }
}

fn metric(metric: &MetricSummary) -> CsvRow<'_> {
    let labels: Vec<_> = metric.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
    let worst = metric.worst.as_ref();
    CsvRow {
        metric: cell(&metric.name),
        labels: cell(&labels.join(" ")),
        unit: cell(&metric.unit),
        better: Some(metric.better),
        scope: Some(metric.scope),
        subjects: Some(metric.subjects),
        measured: Some(metric.measured),
        median: metric.median,
        worst: worst.map(|worst| worst.value),
        subject: worst.map_or_else(String::new, |worst| cell(&subject_or_log(&worst.subject, &worst.log))),
        text: metric.reason.as_deref().map_or_else(String::new, cell),
        ..CsvRow::default()
    }
}

fn finding(finding: &FindingSummary) -> CsvRow<'_> {
    CsvRow {
        subject: cell(&subject_or_log(&finding.subject, &finding.log)),
        finding: cell(&finding.code),
        severity: severity(finding.severity),
        times: Some(finding.times),
        text: cell(&finding.text),
        ..CsvRow::default()
    }
}

/// Rows of metrics, findings and suspects, after the rows of the tables; absent unless the logs have metrics or findings.
fn others(input: &ReportInput<'_>, mut write: impl FnMut(CsvRow<'_>)) {
    let source = cell(&input.title());
    let found = metrics(input);
    if found == Metrics::default() {
        return;
    }
    let rows = found.metrics.iter().map(metric).chain(found.findings.iter().map(finding));
    rows.for_each(|row| write(CsvRow { source: &source, ..row }));
    let (suspects, _) = evidence::suspects(input.reported_judgement(), usize::MAX);
    for (name, confidence) in suspects {
        let confidence = confidence.is_finite().then_some(confidence);
        write(CsvRow { source: &source, suspect: cell(&name), confidence, ..CsvRow::default() });
    }
}

fn rounded(time_us: f64) -> f64 {
    (time_us * 1e3).round() / 1e3
}

/// Escapes external text that a spreadsheet would evaluate as a formula. Numbers are unchanged.
pub fn cell(text: &str) -> String {
    let text = text::single_line(text);
    let number = text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.parse::<f64>().is_ok();
    let formula = text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    if formula && !number { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn formulas_are_escaped_and_numbers_are_not() {
        for (input, expected) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("@SUM(1,2)", "'@SUM(1,2)"),
            ("+1+1", "'+1+1"),
            ("-2+3", "'-2+3"),
            ("\t=1", "'=1"),
            ("\u{1b}[1m=1", "'=1"),
            ("＝1", "'＝1"),
            ("-1.5e3", "-1.5e3"),
            ("+7", "+7"),
            ("-inf", "'-inf"),
            ("float", "float"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(cell(input), expected);
        }
    }
}
