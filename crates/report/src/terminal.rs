//! Short report for a terminal.

mod metrics;
mod paper;
mod table;

use std::collections::BTreeSet;

use model::Verdict;

use crate::{
    RunStory, Story, checks, evidence,
    findings::{self, Tone},
    history::percent,
    measured, summary, text,
    timeline::timeline,
    words,
};

pub use paper::Style;
pub(crate) use paper::{Paint, Paper};

/// Maximum number of lines; the measurements use the remaining ones.
const LINES: usize = 46;
/// Minimum number of shown sizes.
const FEWEST: usize = 4;
/// Maximum number of logs.
const LOGS: usize = 12;
/// Maximum reasons; the other forms show more.
const REASONS: usize = 8;
/// Maximum reasons if there are diagnoses.
const REASONS_BESIDE: usize = 5;
/// Maximum number of diagnoses.
const DIAGNOSES: usize = 3;
/// Maximum number of lines of evidence.
const EVIDENCE: usize = 2;
/// Maximum number of checks.
const CHECKS: usize = 20;
/// Maximum number of suspects.
const SUSPECTS: usize = 3;
/// Maximum lines of a reason, advice or note.
const WRAPPED: usize = 2;
const NOTE: usize = 4;
/// Maximum length of a truncated line, characters.
const WIDTH: usize = 100;

/// The short report.
#[must_use]
pub fn terminal(story: &Story<'_>, style: Style) -> String {
    let mut paper = Paper::new(style);
    title(&mut paper, story);
    if let Some(run) = story.run {
        stages(&mut paper, &run);
        checks(&mut paper, &run);
    }
    let mut rest = Paper::new(style);
    verdict(&mut rest, story);
    found(&mut rest, story);
    if let Some(next) = summary::next(story) {
        rest.paragraph((Paint::Bold, "Next: "), &next, WRAPPED);
    }
    if let Some(run) = story.run {
        places(&mut rest, &run);
    }
    // Two gaps, the caption, the header and the footer of the table.
    let room = LINES.saturating_sub(paper.lines() + rest.lines() + 9).max(FEWEST);
    let mut about_metrics = Paper::new(style);
    let others = story.logs.len() > 1 || story.logs.iter().any(|log| !log.reading.tables.is_empty());
    metrics::write(&mut about_metrics, story, if others { FEWEST } else { room });
    measurements(&mut paper, story, room.saturating_sub(about_metrics.lines()).max(FEWEST));
    if about_metrics.lines() > 0 {
        paper.gap();
        paper.append(about_metrics);
    }
    paper.gap();
    paper.append(rest);
    paper.finish()
}

fn title(paper: &mut Paper, story: &Story<'_>) {
    paper.line(&[
        (Paint::Bold, &text::shortened(&story.title(), WIDTH)),
        (Paint::None, "  "),
        (Paint::Dim, &text::shortened(&words::about(story), WIDTH)),
    ]);
}

fn stages(paper: &mut Paper, run: &RunStory<'_>) {
    let state = run.state;
    let lines = timeline(run.records);
    paper.gap();
    let mut say = |tone: Tone, name: &str, took: &str, outcome: &str| {
        paper.line(&[
            (tone.into(), &format!("  {} {name:<10}", tone.mark())),
            (Paint::Dim, &format!("{took:>7}  ")),
            (Paint::None, &text::shortened(outcome, WIDTH - 22)),
        ]);
    };
    if let Some(image) = findings::given_image(state) {
        say(Tone::Good, "image", "given", &image);
    }
    // With several checks, each check has one line below.
    for line in lines.iter().filter(|line| line.check.is_none()) {
        let took = line.ended.map_or_else(String::new, |ended| text::took(ended.since(line.began)));
        say(findings::tone_of(state, line), &line.title(), &took, &line.outcome);
    }
    let unreached = findings::unreached(state, &lines);
    if !unreached.is_empty() {
        let names: Vec<_> = unreached.iter().map(|stage| stage.as_str()).collect();
        let head = if state.settled.is_some() { "not reached" } else { "to come" };
        paper.line(&[(Paint::Dim, &format!("    {head}: {}", names.join(", ")))]);
    }
}

