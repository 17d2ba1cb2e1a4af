//! The measurements as a table that fits any terminal.

use comfy_table::{CellAlignment, LineStyle, Table, presets};

use super::text_report::{Paint, TextReport};
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
/// Maximum number of remarkable rows in an abridged table; the other rows are spread over the sizes.
const REMARKABLE: usize = 4;

/// Optional columns: shown if the table has their values and the terminal is wide enough.
#[derive(Clone, Copy)]
struct Columns {
    times: bool,
    wrong: bool,
    /// Whether no value of the table is wrong.
    is_right: bool,
    /// Whether both placements are shown, or only the slower one of each size.
    both: bool,
    baseline: bool,
    reference: bool,
    floors: bool,
}

impl Columns {
    /// This selection with fewer columns, for narrower terminals: the columns of times are omitted first.
    fn narrower(self) -> Option<Self> {
        match self {
            Self { times: true, .. } => Some(Self { times: false, ..self }),
            Self { wrong: true, is_right: true, .. } => Some(Self { wrong: false, ..self }),
            Self { both: true, .. } => Some(Self { both: false, ..self }),
            Self { wrong: true, .. } => Some(Self { wrong: false, ..self }),
            _ => None,
        }
    }

    /// Note on the omitted columns, below the table; `None` if all are shown.
    fn left_out(self) -> Option<&'static str> {
        match self {
            Self { times: true, .. } => None,
            Self { both: true, wrong: true, .. } => Some("times are left out"),
            Self { both: true, .. } => Some("no wrong values, times are left out"),
            _ => Some("the slower placement only"),
        }
    }
}

/// Writes a part of the table, at most `room` lines. `all` names the format with the full table.
pub fn write(text_report: &mut TextReport, measured: &MeasuredTable<'_>, room: usize, all: &str) {
    let rows = &measured.rows;
    let shown = shown(rows, room);
    let mut columns = Columns {
        times: true,
        wrong: true,
        is_right: rows.iter().all(|row| row.wrong == Some(0)),
        both: true,
        baseline: measured.references.baseline().is_some(),
        reference: measured.references.reference().is_some(),
        floors: rows.iter().any(|row| row.floor.is_some()),
    };
    let (table, paints) = loop {
        let (table, paints) = filled(rows, &shown, columns);
        // Each line is indented by one space.
        let wide = table.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0) + 1;
        match columns.narrower().filter(|_| wide > text_report.width()) {
            Some(narrower) => columns = narrower,
            None => break (table, paints),
        }
    };

    // The table begins with two header lines and the rule; one line per row follows.
    let paints = [Paint::Dim; 3].into_iter().chain(paints).chain(std::iter::repeat(Paint::None));
    for (line, paint) in table.lines().zip(paints) {
        text_report.line(&[(Paint::None, " "), (paint, line.trim_end())]);
    }
    let some = (shown.len() < rows.len()).then(|| format!("{} of {} sizes", shown.len(), rows.len()));
    let left: Vec<_> = some.into_iter().chain(columns.left_out().map(str::to_owned)).collect();
    if !left.is_empty() {
        text_report.paragraph((Paint::Dim, "  "), &format!("{}; {all}", left.join(", ")), 2);
    }
}

fn filled(rows: &[MeasuredSize<'_>], shown: &[usize], columns: Columns) -> (Table, Vec<Paint>) {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(presets::NOTHING.header_separator(rule));
    table.set_header(header(columns));
    let mut paints = Vec::new();
    let mut last = None;
    for index in shown {
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
    (table, paints)
}

fn header(columns: Columns) -> Vec<&'static str> {
    let mut header = vec!["\nsize"];
    let placements: &[[&str; 2]] = match columns.both {
        true => &[
            ["out of place\ntime µs", "out of place\nbusbw GB/s"],
            ["in place\ntime µs", "in place\nbusbw GB/s"],
        ],
        false => &[["\ntime µs", "slower placement\nbusbw GB/s"]],
    };
    for [time, busbw] in placements {
        match columns.times {
            true => header.extend([*time, "\nbusbw GB/s"]),
            false => header.push(busbw),
        }
        header.extend(columns.baseline.then_some("\nslower"));
    }
    header.extend(columns.wrong.then_some("\nwrong"));
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
    let both = [row.out_of_place.as_ref(), row.in_place.as_ref()];
    let slower = row.placed().max_by(|a, b| a.half.time_us.total_cmp(&b.half.time_us));
    let placements = if columns.both { &both[..] } else { &[slower] };
    for placed in placements {
        let of = placed.map(|placed| placed.half);
        if columns.times {
            cells.push(of.map_or_else(none, |half| figure(half.time_us)));
        }
        cells.push(of.map_or_else(none, |half| figure(half.busbw)));
        if columns.baseline {
            cells.push(placed.and_then(Placed::slower).map_or_else(none, percent));
        }
    }
    cells.extend(columns.wrong.then(|| row.wrong_words()));
    let mut bound = |there: bool, what: &str, bound: Option<f64>| {
        let missed = if row.is_below(what) { "✗ " } else { "" };
        cells.extend(there.then(|| bound.map_or_else(String::new, |it| format!("{missed}{}", figure(it)))));
    };
    bound(columns.reference, "reference", row.reference);
    bound(columns.floors, "floor", row.floor);
    cells
}
