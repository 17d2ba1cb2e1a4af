//! Report for a pull request or an issue, in the Markdown of GitHub and GitLab.

pub(crate) mod escape;

use model::Verdict;

use crate::{
    ReportInput, checks, evidence, fact_texts,
    findings::{self, Tone},
    fingerprint,
    history::{LevelHistory, percent},
    measured::{self, MeasuredTable, Placed},
    metrics::MetricsSection,
    summary,
    text::{self, figure},
};

pub use escape::escaped;
pub(crate) use escape::{code, fenced};

/// Maximum number of checks.
const CHECKS: usize = 100;
/// Maximum number of reasons. A comment on GitHub may have 65,536 characters: all limits together stay below
/// it.
const REASONS: usize = 20;
/// Maximum number of logs.
const LOGS: usize = 100;
/// Maximum number of diagnoses.
const DIAGNOSES: usize = 8;
/// Maximum number of lines of evidence.
const LINES: usize = 3;
/// Maximum number of suspects.
const SUSPECTS: usize = 20;
/// Maximum number of sizes.
const ROWS: usize = 40;
/// Maximum number of metrics.
const METRICS: usize = 30;
/// Maximum number of findings.
const FINDINGS: usize = 20;
/// Maximum length of a reason, a line of evidence or a value, characters.
const TEXT: usize = 400;
const VALUE: usize = 100;

#[must_use]
pub fn markdown(input: &ReportInput<'_>) -> String {
    let headline = findings::headline(input);
    let mut out = format!(
        "## {} {}: {}\n\n",
        headline.tone.mark(),
        headline.word,
        code(&text::shortened(&input.title(), VALUE))
    );
    out += &format!("{}\n", escaped(&text::shortened(&fact_texts::subtitle(input), TEXT)));
    if let Some(sentence) = summary::sentence(input) {
        out += &format!("\n**{}**\n", escaped(&text::shortened(&sentence, TEXT)));
    }
    checks(&mut out, input);
    logs(&mut out, input);
    reasons(&mut out, input);
    for note in findings::notes(input) {
        out += &format!("\n**{}**\n", escaped(&text::shortened(&note.head, TEXT)));
        if !note.text.is_empty() {
            out += &format!("\n{}\n", fenced(&text::shortened(&note.text, TEXT)));
        }
    }
    write_causes(&mut out, input);
    metrics(&mut out, input);
    measurements(&mut out, input);
    if let Some(history) = LevelHistory::of(input) {
        out += &format!(
            "\n### History\n\nExcess time of the plateau over the baseline's: {}\n",
            escaped(&history.text())
        );
    }
    measured_on(&mut out, input);
    if let Some(next) = summary::next(input) {
        out += &format!("\n**Next:** {}\n", escaped(&text::shortened(&next, TEXT)));
    }
    out
}

/// Several logs, one line each, worst first; passed logs only as a count.
fn logs(out: &mut String, input: &ReportInput<'_>) {
    if input.run.is_some() || input.logs.len() < 2 {
        return;
    }
    let groups = summary::groups(input);
    let bad = || groups.iter().filter(|group| group.verdict != Verdict::Pass).flat_map(|group| &group.logs);
    if bad().next().is_some() {
        *out += "\n| | log | reason | level |\n|---|---|---|---|\n";
    }
    for log in bad().take(LOGS) {
        let mark = Tone::from(log.verdict).mark();
        let (name, code) = (text::ending(log.log.name, VALUE), text::shortened(log.code, 40));
        let level = escaped(&text::shortened(&log.text, VALUE));
        *out += &format!("| {mark} | {} | {} | {level} |\n", escape::cell(&name), escape::cell(&code));
    }
    let more = bad().count().saturating_sub(LOGS);
    if more > 0 {
        *out += &format!("\n{}.\n", text::count(more as u64, "more log"));
    }
}

fn checks(out: &mut String, input: &ReportInput<'_>) {
    let lines = input.run.map_or_else(Vec::new, |run| checks::checks(&run));
    if lines.is_empty() {
        return;
    }
    *out += "\n| | check | verdict | reason |\n|---|---|---|---|\n";
    for line in lines.iter().take(CHECKS) {
        let why = escaped(&text::shortened(&line.why, VALUE));
        *out += &format!("| {} | {} | {} | {why} |\n", line.mark, escape::cell(&line.name), line.word);
    }
    if lines.len() > CHECKS {
        *out += &format!("\n{}.\n", text::count((lines.len() - CHECKS) as u64, "more check"));
    }
    if let Some(shown) = lines.iter().find(|line| line.is_shown).filter(|_| input.has_results()) {
        *out += &format!("\nThe rest of this report is about {}.\n", code(&shown.name));
    }
}

