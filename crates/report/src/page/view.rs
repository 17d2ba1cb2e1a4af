//! What the template is filled with.

use serde::Serialize;
use terms::{Reason, measurement::Half};

use crate::{
    Story,
    facts::{self, Detail},
    findings::{self, Note, Tone},
    measured::{self, Measured, Row},
    plot::{self, Canvas, Plot},
    text::{self, figure},
    timeline::timeline,
    words,
};

/// A log with more tables than this shows the first ones.
const TABLES: usize = 3;
/// So does a table with more rows,
const ROWS: usize = 100;
/// and a ledger with more records.
const RECORDS: usize = 400;
/// Longest text of a record. The ledger itself has the rest.
const SAID: usize = 300;

/// Everything on the page. All text is raw: the page cleans and escapes it.
#[derive(Serialize)]
pub struct View<'a> {
    run: &'a str,
    workflow: &'a str,
    asked: String,
    took: String,
    requested: String,
    tone: Tone,
    word: &'static str,
    reasons: Vec<Because<'a>>,
    notes: Vec<Note>,
    stages: Vec<Bar>,
    unreached: Option<String>,
    nothing: Option<String>,
    tables: Vec<Figures>,
    more_tables: usize,
    details: Vec<Detail>,
    places: Vec<(&'static str, &'a str)>,
    ledger: Vec<Line>,
    records: usize,
    css: &'static str,
}

#[derive(Serialize)]
struct Because<'a> {
    tone: Tone,
    code: &'a str,
    text: &'a str,
}

/// A stage, and where its bar begins and ends, percent of the run.
#[derive(Serialize)]
struct Bar {
    name: String,
    tone: Tone,
    mark: &'static str,
    took: String,
    outcome: String,
    from: String,
    wide: String,
}

#[derive(Serialize)]
struct Figures {
    caption: String,
    average: Option<String>,
    described: String,
    wide: Option<Plot>,
    narrow: Option<Plot>,
    floors: bool,
    rows: Vec<Cells>,
    more_rows: usize,
}

#[derive(Serialize)]
struct Cells {
    size: String,
    bytes: u64,
    /// Time, algbw and busbw of out-of-place, then of in-place.
    figures: Vec<Figure>,
    wrong: String,
    has_wrong: bool,
    floor: Option<String>,
    below: bool,
}

#[derive(Serialize)]
struct Figure {
    text: String,
    /// Of its placement: `time`, `algbw` or `busbw`.
    kind: &'static str,
    bad: bool,
}

#[derive(Serialize)]
struct Line {
    seq: u64,
    at: String,
    what: String,
    said: String,
}

impl<'a> View<'a> {
    pub fn of(story: &Story<'a>) -> Self {
        let state = story.state;
        let headline = findings::headline(story);
        let tables = measured::measured(story);
        let lines = timeline(story.records);
        let unreached: Vec<_> =
            findings::unreached(state, &lines).iter().map(|stage| stage.as_str()).collect();
        let head = if state.settled.is_some() { "not reached" } else { "to come" };
        Self {
            run: state.run.as_str(),
            workflow: &state.workflow.name,
            asked: format!("{} by {}", state.trigger.kind, state.trigger.by),
            took: text::took(state.recorded_at.since(state.requested_at)),
            requested: text::moment(state.requested_at),
            tone: headline.tone,
            word: headline.word,
            reasons: findings::reasons(story).iter().take(ROWS).map(because).collect(),
            notes: findings::notes(story),
            stages: bars(story, &lines),
            unreached: (!unreached.is_empty()).then(|| format!("{head}: {}", unreached.join(", "))),
            nothing: story.reading.and_then(measured::nothing),
            more_tables: tables.len().saturating_sub(TABLES),
            tables: tables.take(TABLES).map(|table| figures(story, &table)).collect(),
            details: facts::details(story),
            places: words::places(story.places),
            ledger: story.records.iter().take(RECORDS).map(line).collect(),
            records: story.records.len(),
            css: include_str!("../../templates/run.css"),
        }
    }
}

