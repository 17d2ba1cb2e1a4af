//! Metrics and findings, one line each.

use super::{
    NOTE, addresses,
    text_report::{Paint, TextReport},
};
use crate::{
    ReportInput,
    findings::Tone,
    metrics::{MetricsSection, ShownMetric},
    text,
};

/// Maximum number of findings.
const FINDINGS: usize = 4;
/// Maximum width of a metric's name, in characters.
const NAME: usize = 40;
/// Minimum width of the column of the worst subject, in characters.
const SUBJECT: usize = 12;

/// Writes the section within `room` rows, if a log has metrics or findings.
pub fn write(text_report: &mut TextReport, input: &ReportInput<'_>, room: usize) {
    // Findings and metrics share the rows; few findings leave more of them for metrics.
    let Some(all) = MetricsSection::of(input, room, FINDINGS.min(room / 2)) else { return };
    let findings = all.findings.len() + usize::from(all.more_findings > 0);
    let rows = room.saturating_sub(findings).max(room / 2);
    let more = all.more_rows + all.rows.len().saturating_sub(rows);
    text_report.line(&[(Paint::None, "  "), (Paint::Bold, "Metrics")]);
    for program in &all.programs {
        text_report.paragraph((Paint::Dim, "  "), program, NOTE);
    }
    table(text_report, &all.rows[..all.rows.len().min(rows)]);
    if more > 0 {
        let more = text::count(more as u64, "more metric");
        text_report.line(&[(Paint::Dim, &format!("  {more}{}", addresses(input)))]);
    }
    for line in &all.unmeasured {
        text_report.paragraph((Paint::Dim, "  "), line, NOTE);
    }
    for finding in &all.findings {
        let head = format!("  {}  {}  {}  ", finding.code, finding.severity, finding.subject);
        let room = text_report.width().saturating_sub(head.chars().count()).max(SUBJECT);
        text_report.line(&[(Tone::Bad.into(), &head), (Paint::None, &text::shortened(&finding.text, room))]);
    }
    if all.more_findings > 0 {
        let more = text::count(all.more_findings as u64, "more finding");
        text_report.line(&[(Paint::Dim, &format!("  {more}{}", addresses(input)))]);
    }
}

fn table(text_report: &mut TextReport, rows: &[ShownMetric]) {
    if rows.is_empty() {
        return;
    }
    let most = NAME.min(text_report.width() * 2 / 5);
    type CellText = fn(&ShownMetric) -> &String;
    let figures: [(&str, CellText); 4] = [
        ("unit", |row| &row.unit),
        ("subjects", |row| &row.subjects),
        ("median", |row| &row.median),
        ("worst", |row| &row.worst),
    ];
    let width = |(head, cell): &(&str, CellText)| {
        rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or(0).max(head.len())
    };
    let name = width(&("metric", |row| &row.name)).min(most);
    // In a narrow terminal the table omits the column with the count of subjects, then the column with the median. No number is
    // truncated.
    let mut columns = figures.to_vec();
    for left_out in ["subjects", "median"] {
        if 2 + name + columns.iter().map(|column| 2 + width(column)).sum::<usize>() + 2 + SUBJECT
            <= text_report.width()
        {
            break;
        }
        columns.retain(|(head, _)| *head != left_out);
    }
    let line = |name_of: &str, cell: &dyn Fn(&(&str, CellText)) -> String, subject: &str| {
        let mut line = format!("  {name_of:<name$}");
        for column in &columns {
            let (cell, width) = (cell(column), width(column));
            line +=
                &if column.0 == "unit" { format!("  {cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        let room = text_report.width().saturating_sub(line.chars().count() + 2);
        if room >= SUBJECT { line + "  " + &text::shortened(subject, room) } else { line }
    };
    let head = line("metric", &|(head, _)| (*head).to_owned(), "worst subject");
    let lines: Vec<_> = rows
        .iter()
        .map(|row| line(&text::shortened(&row.name, most), &|(_, cell)| cell(row).clone(), &row.subject))
        .collect();
    text_report.line(&[(Paint::Dim, &head)]);
    for (row, line) in rows.iter().zip(lines) {
        let paint = if row.is_bad { Tone::Bad.into() } else { Paint::None };
        text_report.line(&[(paint, &line)]);
    }
}
