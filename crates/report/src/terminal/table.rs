//! The measurements as a table narrow enough for any terminal.

use comfy_table::{CellAlignment, LineStyle, Table, presets};
use terms::measurement::Half;

use super::paper::{Paint, Paper};
use crate::{
    findings::Tone,
    measured::Row,
    text::{self, figure},
};

/// A longer table is shown in part,
const LONG: usize = 14;
/// in so many rows.
const ROWS: usize = 10;
/// Remarkable rows that are shown above the others; a table that is wrong everywhere says so with fewer.
const REMARKABLE: usize = 4;

pub fn write(paper: &mut Paper, rows: &[Row<'_>]) {
    let floors = rows.iter().any(|row| row.floor.is_some());
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(presets::NOTHING.header_separator(rule));
    let heads =
        ["size", "out of place\ntime µs", "\nbusbw GB/s", "in place\ntime µs", "\nbusbw GB/s", "\nwrong"];
    let mut header = heads.map(str::to_owned).to_vec();
    header[0].insert(0, '\n');
    header.extend(floors.then(|| "\nfloor GB/s".to_owned()));
    table.set_header(header);

    let shown = shown(rows);
    let mut paints = Vec::new();
    let mut last = None;
    for index in &shown {
        if last.map_or(*index, |last| index - last - 1) > 0 {
            table.add_row(vec!["…"]);
            paints.push(Paint::Dim);
        }
        let row = &rows[*index];
        table.add_row(cells(row, floors));
        paints.push(if remarkable(row) { Tone::Bad.into() } else { Paint::None });
        last = Some(*index);
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));

    // Two lines of header and the rule; then every row is one line.
    let paints = [Paint::Dim; 3].into_iter().chain(paints).chain(std::iter::repeat(Paint::None));
    for (line, paint) in table.lines().zip(paints) {
        paper.line(&[(Paint::None, " "), (paint, line.trim_end())]);
    }
    if shown.len() < rows.len() {
        let more = format!("  {} of {} sizes; the report shows all", shown.len(), rows.len());
        paper.line(&[(Paint::Dim, &more)]);
    }
}

fn remarkable(row: &Row<'_>) -> bool {
    row.below_floor() || row.has_wrong()
}

/// Which rows to show, in order. The largest sizes tell most, the smallest one tells the latency, and what is wrong or
/// judged on must not be left out.
fn shown(rows: &[Row<'_>]) -> Vec<usize> {
    let all = 0..rows.len();
    if rows.len() <= LONG {
        return all.collect();
    }
    let wrong = all.clone().filter(|index| remarkable(&rows[*index])).take(REMARKABLE);
    let judged = all.clone().filter(|index| rows[*index].floor.is_some()).take(REMARKABLE);
    let mut shown: Vec<_> = wrong.chain(judged).chain([0]).collect();
    shown.sort_unstable();
    shown.dedup();
    for index in all.rev() {
        if shown.len() >= ROWS {
            break;
        }
        if let Err(place) = shown.binary_search(&index) {
            shown.insert(place, index);
        }
    }
    shown
}

fn cells(row: &Row<'_>, floors: bool) -> Vec<String> {
    let half = |half: Option<&Half>| match half {
        Some(half) => [figure(half.time_us), figure(half.busbw)],
        None => ["-".to_owned(), "-".to_owned()],
    };
    let mut cells = vec![text::size(row.size_bytes)];
    cells.extend(half(row.out_of_place));
    cells.extend(half(row.in_place));
    cells.push(row.wrong_words());
    if floors {
        let missed = if row.below_floor() { "below " } else { "" };
        cells.push(row.floor.map_or_else(String::new, |floor| format!("{missed}{}", figure(floor))));
    }
    cells
}
