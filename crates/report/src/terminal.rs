//! Short report for a terminal.

mod logs;
mod metrics;
mod table;
mod text_report;

use std::collections::BTreeSet;

use crate::{
    ReportInput, ReportedRun, checks, evidence, fact_texts,
    findings::{self, Tone},
    measured, rounds, summary, text,
    timeline::timeline,
};

pub(crate) use text_report::{Paint, TextReport};
pub use text_report::{Screen, Style, paragraph};

/// Maximum number of lines; the measurements use the remaining lines.
const LINES: usize = 46;
/// Minimum number of shown sizes.
const FEWEST: usize = 4;
/// Maximum number of reasons; Markdown and HTML show more.
const REASONS: usize = 8;
/// Maximum number of reasons if the report has diagnoses.
const REASONS_BESIDE: usize = 5;
/// Maximum number of diagnoses.
const DIAGNOSES: usize = 3;
/// Maximum number of lines of evidence.
const EVIDENCE: usize = 2;
/// Maximum number of checks.
const CHECKS: usize = 20;
/// Maximum number of suspects.
const SUSPECTS: usize = 3;
/// Maximum lines of a reason or advice at 100 columns, and of a note.
const WRAPPED: usize = 2;
const NOTE: usize = 4;

/// Maximum lines of a reason or advice: more on a narrow terminal.
const fn wrapped(text_report: &TextReport) -> usize {
    (WRAPPED * 100).div_ceil(text_report.width())
}

/// The short report. Several logs have one line each; everything else has a maximum length.
#[must_use]
pub fn terminal(input: &ReportInput<'_>, screen: impl Into<Screen>) -> String {
    let screen = screen.into();
    let mut text_report = TextReport::new(screen);
    title(&mut text_report, input, screen);
    if let Some(run) = input.run {
        if screen.stages {
            stages(&mut text_report, &run);
        }
        checks(&mut text_report, input, &run);
    }
    let mut rest = TextReport::new(screen);
    verdict(&mut rest, input);
    write_causes(&mut rest, input);
    if let Some(next) = summary::next(input) {
        rest.paragraph((Paint::Bold, "Next: "), &next, NOTE);
    }
    if let Some(run) = input.run {
        locations(&mut rest, &run);
    }
    // The table needs 9 further lines: two gaps, and its caption, header and footer.
    let room = LINES.saturating_sub(text_report.lines() + rest.lines() + 9).max(FEWEST);
    let mut about_metrics = TextReport::new(screen);
    let others = input.logs.len() > 1 || input.logs.iter().any(|log| !log.reading.tables.is_empty());
    metrics::write(&mut about_metrics, input, if others { FEWEST } else { room });
    measurements(&mut text_report, input, room.saturating_sub(about_metrics.lines()).max(FEWEST));
    if about_metrics.lines() > 0 {
        text_report.gap();
        text_report.append(about_metrics);
    }
    text_report.gap();
    text_report.append(rest);
    text_report.finish()
}

fn title(text_report: &mut TextReport, input: &ReportInput<'_>, screen: Screen) {
    let title = match input.run {
        None if input.logs.len() > 1 => summary::totals(input),
        _ => text::ending(&input.title(), text_report.width()),
    };
    let about = fact_texts::subtitle_with(input, |at| screen.time(at));
    if title.chars().count() + 2 + about.chars().count() <= text_report.width() {
        text_report.line(&[(Paint::Bold, &title), (Paint::None, "  "), (Paint::Dim, &about)]);
    } else {
        text_report.line(&[(Paint::Bold, &title)]);
        text_report.paragraph((Paint::None, "  "), &about, wrapped(text_report));
    }
}

fn stages(text_report: &mut TextReport, run: &ReportedRun<'_>) {
    let state = run.state;
    let lines = timeline(run.records);
    text_report.gap();
    let room = text_report.width().saturating_sub(23);
    let mut say = |tone: Tone, name: &str, took: &str, outcome: &str| {
        text_report.line(&[
            (tone.into(), &format!("  {} {name:<10}", tone.mark())),
            (Paint::Dim, &format!("{took:>7}  ")),
            (Paint::None, &text::shortened(outcome, room)),
        ]);
    };
    if let Some(image) = findings::prebuilt_image(state) {
        say(Tone::Good, "image", "given", &image);
    }
    // With several checks, each check has one line below.
    for line in lines.iter().filter(|line| line.check.is_none()) {
        let took = line.ended.map_or_else(String::new, |ended| text::duration(ended.since(line.began)));
        say(findings::tone_of(state, line), &line.title(), &took, &line.outcome);
    }
    let unreached = findings::unreached(state, &lines);
    if !unreached.is_empty() {
        let names: Vec<_> = unreached.iter().map(|stage| stage.as_str()).collect();
        let head = if state.settled.is_some() { "not reached" } else { "to come" };
        text_report.paragraph((Paint::Dim, "    "), &format!("{head}: {}", names.join(", ")), NOTE);
    }
}

