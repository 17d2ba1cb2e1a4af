//! `burnin parse`: prints the content of logs.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use model::measurement::{self, Column, LogEnd, PartialHalf, Placement, Reading, Row, Table};
use serde::Serialize;

use crate::{
    args::Form,
    commands::{print_json, write_with},
    documents::ParseDocument,
    exit::{CliError, Exit},
};

/// Parses and prints every log.
pub fn parse(logs: &[impl AsRef<Path>], output: Form) -> Result<Exit, CliError> {
    let mut exit = Exit::Pass;
    let mut header = true;
    for log in logs {
        let source = log.as_ref().display().to_string();
        let reading = read(log.as_ref())?;
        if reading.tables.is_empty() {
            exit = Exit::Inconclusive;
        }
        match output {
            Form::Table => write_with(|out| write_text(out, &shown(&source), &reading)),
            Form::Json => print_json(&ParseDocument { schema: "burnin/parse/v1", source, reading }),
            Form::Csv => write_with(|out| {
                let mut lines = csv::WriterBuilder::new().has_headers(header).from_writer(out);
                for line in spread(&report::cell(&source), &reading) {
                    lines.serialize(line).map_err(io_error)?;
                    header = false;
                }
                lines.flush()
            }),
        }
    }
    Ok(exit)
}

/// The I/O error under the CSV error: its kind distinguishes a closed pipe from a full disk.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Parses one log and its clues; `-` is standard input.
pub fn listen(log: &Path) -> Result<(Reading, verdict::Clues), CliError> {
    body(log)
        .and_then(::judge::listen)
        .map_err(|error| CliError::usage(format!("{}: cannot be read: {error}", log.display())))
}

fn body(log: &Path) -> io::Result<Box<dyn Read>> {
    Ok(if log == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(log)?) })
}

/// Parses one log; `-` is standard input.
pub fn read(log: &Path) -> Result<Reading, CliError> {
    body(log)
        .and_then(nccl::read)
        .map_err(|error| CliError::usage(format!("{}: cannot be read: {error}", log.display())))
}

/// One line of CSV: one placement of one size.
#[derive(Serialize)]
struct ParsedRow<'a> {
    source: &'a str,
    table: usize,
    collective: Option<String>,
    ranks: Option<u32>,
    size_bytes: u64,
    count: u64,
    dtype: String,
    redop: Option<String>,
    root: Option<i64>,
    placement: &'static str,
    time_us: Option<f64>,
    algbw: Option<f64>,
    busbw: Option<f64>,
    wrong: Option<u64>,
}

fn spread<'a>(source: &'a str, reading: &'a Reading) -> impl Iterator<Item = ParsedRow<'a>> {
    reading.tables.iter().enumerate().flat_map(move |(number, table)| {
        table.rows.iter().flat_map(move |row| {
            let placed = [("out_of_place", Placement::OutOfPlace), ("in_place", Placement::InPlace)];
            let halves =
                placed.into_iter().filter_map(|(name, placement)| Some((name, half(row, placement)?)));
            halves.map(move |(placement, half)| ParsedRow {
                source,
                table: number,
                collective: table.collective.as_deref().map(report::cell),
                ranks: table.ranks,
                size_bytes: row.size_bytes,
                count: row.count,
                dtype: report::cell(&row.dtype),
                redop: row.redop.as_deref().map(report::cell),
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

fn write_text(out: &mut dyn Write, source: &str, reading: &Reading) -> io::Result<()> {
    writeln!(out, "{source}: {}", word(reading.ended))?;
    if let Some(error) = &reading.first_error {
        writeln!(out, "  first error: {}", shown(error))?;
    }
    for table in &reading.tables {
        writeln!(out, "\n{}", title(table))?;
        tell_rows(out, &table.rows)?;
    }
    Ok(())
}

/// Prints right-aligned rows. Cells are formatted twice, once for the widths: keeping them all would take more memory than
/// everything else.
fn tell_rows(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    let mut widths = COLUMNS.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(cells(row)) {
            *width = cell.chars().count().max(*width);
        }
    }
    let names = COLUMNS.iter().zip(widths).map(|(name, width)| format!(" {name:<width$} "));
    writeln!(out, "{}", names.collect::<String>())?;
    for row in rows {
        for (cell, width) in cells(row).iter().zip(widths) {
            write!(out, " {cell:>width$} ")?;
        }
        writeln!(out)?;
    }
    Ok(())
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
        _ = write!(title, ", average busbw {average} GB/s (not used for the verdict)");
    }
    _ = write!(title, ", {}", word(table.ended));
    title
}

const COLUMNS: [&str; 11] =
    ["size", "type", "redop", "time us", "algbw", "busbw", "wrong", "time us", "algbw", "busbw", "wrong"];

fn cells(row: &Row) -> Vec<String> {
    let size = measurement::size(row.size_bytes);
    let mut cells = vec![size, shown(&row.dtype), shown(row.redop.as_deref().unwrap_or("-"))];
    for placement in [Placement::OutOfPlace, Placement::InPlace] {
        cells.extend(numbers(half(row, placement)));
    }
    cells
}

/// The parsed columns of a row's half.
fn half(row: &Row, placement: Placement) -> Option<PartialHalf> {
    let whole = match placement {
        Placement::OutOfPlace => row.out_of_place,
        Placement::InPlace => row.in_place,
    };
    let whole = whole.map(|half| PartialHalf {
        placement,
        time_us: Some(half.time_us),
        algbw: Some(half.algbw),
        busbw: Some(half.busbw),
        wrong: half.wrong,
        unread: Vec::new(),
    });
    whole.or_else(|| row.partial.as_deref().filter(|half| half.placement == placement).cloned())
}

fn numbers(half: Option<PartialHalf>) -> [String; 4] {
    let Some(half) = half else { return ["-", "-", "-", "-"].map(str::to_owned) };
    let number = |number: Option<f64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    let wrong = match half.wrong {
        Some(wrong) => wrong.to_string(),
        None if half.unread.contains(&Column::Wrong) => "?".to_owned(),
        None => "N/A".to_owned(),
    };
    [number(half.time_us), number(half.algbw), number(half.busbw), wrong]
}

const fn word(ended: LogEnd) -> &'static str {
    match ended {
        LogEnd::Complete => "complete",
        LogEnd::Truncated => "truncated",
        LogEnd::Failed => "failed",
        LogEnd::Empty => "empty: no table",
    }
}

/// Logs are external text: removes characters that a terminal interprets.
pub fn shown(text: &str) -> String {
    text.chars().map(|c| if report::acts(c) { ' ' } else { c }).collect()
}
