//! The measurements as a table that fits any terminal.

use comfy_table::{CellAlignment, LineStyle, Table, presets};

use super::paper::{Paint, Paper};
use crate::{
    findings::Tone,
    history::percent,
    measured::{MeasuredSize, MeasuredTable, Placed},
    text::{self, figure},
};

/// Maximum number of rows of an unabridged table.
const LONG: usize = 14;
/// Number of rows of an abridged table.
const ROWS: usize = 10;
/// Maximum number of remarkable rows shown with priority; if all rows are remarkable, fewer suffice.
const REMARKABLE: usize = 4;

/// Columns that only some tables have.
#[derive(Clone, Copy)]
struct Columns {
    baseline: bool,
    reference: bool,
    floors: bool,
}

/// Writes a part of the table within `room` lines. `all` names the format with the full table.
pub fn write(paper: &mut Paper, measured: &MeasuredTable<'_>, room: usize, all: &str) {
    let rows = &measured.rows;
    let columns = Columns {
        baseline: measured.against.baseline().is_some(),
        reference: measured.against.reference().is_some(),
        floors: rows.iter().any(|row| row.floor.is_some()),
    };
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(presets::NOTHING.header_separator(rule));
    table.set_header(header(columns));

    let shown = shown(rows, room);
    let mut paints = Vec::new();
    let mut last = None;
    for index in &shown {
        if last.map_or(*index, |last| index - last - 1) > 0 {
            table.add_row(vec!["…"]);
            paints.push(Paint::Dim);
        }
        let row = &rows[*index];
        table.add_row(cells(row, columns));
        paints.push(if remarkable(row) { Tone::Bad.into() } else { Paint::None });
        last = Some(*index);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
        if columns.baseline {
            column.set_padding((0, 1));
        }
    }

    // Two header lines and the rule; then one line per row.
    let paints = [Paint::Dim; 3].into_iter().chain(paints).chain(std::iter::repeat(Paint::None));
    for (line, paint) in table.lines().zip(paints) {
        paper.line(&[(Paint::None, " "), (paint, line.trim_end())]);
    }
    if shown.len() < rows.len() {
        let more = format!("  {} of {} sizes; {all}", shown.len(), rows.len());
        paper.line(&[(Paint::Dim, &more)]);
    }
}

fn header(columns: Columns) -> Vec<&'static str> {
    let mut header = vec!["\nsize"];
    for half in ["out of place\ntime µs", "in place\ntime µs"] {
        header.extend([half, "\nbusbw GB/s"]);
        header.extend(columns.baseline.then_some("\nslower"));
    }
    header.push("\nwrong");
    header.extend(columns.reference.then_some("reference\nGB/s"));
    let wide = columns.baseline || columns.reference;
    header.extend(columns.floors.then_some(if wide { "floor\nGB/s" } else { "\nfloor GB/s" }));
    header
}

fn remarkable(row: &MeasuredSize<'_>) -> bool {
    row.has_wrong() || row.placed().any(|placed| !placed.below.is_empty())
}

/// Rows to show, in order. The largest sizes are the most significant, the smallest shows the latency, and
/// bad or judged sizes must not be omitted.
pub fn shown(rows: &[MeasuredSize<'_>], room: usize) -> Vec<usize> {
    let all = 0..rows.len();
    if rows.len() <= LONG.min(room) {
        return all.collect();
    }
    let wrong = all.clone().filter(|index| remarkable(&rows[*index])).take(REMARKABLE);
    let judged = all.clone().filter(|index| rows[*index].floor.is_some()).take(REMARKABLE);
    let mut shown: Vec<_> = wrong.chain(judged).chain([0]).collect();
    shown.sort_unstable();
    shown.dedup();
    // A gap between rows takes a line as well.
    shown.truncate(ROWS.min(room));
    for index in all.rev() {
        if shown.len() >= ROWS.min(room) {
            break;
        }
        if let Err(place) = shown.binary_search(&index) {
            shown.insert(place, index);
        }
    }
    shown
}

fn cells(row: &MeasuredSize<'_>, columns: Columns) -> Vec<String> {
    let none = || "-".to_owned();
    let mut cells = vec![text::size(row.size_bytes)];
    for placed in [&row.out_of_place, &row.in_place] {
        let of = placed.as_ref().map(|placed| placed.half);
        cells.push(of.map_or_else(none, |half| figure(half.time_us)));
        cells.push(of.map_or_else(none, |half| figure(half.busbw)));
        if columns.baseline {
            cells.push(placed.as_ref().and_then(Placed::slower).map_or_else(none, percent));
        }
    }
    cells.push(row.wrong_words());
    let mut bound = |there: bool, what: &str, bound: Option<f64>| {
        let missed = if row.is_below(what) { "✗ " } else { "" };
        cells.extend(there.then(|| bound.map_or_else(String::new, |it| format!("{missed}{}", figure(it)))));
    };
    bound(columns.reference, "reference", row.reference);
    bound(columns.floors, "floor", row.floor);
    cells
}