/// One line for each check, worst first, and the name of the one whose measurements follow.
fn checks(text_report: &mut TextReport, input: &ReportInput<'_>, run: &ReportedRun<'_>) {
    let lines = checks::checks(run);
    if lines.is_empty() {
        return;
    }
    text_report.gap();
    let widest = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let width = widest.min(text_report.width() * 2 / 5);
    let room = text_report.width().saturating_sub(width + 20);
    for line in lines.iter().take(CHECKS) {
        let name = text::shortened(&line.name, width);
        text_report.line(&[
            (line.tone.into(), &format!("  {} {name:<width$}  ", line.mark)),
            (line.tone.into(), &format!("{:<12}  ", line.word)),
            (Paint::None, &text::shortened(&line.why, room)),
        ]);
    }
    if let Some(progress) = rounds::progress(run.state) {
        text_report.line(&[(Paint::None, &format!("    soak: {progress}"))]);
    }
    if lines.len() > CHECKS {
        let more = text::count((lines.len() - CHECKS) as u64, "more check");
        text_report.line(&[(Paint::Dim, &format!("    {more}{}", elsewhere_of(run)))]);
    }
    if let Some(shown) = lines.iter().find(|line| line.is_shown).filter(|_| input.has_results()) {
        text_report.line(&[(
            Paint::Dim,
            &format!("    measurements and verdict of {}:", text::shortened(&shown.name, 40)),
        )]);
    }
}

fn elsewhere_of(run: &ReportedRun<'_>) -> String {
    run.locations.report.as_ref().map_or_else(String::new, |page| format!(", all in {page}"))
}

fn measurements(text_report: &mut TextReport, input: &ReportInput<'_>, room: usize) {
    if input.logs.len() > 1 {
        return logs::write(text_report, input);
    }
    let Some(log) = input.logs.first() else { return };
    // The section about metrics names the program of a log with metrics.
    if let Some(nothing) = measured::text_without_table(log.reading).filter(|_| log.reading.format.is_none())
    {
        text_report.gap();
        text_report.paragraph((Paint::None, "  "), &nothing, NOTE);
    }
    let Some(first) = measured::tables(input, log).next() else { return };
    text_report.gap();
    text_report.paragraph((Paint::None, "  "), &measured::caption(first.table), wrapped(text_report));
    let all = if input.run.is_some() { "the report shows all" } else { "--output csv shows all" };
    table::write(text_report, &first, room, all);
    if let Some(average) = first.table.average_busbw {
        let average =
            format!("average bus bandwidth {} GB/s (not used for the verdict)", text::figure(average));
        text_report.painted(Paint::Dim, &average);
    }
    let many = log.reading.tables.len();
    if many > 1 {
        let many = format!("the first of {many} tables in the log; the report shows more");
        text_report.painted(Tone::Unsure.into(), &many);
    }
}

fn verdict(text_report: &mut TextReport, input: &ReportInput<'_>) {
    let headline = findings::headline(input);
    let sentence = summary::sentence(input).unwrap_or_default();
    let diagnosed = input.reported_judgement().is_some_and(|judgement| !judgement.diagnoses.is_empty());
    let (mut shown, more) = reasons(input, if diagnosed { REASONS_BESIDE } else { REASONS });
    // A reason that begins the sentence is not repeated: its code is printed before the sentence.
    let repeated = shown.first().filter(|(_, _, why)| !why.is_empty() && sentence.starts_with(why.as_str()));
    let code = repeated.map_or_else(String::new, |(code, ..)| format!("{code}: "));
    if !code.is_empty() {
        shown.remove(0);
    }
    let gap = if sentence.is_empty() { "" } else { "  " };
    let head = format!("{}{gap}", headline.word);
    text_report.paragraph((headline.tone.into(), &head), &format!("{code}{sentence}"), wrapped(text_report));
    // On a narrow terminal the text begins below its code.
    let widest = shown.iter().map(|(code, ..)| code.chars().count()).max().unwrap_or(0);
    let below = widest > text_report.width() / 4;
    for (code, tone, why) in &shown {
        if below {
            text_report.line(&[((*tone).into(), &format!("  {code}"))]);
            text_report.paragraph((Paint::None, "    "), why, wrapped(text_report));
        } else {
            text_report.paragraph(
                ((*tone).into(), &format!("  {code:widest$}  ")),
                why,
                wrapped(text_report),
            );
        }
    }
    if more > 0 {
        let more = text::count(more as u64, "more kind");
        text_report.painted(Paint::Dim, &format!("{more} of reasons{}", addresses(input)));
    }
    for note in findings::notes(input) {
        text_report.painted(note.tone.into(), &text::shortened(&note.head, NOTE * text_report.width()));
        for line in text::block(&note.text).lines().take(NOTE) {
            text_report.paragraph((Paint::None, "    "), line, NOTE);
        }
    }
}