fn reasons(out: &mut String, input: &ReportInput<'_>) {
    let reasons = findings::merged(findings::reasons(input));
    if reasons.is_empty() {
        return;
    }
    *out += "\n| | code | reason |\n|---|---|---|\n";
    for reason in reasons.iter().take(REASONS) {
        let (code, text) = (text::shortened(&reason.code, 40), text::shortened(&reason.text, TEXT));
        *out += &format!(
            "| {} | {} | {} |\n",
            Tone::from(reason.weighs).mark(),
            escape::cell(&code),
            escaped(&text)
        );
    }
    if reasons.len() > REASONS {
        *out += &format!("\n{}.\n", text::count((reasons.len() - REASONS) as u64, "more reason"));
    }
}

fn write_causes(out: &mut String, input: &ReportInput<'_>) {
    let (diagnoses, more) = evidence::diagnoses(input.reported_judgement(), DIAGNOSES, LINES);
    for diagnosis in &diagnoses {
        let advice = escaped(&text::shortened(&diagnosis.advice, TEXT));
        *out += &format!("\n### {}\n\n{advice}\n", code(diagnosis.cause));
        if let Some(hosts) = &diagnosis.hosts {
            *out += &format!("\nShown by {}.\n", escaped(hosts));
        }
        let mut lines: Vec<_> = diagnosis.lines.iter().map(|line| text::shortened(line, TEXT)).collect();
        if diagnosis.more > 0 && !lines.is_empty() {
            lines.push(format!("and {}", text::count(diagnosis.more, "more such line")));
        }
        if !lines.is_empty() {
            *out += &format!("\n{}\n", fenced(&lines.join("\n")));
        }
    }
    if more > 0 {
        *out += &format!("\nDiagnoses omitted: {more}.\n");
    }
    let (suspects, more) = evidence::suspects(input.reported_judgement(), SUSPECTS);
    if !suspects.is_empty() {
        *out += "\n### Suspects\n\n| suspect | confidence |\n|---|---:|\n";
    }
    for (name, confidence) in &suspects {
        *out += &format!("| {} | {:.0} % |\n", escaped(&text::shortened(name, VALUE)), 100.0 * confidence);
    }
    if more > 0 {
        *out += &format!("\n{}.\n", text::count(more as u64, "more suspect"));
    }
}

/// Metrics and findings of all logs.
fn metrics(out: &mut String, input: &ReportInput<'_>) {
    let Some(section) = MetricsSection::of(input, METRICS, FINDINGS) else { return };
    *out += "\n### Metrics\n";
    for program in &section.programs {
        *out += &format!("\n{}\n", escaped(&text::shortened(program, TEXT)));
    }
    if !section.rows.is_empty() {
        *out +=
            "\n| metric | unit | subjects | median | worst | worst subject |\n|---|---|---:|---:|---:|---|\n";
    }
    for row in &section.rows {
        *out += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            escape::cell(&row.name),
            escaped(&row.unit),
            row.subjects,
            row.median,
            bold(row.worst.clone(), row.is_bad),
            escaped(&row.subject)
        );
    }
    if section.more_rows > 0 {
        *out += &format!("\n{}.\n", text::count(section.more_rows as u64, "more metric"));
    }
    for line in &section.unmeasured {
        *out += &format!("\n{}.\n", escaped(line));
    }
    if !section.findings.is_empty() {
        *out += "\n| finding | severity | subject | text |\n|---|---|---|---|\n";
    }
    for finding in &section.findings {
        let text = escaped(&text::shortened(&finding.text, VALUE));
        let (code, subject) = (escape::cell(&finding.code), escaped(&finding.subject));
        *out += &format!("| {code} | {} | {subject} | {text} |\n", finding.severity);
    }
    if section.more_findings > 0 {
        *out += &format!("\n{}.\n", text::count(section.more_findings as u64, "more finding"));
    }
}