/// One line for each check, worst first, and the name of the one whose measurements follow.
fn checks(paper: &mut Paper, run: &RunStory<'_>) {
    let lines = checks::checks(run);
    if lines.is_empty() {
        return;
    }
    paper.gap();
    let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).min(40);
    for line in lines.iter().take(CHECKS) {
        let name = text::shortened(&line.name, 40);
        paper.line(&[
            (line.tone.into(), &format!("  {} {name:<width$}  ", line.mark)),
            (line.tone.into(), &format!("{:<12}  ", line.word)),
            (Paint::None, &text::shortened(&line.why, WIDTH - width.min(50) - 20)),
        ]);
    }
    if lines.len() > CHECKS {
        let more = text::count((lines.len() - CHECKS) as u64, "more check");
        paper.line(&[(Paint::Dim, &format!("    {more}{}", elsewhere_of(run)))]);
    }
    if let Some(shown) = lines.iter().find(|line| line.is_shown) {
        paper.line(&[(
            Paint::Dim,
            &format!("    measurements and verdict of {}:", text::shortened(&shown.name, 40)),
        )]);
    }
}

fn elsewhere_of(run: &RunStory<'_>) -> String {
    run.places.report.as_ref().map_or_else(String::new, |page| format!(", all in {page}"))
}

fn measurements(paper: &mut Paper, story: &Story<'_>, room: usize) {
    if story.logs.len() > 1 {
        return logs(paper, story);
    }
    let Some(log) = story.logs.first() else { return };
    // The section about metrics names the program of a log with metrics.
    if let Some(nothing) = measured::nothing(log.reading).filter(|_| log.reading.format.is_none()) {
        paper.gap();
        paper.paragraph((Paint::None, "  "), &nothing, NOTE);
    }
    let Some(first) = measured::tables(story, log).next() else { return };
    paper.gap();
    paper.line(&[
        (Paint::None, "  "),
        (Paint::Bold, &text::shortened(&measured::caption(first.table), WIDTH)),
    ]);
    let all = if story.run.is_some() { "the report shows all" } else { "--output csv shows all" };
    table::write(paper, &first, room, all);
    if let Some(average) = first.table.average_busbw {
        let average =
            format!("  average bus bandwidth {} GB/s (not used for the verdict)", text::figure(average));
        paper.line(&[(Paint::Dim, &average)]);
    }
    let many = log.reading.tables.len();
    if many > 1 {
        let many = format!("  the first of {many} tables in the log; the report shows more");
        paper.line(&[(Tone::Unsure.into(), &many)]);
    }
}

/// Several logs, one line each, worst first; a series keeps its order. Totals come first.
fn logs(paper: &mut Paper, story: &Story<'_>) {
    let verdict = |log: &crate::LogStory<'_>| log.judgement.map(|judgement| judgement.verdict);
    let gravity = |log: &crate::LogStory<'_>| match verdict(log) {
        Some(Verdict::Fail) => 0,
        Some(Verdict::Inconclusive) | None => 1,
        Some(Verdict::Pass) => 2,
    };
    let mut shown: Vec<_> = story.logs.iter().enumerate().collect();
    shown.sort_by_key(|(_, log)| gravity(log));
    shown.truncate(LOGS);
    if story.series {
        shown.sort_unstable_by_key(|(at, _)| *at);
    }
    paper.gap();
    let total = |wanted| story.logs.iter().filter(|log| gravity(log) == wanted).count();
    let totals = format!("  {} fail, {} inconclusive, {} pass", total(0), total(1), total(2));
    paper.line(&[(Paint::Dim, &totals)]);
    for (_, log) in shown {
        let tone = verdict(log).map_or(Tone::Unsure, Tone::from);
        let level = || match log.reading.tables.as_slice() {
            [table] => story.baseline(log)?.level(table),
            _ => None,
        };
        let level = level().map_or_else(String::new, |level| format!("  {}", percent(level)));
        let name = text::shortened(log.name, WIDTH - 16);
        paper.line(&[
            (tone.into(), &format!("  {} ", tone.mark())),
            (Paint::None, &name),
            (Paint::Dim, &level),
        ]);
    }
    let more = story.logs.len().saturating_sub(LOGS);
    if more > 0 {
        paper.line(&[(Paint::Dim, &format!("    and {}", text::count(more as u64, "more log")))]);
    }
}

