//! `burnin parse`: what logs say.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read},
    path::Path,
};

use comfy_table::{Cell, CellAlignment, Table as Lines, presets};
use serde::Serialize;
use terms::measurement::{self, Ended, Half, Reading, Row, Table};

use crate::{
    args::Form,
    commands::{print, print_json},
    documents::ParseDocument,
    exit::{Error, Exit},
};

/// Reads every log and prints what it says.
pub fn parse(logs: &[impl AsRef<Path>], output: Form) -> Result<Exit, Error> {
    let mut exit = Exit::Pass;
    let mut lines = csv::Writer::from_writer(io::stdout().lock());
    for log in logs {
        let source = log.as_ref().display().to_string();
        let reading = read(log.as_ref())?;
        if reading.tables.is_empty() {
            exit = Exit::Inconclusive;
        }
        match output {
            Form::Table => print(&told(&source, &reading)),
            Form::Json => print_json(&ParseDocument { schema: "burnin/parse/v1", source, reading }),
            // A reader that went away is no error of ours.
            Form::Csv => drop(spread(&source, &reading).try_for_each(|line| lines.serialize(line))),
        }
    }
    drop(lines.flush());
    Ok(exit)
}

/// Reads one log; `-` is standard input.
pub fn read(log: &Path) -> Result<Reading, Error> {
    let open = || -> io::Result<Reading> {
        let body: Box<dyn Read> =
            if log == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(log)?) };
        nccl::read(body)
    };
    open().map_err(|error| Error::usage(format!("{}: cannot be read: {error}", log.display())))
}

/// One line of CSV: one placement of one size.
#[derive(Serialize)]
struct Line<'a> {
    source: &'a str,
    table: usize,
    collective: Option<&'a str>,
    ranks: Option<u32>,
    size_bytes: u64,
    count: u64,
    dtype: &'a str,
    redop: Option<&'a str>,
    root: Option<i64>,
    placement: &'static str,
    time_us: f64,
    algbw: f64,
    busbw: f64,
    wrong: Option<u64>,
}

fn spread<'a>(source: &'a str, reading: &'a Reading) -> impl Iterator<Item = Line<'a>> {
    reading.tables.iter().enumerate().flat_map(move |(number, table)| {
        table.rows.iter().flat_map(move |row| {
            let placed = [("out_of_place", &row.out_of_place), ("in_place", &row.in_place)];
            let halves = placed.into_iter().filter_map(|(placement, half)| Some((placement, half.as_ref()?)));
            halves.map(move |(placement, half)| Line {
                source,
                table: number,
                collective: table.collective.as_deref(),
                ranks: table.ranks,
                size_bytes: row.size_bytes,
                count: row.count,
                dtype: &row.dtype,
                redop: row.redop.as_deref(),
                root: row.root,
                placement,
                time_us: half.time_us,
                algbw: half.algbw,
                busbw: half.busbw,
                wrong: half.wrong,
            })
        })
    })
}

fn told(source: &str, reading: &Reading) -> String {
    let mut text = format!("{source}: {}\n", word(reading.ended));
    if let Some(error) = &reading.first_error {
        _ = writeln!(text, "  first error: {}", shown(error)); // writing to a String cannot fail
    }
    for table in &reading.tables {
        _ = writeln!(text, "\n{}\n{}", title(table), lines(table));
    }
    text
}

fn title(table: &Table) -> String {
    let mut title = format!("  {}", shown(table.collective.as_deref().unwrap_or("unknown collective")));
    if let Some(ranks) = table.ranks {
        _ = write!(title, ", {ranks} ranks");
    }
    for (what, version) in [("nccl-tests", &table.nccl_tests_version), ("NCCL", &table.nccl_version)] {
        if let Some(version) = version {
            _ = write!(title, ", {what} {}", shown(version));
        }
    }
    if let Some(average) = table.average_busbw {
        _ = write!(title, ", average busbw {average} GB/s (not to be judged on)");
    }
    _ = write!(title, ", {}", word(table.ended));
    title
}

fn lines(table: &Table) -> Lines {
    let mut lines = Lines::new();
    let header =
        ["size", "type", "redop", "time us", "algbw", "busbw", "wrong", "time us", "algbw", "busbw", "wrong"];
    lines.load_style(presets::NOTHING).set_header(header);
    for row in &table.rows {
        lines.add_row(cells(row).into_iter().map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right)));
    }
    lines
}

fn cells(row: &Row) -> Vec<String> {
    let size = measurement::size(row.size_bytes);
    let mut cells = vec![size, shown(&row.dtype), shown(row.redop.as_deref().unwrap_or("-"))];
    for half in [&row.out_of_place, &row.in_place] {
        cells.extend(numbers(half.as_ref()));
    }
    cells
}

fn numbers(half: Option<&Half>) -> [String; 4] {
    let Some(half) = half else { return ["-", "-", "-", "-"].map(str::to_owned) };
    let wrong = half.wrong.map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string());
    [half.time_us.to_string(), half.algbw.to_string(), half.busbw.to_string(), wrong]
}

const fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Complete => "complete",
        Ended::Truncated => "truncated",
        Ended::Failed => "failed",
        Ended::Empty => "empty: no table",
    }
}

/// Logs are written by others: nothing of them may act on a terminal.
pub fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