fn because(reason: &Reason) -> Because<'_> {
    Because { tone: reason.weighs.into(), code: &reason.code, text: &reason.text }
}

fn bars(story: &Story<'_>, lines: &[crate::StageLine]) -> Vec<Bar> {
    let state = story.state;
    let whole = state.recorded_at.since(state.requested_at).0.as_secs_f64().max(1e-3);
    let percent = |at: terms::Timestamp| at.since(state.requested_at).0.as_secs_f64() / whole * 100.0;
    let given = findings::given_image(state).map(|outcome| Bar {
        name: "image".to_owned(),
        tone: Tone::Good,
        mark: Tone::Good.mark(),
        took: "given".to_owned(),
        outcome,
        from: "0".to_owned(),
        wide: "0".to_owned(),
    });
    let bars = lines.iter().map(|line| {
        let tone = findings::tone_of(state, line);
        let (from, to) = (percent(line.began), percent(line.ended.unwrap_or(state.recorded_at)));
        Bar {
            name: line.title(),
            tone,
            mark: tone.mark(),
            took: line.ended.map_or_else(String::new, |ended| text::took(ended.since(line.began))),
            outcome: line.outcome.clone(),
            from: format!("{from:.2}"),
            wide: format!("{:.2}", to - from),
        }
    });
    given.into_iter().chain(bars).collect()
}

fn figures(story: &Story<'_>, measured: &Measured<'_>) -> Figures {
    let all = &measured.rows;
    let rows = &all[..all.len().min(ROWS)];
    let floors = measured::floors(story);
    let draw = |width, height| plot::plot(rows, &floors, Canvas { width, height });
    Figures {
        caption: measured::caption(measured.table),
        average: measured.table.average_busbw.map(figure),
        described: described(rows, floors.len()),
        wide: draw(1000, 420),
        narrow: draw(360, 300),
        floors: rows.iter().any(|row| row.floor.is_some()),
        rows: rows.iter().map(cells).collect(),
        more_rows: all.len() - rows.len(),
    }
}

/// The plot in words, for those who do not see it.
fn described(rows: &[Row<'_>], floors: usize) -> String {
    let ends = |name: &str, half: for<'r> fn(&'r Row<'_>) -> Option<&'r Half>| {
        let at = |row: &Row<'_>| {
            Some(format!("{} GB/s at {}", figure(half(row)?.busbw), text::size(row.size_bytes)))
        };
        let (first, last) = (rows.iter().find_map(at)?, rows.iter().rev().find_map(at)?);
        Some(format!("{name}: from {first} to {last}."))
    };
    let lines = [ends("Out of place", |row| row.out_of_place), ends("In place", |row| row.in_place)];
    let mut words: Vec<_> = lines.into_iter().flatten().collect();
    if floors > 0 {
        words.push(format!("{} of the criteria as bars.", text::count(floors as u64, "floor")));
    }
    words.push("The table below has every figure.".to_owned());
    words.join(" ")
}

fn cells(row: &Row<'_>) -> Cells {
    let half = |half: Option<&Half>| {
        let figures = half.map(|half| [half.time_us, half.algbw, half.busbw].map(figure));
        let bad = half.zip(row.floor).is_some_and(|(half, floor)| half.busbw < floor);
        let texts = figures.unwrap_or_else(|| ["-", "-", "-"].map(str::to_owned));
        let kinds = ["time", "algbw", "busbw"].into_iter();
        kinds.zip(texts).map(move |(kind, text)| Figure { text, kind, bad: bad && kind == "busbw" })
    };
    Cells {
        size: text::size(row.size_bytes),
        bytes: row.size_bytes,
        figures: half(row.out_of_place).chain(half(row.in_place)).collect(),
        wrong: row.wrong_words(),
        has_wrong: row.has_wrong(),
        floor: row.floor.map(figure),
        below: row.below_floor(),
    }
}

fn line(record: &terms::Record) -> Line {
    let (what, said) = words::entry(&record.entry);
    Line { seq: record.seq, at: record.recorded_at.to_string(), what, said: text::shortened(&said, SAID) }
}