fn verdict(paper: &mut Paper, story: &Story<'_>) {
    let headline = findings::headline(story);
    paper.line(&[(headline.tone.into(), headline.word)]);
    // Without a level the first reason is the sentence.
    let first = findings::reasons(story).first();
    if let Some(sentence) = summary::sentence(story)
        .filter(|sentence| first.is_none_or(|first| !first.text.starts_with(sentence.trim_end_matches('…'))))
    {
        paper.paragraph((Paint::Bold, "  "), &sentence, WRAPPED);
    }
    let diagnosed = story.whole().is_some_and(|judgement| !judgement.diagnoses.is_empty());
    let told = reasons(story, if diagnosed { REASONS_BESIDE } else { REASONS });
    let widest = told.iter().map(|(code, ..)| code.chars().count()).max().unwrap_or(0);
    for (code, tone, why) in &told {
        paper.paragraph(((*tone).into(), &format!("  {code:widest$}  ")), why, WRAPPED);
    }
    let kinds = findings::reasons(story).iter().map(|reason| reason.code.as_str()).collect::<BTreeSet<_>>();
    if kinds.len() > told.len() {
        let more = text::count((kinds.len() - told.len()) as u64, "more kind");
        paper.line(&[(Paint::Dim, &format!("  {more} of reasons{}", elsewhere(story)))]);
    }
    for note in findings::notes(story) {
        paper.line(&[(note.tone.into(), "  "), (note.tone.into(), &text::shortened(&note.head, 2 * WIDTH))]);
        for line in text::block(&note.text).lines().take(NOTE) {
            paper.paragraph((Paint::None, "    "), line, NOTE);
        }
    }
}

/// The most severe reasons: code, tone and text. If there are too many, the first of each code represents the
/// others.
fn reasons(story: &Story<'_>, most: usize) -> Vec<(String, Tone, String)> {
    let all = findings::reasons(story);
    let mut told: Vec<(String, Tone, String)> = Vec::new();
    let mut seen = BTreeSet::new();
    for reason in all {
        if told.len() == most {
            break;
        }
        let others = all.iter().filter(|other| other.code == reason.code).count() - 1;
        if all.len() > most && !seen.insert(&reason.code) {
            continue;
        }
        let more = match others {
            1.. if all.len() > most => format!(" (and {others} more of this kind)"),
            _ => String::new(),
        };
        let why = text::shortened(&reason.text, WRAPPED * 70) + &more;
        told.push((text::shortened(&reason.code, 24), reason.weighs.into(), why));
    }
    told
}

/// Name of the format that shows the omitted part.
const fn elsewhere(story: &Story<'_>) -> &'static str {
    if story.run.is_some() { " in the report" } else { " with --output html" }
}

/// Probable causes and suspects.
fn found(paper: &mut Paper, story: &Story<'_>) {
    let (diagnoses, more) = evidence::diagnoses(story.whole(), DIAGNOSES, EVIDENCE);
    if !diagnoses.is_empty() {
        paper.gap();
    }
    for diagnosis in &diagnoses {
        let head = format!("  {}  ", diagnosis.cause);
        paper.paragraph((Paint::Bold, &head), &diagnosis.advice, WRAPPED);
        for line in &diagnosis.lines {
            paper.line(&[(Paint::Dim, "    "), (Paint::Dim, &text::shortened(line, WIDTH - 4))]);
        }
        if diagnosis.more > 0 {
            let more = text::count(diagnosis.more, "more such line");
            paper.line(&[(Paint::Dim, &format!("    and {more}"))]);
        }
    }
    if more > 0 {
        paper.line(&[(Paint::Dim, &format!("  more diagnoses{}: {more}", elsewhere(story)))]);
    }
    let (suspects, more) = evidence::suspects(story.whole(), SUSPECTS);
    for (name, confidence) in &suspects {
        let name = text::shortened(name, WIDTH - 36);
        paper.line(&[
            (Tone::Bad.into(), "  suspect  "),
            (Paint::None, &format!("{name}, confidence {confidence:.2}")),
        ]);
    }
    if more > 0 {
        paper.line(&[(Paint::Dim, &format!("  more suspects{}: {more}", elsewhere(story)))]);
    }
}

fn places(paper: &mut Paper, run: &RunStory<'_>) {
    paper.gap();
    for (name, place) in words::places(run.places) {
        // Never truncated: these values are for copying.
        paper.line(&[(Paint::Dim, &format!("  {name:<10} ")), (Paint::None, place)]);
    }
}
