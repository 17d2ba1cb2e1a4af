//! The short report: what a person reads who has just waited for the run.

mod paper;
mod table;

use crate::{
    Story,
    findings::{self, Tone},
    measured, text,
    timeline::timeline,
    words,
};

pub use paper::Style;
use paper::{Paint, Paper};

/// Reasons that are told; the page has them all.
const REASONS: usize = 8;
/// Characters of a line that is cut rather than wrapped.
const WIDTH: usize = 100;

/// The short report.
#[must_use]
pub fn terminal(story: &Story<'_>, style: Style) -> String {
    let mut paper = Paper::new(style);
    let headline = findings::headline(story);
    title(&mut paper, story);
    stages(&mut paper, story);
    measurements(&mut paper, story);

    paper.gap();
    paper.line(&[(headline.tone.into(), headline.word)]);
    let reasons = findings::reasons(story);
    let widest = reasons.iter().take(REASONS).map(|reason| reason.code.chars().count()).max().unwrap_or(0);
    for reason in reasons.iter().take(REASONS) {
        let code = format!("  {:widest$}  ", text::line(&reason.code));
        paper.paragraph((Tone::from(reason.weighs).into(), &code), &reason.text);
    }
    if reasons.len() > REASONS {
        let more = text::count((reasons.len() - REASONS) as u64, "more reason");
        paper.line(&[(Paint::Dim, &format!("  {more} in the report"))]);
    }
    for note in findings::notes(story) {
        paper.line(&[(note.tone.into(), "  "), (note.tone.into(), &note.head)]);
        for line in text::block(&note.text).lines() {
            paper.paragraph((Paint::None, "    "), line);
        }
    }
    places(&mut paper, story);
    paper.finish()
}

fn title(paper: &mut Paper, story: &Story<'_>) {
    let state = story.state;
    let asked = format!("{} by {}", state.trigger.kind, state.trigger.by);
    let took = text::took(state.recorded_at.since(state.requested_at));
    let rest = format!("{}, {asked}, {}, {took}", state.workflow.name, text::moment(state.requested_at));
    paper.line(&[
        (Paint::Bold, state.run.as_str()),
        (Paint::None, "  "),
        (Paint::Dim, &text::shortened(&rest, WIDTH)),
    ]);
}

fn stages(paper: &mut Paper, story: &Story<'_>) {
    let state = story.state;
    let lines = timeline(story.records);
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
    for line in &lines {
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

fn measurements(paper: &mut Paper, story: &Story<'_>) {
    if let Some(nothing) = story.reading.and_then(measured::nothing) {
        paper.gap();
        paper.paragraph((Paint::None, "  "), &nothing);
    }
    let mut tables = measured::measured(story);
    let many = tables.len();
    let Some(first) = tables.next() else { return };
    paper.gap();
    paper.line(&[
        (Paint::None, "  "),
        (Paint::Bold, &text::shortened(&measured::caption(first.table), WIDTH)),
    ]);
    table::write(paper, &first.rows);
    if let Some(average) = first.table.average_busbw {
        let average = format!("  average bus bandwidth {} GB/s (not judged on)", text::figure(average));
        paper.line(&[(Paint::Dim, &average)]);
    }
    if many > 1 {
        let many = format!("  the first of {many} tables in the log; the report shows more");
        paper.line(&[(Tone::Unsure.into(), &many)]);
    }
}

fn places(paper: &mut Paper, story: &Story<'_>) {
    paper.gap();
    for (name, place) in words::places(story.places) {
        // Never cut: these are there to be copied.
        paper.line(&[(Paint::Dim, &format!("  {name:<10} ")), (Paint::None, place)]);
    }
}
