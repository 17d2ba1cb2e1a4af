//! Metrics and findings, one line each.

use super::{
    NOTE, WIDTH, elsewhere,
    paper::{Paint, Paper},
};
use crate::{
    Story,
    findings::Tone,
    metrics::{MetricRow, MetricsSection},
    text,
};

/// Maximum number of findings.
const FINDINGS: usize = 4;
/// Maximum width of a metric's name.
const NAME: usize = 40;
/// Minimum width of the worst subject.
const SUBJECT: usize = 12;

/// Writes the section within `room` rows, if the logs are about metrics.
pub fn write(paper: &mut Paper, story: &Story<'_>, room: usize) {
    // Findings and metrics share the rows; few findings leave more of them for metrics.
    let Some(all) = MetricsSection::of(story, room, FINDINGS.min(room / 2)) else { return };
    let findings = all.findings.len() + usize::from(all.more_findings > 0);
    let rows = room.saturating_sub(findings).max(room / 2);
    let more = all.more_rows + all.rows.len().saturating_sub(rows);
    paper.line(&[(Paint::None, "  "), (Paint::Bold, "Metrics")]);
    for program in &all.programs {
        paper.paragraph((Paint::Dim, "  "), program, NOTE);
    }
    table(paper, &all.rows[..all.rows.len().min(rows)]);
    if more > 0 {
        let more = text::count(more as u64, "more metric");
        paper.line(&[(Paint::Dim, &format!("  {more}{}", elsewhere(story)))]);
    }
    for line in &all.unmeasured {
        paper.paragraph((Paint::Dim, "  "), line, NOTE);
    }
    for finding in &all.findings {
        let head = format!("  {}  {}  {}  ", finding.code, finding.severity, finding.subject);
        let room = WIDTH.saturating_sub(head.chars().count()).max(SUBJECT);
        paper.line(&[(Tone::Bad.into(), &head), (Paint::None, &text::shortened(&finding.text, room))]);
    }
    if all.more_findings > 0 {
        let more = text::count(all.more_findings as u64, "more finding");
        paper.line(&[(Paint::Dim, &format!("  {more}{}", elsewhere(story)))]);
    }
}

fn table(paper: &mut Paper, rows: &[MetricRow]) {
    if rows.is_empty() {
        return;
    }
    let names: Vec<_> = rows.iter().map(|row| text::shortened(&row.name, NAME)).collect();
    let width = |head: &str, cell: fn(&MetricRow) -> &String| {
        rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or(0).max(head.len())
    };
    let name = width("metric", |row| &row.name).min(NAME);
    let (unit, subjects) = (width("unit", |row| &row.unit), width("subjects", |row| &row.subjects));
    let (median, worst) = (width("median", |row| &row.median), width("worst", |row| &row.worst));
    let line = |name_of: &str, cells: [&str; 5]| {
        let [unit_of, subjects_of, median_of, worst_of, subject] = cells;
        let head = format!(
            "  {name_of:<name$}  {unit_of:<unit$}  {subjects_of:>subjects$}  {median_of:>median$}  {worst_of:>worst$}  "
        );
        let room = WIDTH.saturating_sub(head.chars().count()).max(SUBJECT);
        head + &text::shortened(subject, room)
    };
    let head = line("metric", ["unit", "subjects", "median", "worst", "worst subject"]);
    paper.line(&[(Paint::Dim, &head)]);
    for (row, name_of) in rows.iter().zip(&names) {
        let cells = [&row.unit, &row.subjects, &row.median, &row.worst, &row.subject];
        let paint = if row.is_bad { Tone::Bad.into() } else { Paint::None };
        paper.line(&[(paint, &line(name_of, cells.map(String::as_str)))]);
    }
}
