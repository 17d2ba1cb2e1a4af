//! Measurement tables of the page.

use serde::Serialize;

use crate::{
    ReportInput,
    history::percent,
    measured::{self, MeasuredSize, MeasuredTable, Placed},
    plot::{Canvas, CurvePlot, curve},
    render::Drawing,
    summary,
    text::{self, figure},
};

/// Maximum number of tables per log. If there are several logs, the worst ones are shown.
const TABLES: usize = 3;
/// Maximum number of tables of all logs together.
const TOGETHER: usize = 6;
/// Maximum number of rows per table; fewer if there are many tables.
const ROWS: usize = 100;

/// A measurement table for the page. All text is unescaped.
#[derive(Serialize)]
pub struct TableFigures {
    source: Option<String>,
    caption: String,
    average: Option<String>,
    drawing: Option<Drawing>,
    /// Columns that only some tables have.
    floors: bool,
    reference: Option<String>,
    baseline: bool,
    rows: Vec<FigureCells>,
    more_rows: usize,
}

#[derive(Serialize)]
struct FigureCells {
    size: String,
    bytes: u64,
    /// Time, algbw and busbw, first out-of-place, then in-place; with a baseline also the slowdown of each.
    figures: Vec<Figure>,
    wrong: String,
    has_wrong: bool,
    floor: Option<String>,
    below_floor: bool,
    reference: Option<String>,
    below_reference: bool,
    bad: bool,
}

#[derive(Serialize)]
struct Figure {
    text: String,
    /// Column of the placement: `time`, `algbw`, `busbw` or `slower`.
    kind: &'static str,
    bad: bool,
}

/// The tables to show, and the number of omitted tables. The worst logs come first.
pub fn figures(input: &ReportInput<'_>) -> (Vec<TableFigures>, usize) {
    let several = input.logs.len() > 1;
    let all: usize = input.logs.iter().map(|log| log.reading.tables.len()).sum();
    let logs: Vec<_> = match several && input.run.is_none() {
        true => summary::groups(input).into_iter().flat_map(|group| group.logs).map(|log| log.log).collect(),
        false => input.logs.clone(),
    };
    let most = if several { TOGETHER } else { TABLES };
    let rows = if all > TABLES && several { ROWS / 2 } else { ROWS };
    let tables =
        logs.iter().take(TOGETHER).flat_map(|log| measured::tables(input, log).take(TABLES)).take(most);
    let shown: Vec<_> = tables.map(|table| of_table(&table, several, rows)).collect();
    let more = all - shown.len();
    (shown, more)
}

fn of_table(measured: &MeasuredTable<'_>, named: bool, most: usize) -> TableFigures {
    let rows = &measured.rows[..measured.rows.len().min(most)];
    let references = &measured.references;
    let of = CurvePlot { rows, references };
    let draw = |canvas| curve(of, canvas);
    TableFigures {
        source: named.then(|| measured.source.to_owned()),
        caption: measured::caption(measured.table),
        average: measured.table.average_busbw.map(figure),
        drawing: Drawing::of("Bus bandwidth by message size", described(measured, rows), Canvas::WIDE, draw),
        floors: !references.floors().is_empty() && rows.iter().any(|row| row.floor.is_some()),
        reference: references.reference().map(|reference| reference.source.clone()),
        baseline: references.baseline().is_some(),
        rows: rows.iter().map(|row| cells(row, references.baseline().is_some())).collect(),
        more_rows: measured.rows.len() - rows.len(),
    }
}

/// Text alternative of the plot.
fn described(measured: &MeasuredTable<'_>, rows: &[MeasuredSize<'_>]) -> String {
    let ends = |name: &str, placed: for<'r> fn(&'r MeasuredSize<'_>) -> Option<&'r Placed<'r>>| {
        let at = |row: &MeasuredSize<'_>| {
            Some(format!("{} GB/s at {}", figure(placed(row)?.half.busbw), text::size(row.size_bytes)))
        };
        let (first, last) = (rows.iter().find_map(at)?, rows.iter().rev().find_map(at)?);
        Some(format!("{name}: from {first} to {last}."))
    };
    let lines = [
        ends("Out of place", |row| row.out_of_place.as_ref()),
        ends("In place", |row| row.in_place.as_ref()),
    ];
    let mut words: Vec<_> = lines.into_iter().flatten().collect();
    let references = &measured.references;
    if !references.floors().is_empty() {
        let floors = text::count(references.floors().len() as u64, "floor");
        words.push(format!("{floors} of the criteria as bars."));
    }
    for what in ["reference", "baseline"] {
        let below = rows.iter().filter(|row| row.is_below(what)).count() as u64;
        let there = if what == "baseline" {
            references.baseline().is_some()
        } else {
            references.reference().is_some()
        };
        words.extend(there.then(|| format!("{} below the {what}.", text::count(below, "size"))));
    }
    words.push("The table below has every figure.".to_owned());
    words.join(" ")
}

fn cells(row: &MeasuredSize<'_>, baseline: bool) -> FigureCells {
    let half = |placed: Option<&Placed<'_>>| {
        let figure = |kind, text: Option<String>, bad: bool| Figure {
            text: text.unwrap_or_else(|| "-".to_owned()),
            kind,
            bad: bad && placed.is_some(),
        };
        let of = placed.map(|placed| placed.half);
        let slower = placed.and_then(Placed::slower);
        let (short, late) = placed.map_or((false, false), |it| (it.short(), it.below.contains(&"baseline")));
        let mut figures = vec![
            figure("time", of.map(|half| text::figure(half.time_us)), false),
            figure("algbw", of.map(|half| text::figure(half.algbw)), false),
            figure("busbw", of.map(|half| text::figure(half.busbw)), short),
        ];
        figures.extend(baseline.then(|| figure("slower", slower.map(percent), late)));
        figures
    };
    let mut figures = half(row.out_of_place.as_ref());
    figures.extend(half(row.in_place.as_ref()));
    let (below_floor, below_reference) = (row.is_below("floor"), row.is_below("reference"));
    FigureCells {
        size: text::size(row.size_bytes),
        bytes: row.size_bytes,
        figures,
        wrong: row.wrong_words(),
        has_wrong: row.has_wrong(),
        floor: row.floor.map(figure),
        below_floor,
        reference: row.reference.map(figure),
        below_reference,
        bad: below_floor || below_reference || row.has_wrong() || row.is_below("baseline"),
    }
}