fn measurements(out: &mut String, input: &ReportInput<'_>) {
    let failed = |log: &&crate::ReportedLog<'_>| {
        log.judgement.is_some_and(|judgement| judgement.verdict != Verdict::Pass)
    };
    let Some(log) = input.logs.iter().find(failed).or(input.logs.last()) else { return };
    if let Some(nothing) = measured::text_without_table(log.reading).filter(|_| log.reading.format.is_none())
    {
        *out += &format!("\n{}\n", escaped(&text::shortened(&nothing, TEXT)));
    }
    let Some(first) = measured::tables(input, log).next() else { return };
    let caption = escaped(&text::shortened(&measured::caption(first.table), TEXT));
    let of = if input.logs.len() > 1 {
        format!(" of {}", code(&text::shortened(log.name, VALUE)))
    } else {
        String::new()
    };
    *out += &format!("\n### Measurements{of}\n\n{caption}\n\n");
    table(out, &first);
    let tables: usize = input.logs.iter().map(|log| log.reading.tables.len()).sum();
    if tables > 1 {
        *out += &format!("\n{} in the logs.\n", text::count(tables as u64 - 1, "more table"));
    }
}

fn table(out: &mut String, measured: &MeasuredTable<'_>) {
    let (reference, baseline) = (measured.references.reference(), measured.references.baseline());
    let floors = measured.rows.iter().any(|row| row.floor.is_some());
    let mut heads = vec!["size", "out of place µs", "busbw GB/s"];
    heads.extend(baseline.map(|_| "slower"));
    heads.extend(["in place µs", "busbw GB/s"]);
    heads.extend(baseline.map(|_| "slower"));
    heads.push("wrong");
    heads.extend(reference.map(|_| "reference GB/s"));
    heads.extend(floors.then_some("floor GB/s"));
    *out += &format!("| {} |\n|{}\n", heads.join(" | "), "---:|".repeat(heads.len()));
    let rows = &measured.rows;
    // The largest sizes are the most significant.
    let skipped = rows.len().saturating_sub(ROWS);
    for row in &rows[skipped..] {
        let mut cells = vec![text::size(row.size_bytes)];
        for placed in [&row.out_of_place, &row.in_place] {
            cells.extend(half(placed.as_ref(), baseline.is_some()));
        }
        cells.push(bold(row.wrong_words(), row.has_wrong()));
        let mut bound = |there: bool, what: &str, value: Option<f64>| {
            cells.extend(
                there.then(|| value.map_or_else(String::new, |it| bold(figure(it), row.is_below(what)))),
            );
        };
        bound(reference.is_some(), "reference", row.reference);
        bound(floors, "floor", row.floor);
        *out += &format!("| {} |\n", cells.join(" | "));
    }
    if skipped > 0 {
        *out += &format!("\nThe largest {ROWS} of {} sizes.\n", rows.len());
    }
    if let Some(reference) = reference {
        *out += &format!("\nReference: {}.\n", escaped(&text::shortened(&reference.source, TEXT)));
    }
}

fn half(placed: Option<&Placed<'_>>, baseline: bool) -> Vec<String> {
    let none = || "-".to_owned();
    let mut cells = vec![
        placed.map_or_else(none, |placed| figure(placed.half.time_us)),
        placed.map_or_else(none, |placed| bold(figure(placed.half.busbw), placed.short())),
    ];
    if baseline {
        let slower =
            |placed: &Placed<'_>| Some(bold(percent(placed.slower()?), placed.below.contains(&"baseline")));
        cells.push(placed.and_then(slower).unwrap_or_else(none));
    }
    cells
}

fn bold(text: String, bold: bool) -> String {
    if bold { format!("**{text}**") } else { text }
}

fn measured_on(out: &mut String, input: &ReportInput<'_>) {
    let fields = fingerprint::fields(input);
    if fields.is_empty() {
        return;
    }
    let changed = fields.iter().any(|field| field.was.is_some());
    let (head, rule) = if changed { (" in the baseline |", "---|") } else { ("", "") };
    *out += &format!("\n### Fingerprint\n\n| field | value |{head}\n|---|---|{rule}\n");
    for field in fields {
        let cell = |text: &str| escape::cell(&text::shortened(text, VALUE));
        *out += &format!("| {} | {} |", escaped(&text::shortened(field.name, VALUE)), cell(field.value));
        if changed {
            *out += &field.was.map_or_else(|| " |".to_owned(), |was| format!(" {} |", cell(was)));
        }
        *out += "\n";
    }
}