/// The most severe reasons: code, tone and text, and the number of the omitted codes. If they exceed the maximum, the first of each code
/// represents the others. If there are several logs, only a series has reasons here; otherwise the line of each log has one.
fn reasons(input: &ReportInput<'_>, most: usize) -> (Vec<(String, Tone, String)>, usize) {
    let several = input.logs.len() > 1;
    if several && !input.series {
        return (Vec::new(), 0);
    }
    let mut all = findings::merged(findings::reasons(input));
    all.retain(|reason| !several || reason.weighs != model::Verdict::Pass);
    let mut shown: Vec<(String, Tone, String)> = Vec::new();
    let mut seen = BTreeSet::new();
    for reason in &all {
        if shown.len() == most {
            break;
        }
        let others = all.iter().filter(|other| other.code == reason.code).count() - 1;
        if !seen.insert(&reason.code) && all.len() > most {
            continue;
        }
        let more = match others {
            1.. if all.len() > most => format!(" (and {others} more of this kind)"),
            _ => String::new(),
        };
        let why = text::shortened(&reason.text, WRAPPED * 70) + &more;
        shown.push((text::shortened(&reason.code, 24), reason.weighs.into(), why));
    }
    let kinds = all.iter().map(|reason| &reason.code).collect::<BTreeSet<_>>().len();
    (shown, kinds.saturating_sub(seen.len()))
}

/// Name of the format that shows the omitted part.
const fn addresses(input: &ReportInput<'_>) -> &'static str {
    if input.run.is_some() { " in the report" } else { " with --output html" }
}

/// Probable causes and suspects.
fn write_causes(text_report: &mut TextReport, input: &ReportInput<'_>) {
    let (diagnoses, more) = evidence::diagnoses(input.reported_judgement(), DIAGNOSES, EVIDENCE);
    if !diagnoses.is_empty() {
        text_report.gap();
    }
    let folder =
        if input.logs.len() > 1 { text::single_line(summary::common_folder(input)) } else { String::new() };
    for diagnosis in &diagnoses {
        let head = format!("  {}  ", diagnosis.cause);
        if head.len() > text_report.width() / 3 {
            text_report.line(&[(Paint::Bold, &head)]);
            text_report.paragraph((Paint::None, "    "), &diagnosis.advice, wrapped(text_report));
        } else {
            text_report.paragraph((Paint::Bold, &head), &diagnosis.advice, wrapped(text_report));
        }
        for line in &diagnosis.lines {
            let line = line.strip_prefix(folder.as_str()).unwrap_or(line);
            let line = text::shortened(line, text_report.width().saturating_sub(4));
            text_report.line(&[(Paint::Dim, "    "), (Paint::Dim, &line)]);
        }
        if diagnosis.more > 0 {
            let more = text::count(diagnosis.more, "more such line");
            text_report.line(&[(Paint::Dim, &format!("    and {more}"))]);
        }
    }
    if more > 0 {
        text_report.line(&[(Paint::Dim, &format!("  more diagnoses{}: {more}", addresses(input)))]);
    }
    let (suspects, more) = evidence::suspects(input.reported_judgement(), SUSPECTS);
    for (name, confidence) in &suspects {
        let name = format!("{name}, confidence {confidence:.2}");
        text_report.paragraph((Tone::Bad.into(), "  suspect  "), &name, wrapped(text_report) - 1);
    }
    if more > 0 {
        text_report.line(&[(Paint::Dim, &format!("  more suspects{}: {more}", addresses(input)))]);
    }
}

fn locations(text_report: &mut TextReport, run: &ReportedRun<'_>) {
    text_report.gap();
    for (name, location) in fact_texts::locations(run.locations) {
        // Values are never truncated, because they are for copying. The note in parentheses after a value has its own line if
        // both together exceed the width.
        let head = format!("  {name:<10} ");
        let fits = head.len() + location.chars().count() <= text_report.width();
        let (place, note) = match location.split_once(" (").filter(|_| !fits) {
            Some((place, note)) => (place, format!("({note}")),
            None => (location, String::new()),
        };
        text_report.line(&[(Paint::Dim, &head), (Paint::None, place)]);
        if !note.is_empty() {
            text_report.paragraph((Paint::None, &" ".repeat(head.len())), &note, NOTE);
        }
    }
}
