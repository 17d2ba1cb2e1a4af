//! `burnin parse`: prints the content of logs.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Cursor, Read, Write},
    path::Path,
};

use ::judge::LogReader;
use measure::evidence::EvidenceFilter;
use model::{
    measurement::{self, Column, LogEnd, NodesOfHosts, PartialHalf, Placement, Reading, Row, Table},
    metric::{Finding, Metric, Scope, Severity},
};
use serde::Serialize;

use crate::{
    args::ParseForm,
    commands::{print_json, write_with},
    documents::ParseDocument,
    exit::{CliError, Exit},
    output,
};

/// Format of the logs on the command line.
pub enum ReadFormat {
    /// Detected from the start of each log.
    Detected,
    /// A format of docs/METRICS.md.
    Known(&'static measure::Format),
    /// A declaration file of the user.
    Declared(measure::Declared),
}

impl ReadFormat {
    /// The format that `--read` names: a format of docs/METRICS.md, or a file with a declaration.
    ///
    /// # Errors
    /// Returns an error if `read` is neither a format nor the file of a declaration, or the declaration is invalid.
    pub fn of(read: Option<&Path>) -> Result<Self, CliError> {
        let Some(read) = read else { return Ok(Self::Detected) };
        if let Some(format) = read.to_str().and_then(measure::format) {
            return Ok(Self::Known(format));
        }
        if !read.exists() {
            let names: Vec<_> = measure::FORMATS.iter().map(|format| format.name).collect();
            return Err(CliError::usage(format!(
                "--read: `{}` is neither a file nor a format; the formats are {}",
                read.display(),
                names.join(", ")
            )));
        }
        declared(read).map(Self::Declared)
    }

    pub fn reader(&self) -> LogReader {
        match self {
            Self::Detected => LogReader::detecting(),
            Self::Known(format) => LogReader::of_format(format),
            Self::Declared(declared) => LogReader::declared(declared.clone()),
        }
    }
}

/// Maximum size, in bytes, of text such as ssh messages before the line that lists the nodes of the pairs.
const HEAD: u64 = 1 << 20;

pub fn parse(logs: &[impl AsRef<Path>], format: &ReadFormat, output: ParseForm) -> Result<Exit, CliError> {
    let mut exit = Exit::Pass;
    // The kind of the last CSV header: rows of tables, metrics, or findings.
    let mut header = None;
    for log in logs {
        let source = log.as_ref().display().to_string();
        let (mut reading, matches) = content(log.as_ref(), format)?;
        if reading.tables.is_empty() && reading.metrics.is_empty() && reading.findings.is_empty() {
            exit = Exit::Inconclusive;
        }
        match output {
            ParseForm::Table => write_with(|out| {
                write_text(out, &shown(&source), &reading)?;
                write_matches(out, &matches)
            }),
            ParseForm::Json => {
                reading.format.get_or_insert_with(|| "nccl-tests".to_owned());
                print_json(&ParseDocument { schema: "burnin/parse/v1", source, reading });
            }
            ParseForm::Csv => write_with(|out| {
                let source = report::cell(&source);
                let mut lines =
                    csv::WriterBuilder::new().has_headers(header != Some(0)).from_writer(&mut *out);
                for line in spread(&source, &reading) {
                    lines.serialize(line).map_err(io_error)?;
                    header = Some(0);
                }
                lines.flush()?;
                drop(lines);
                let mut lines =
                    csv::WriterBuilder::new().has_headers(header != Some(1)).from_writer(&mut *out);
                for metric in &reading.metrics {
                    lines.serialize(ParsedMetric::of(&source, metric)).map_err(io_error)?;
                    header = Some(1);
                }
                lines.flush()?;
                drop(lines);
                let mut lines = csv::WriterBuilder::new().has_headers(header != Some(2)).from_writer(out);
                for finding in &reading.findings {
                    lines.serialize(ParsedFinding::of(&source, finding)).map_err(io_error)?;
                    header = Some(2);
                }
                lines.flush()
            }),
        }
    }
    Ok(exit)
}

/// Reads and checks a declaration.
fn declared(file: &Path) -> Result<measure::Declared, CliError> {
    let document = workflow::YamlDocument::read(file).map_err(CliError::files)?;
    let declaration: measure::Declaration = document.read_as().map_err(CliError::files)?;
    declaration.check(false).map_err(|problems| {
        let problems = problems.into_iter().map(|problem| document.problem(&problem.field, problem.message));
        CliError::files(workflow::FileProblems(problems.collect()))
    })
}

/// A log's content, and the lines that the rules of a declaration matched.
fn content(log: &Path, format: &ReadFormat) -> Result<(Reading, Vec<measure::Matched>), CliError> {
    body(log)
        .and_then(|input| {
            let mut input = EvidenceFilter::unpacked(input);
            let (mut reading, matched) = match format {
                ReadFormat::Declared(rules) => rules.explain(&mut input)?,
                ReadFormat::Known(format) => (measure::read_as(format, &mut input)?, Vec::new()),
                ReadFormat::Detected => (measure::read(&mut input)?, Vec::new()),
            };
            reading.name_nodes(&NodesOfHosts::of_logs([&input.take_hosts()]));
            reading.evidence = input.finish();
            Ok((reading, matched))
        })
        .map_err(|error| CliError::usage(format!("{}: cannot be read: {error}", log.display())))
}

/// One line of CSV: one metric.
#[derive(Serialize)]
struct ParsedMetric<'a> {
    source: &'a str,
    metric: String,
    unit: String,
    scope: Scope,
    node: Option<String>,
    gpu: Option<u32>,
    link: Option<String>,
    peer: Option<String>,
    rank: Option<u32>,
    labels: String,
    value: Option<f64>,
    unmeasurable: Option<String>,
    line: u64,
    better: &'static str,
    resolution: Option<f64>,
    serial: Option<String>,
    bus_id: Option<String>,
}

impl<'a> ParsedMetric<'a> {
    fn of(source: &'a str, metric: &Metric) -> Self {
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(report::cell);
        let subject = &metric.subject;
        Self {
            source,
            metric: report::cell(&metric.name),
            unit: report::cell(&metric.unit),
            scope: metric.scope,
            node: text(&subject.node),
            gpu: subject.gpu,
            link: text(&subject.link),
            peer: text(&subject.peer),
            rank: subject.rank,
            labels: report::cell(&labels(metric)),
            value: metric.value,
            unmeasurable: metric.unmeasurable.as_deref().map(report::cell),
            line: metric.line,
            better: metric.better.as_str(),
            resolution: metric.resolution,
            serial: text(&subject.serial),
            bus_id: text(&subject.bus_id),
        }
    }
}

/// One line of CSV: one finding.
#[derive(Serialize)]
struct ParsedFinding<'a> {
    source: &'a str,
    code: String,
    severity: Severity,
    node: Option<String>,
    gpu: Option<u32>,
    link: Option<String>,
    rank: Option<u32>,
    serial: Option<String>,
    bus_id: Option<String>,
    text: String,
    line: u64,
}

impl<'a> ParsedFinding<'a> {
    fn of(source: &'a str, finding: &Finding) -> Self {
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(report::cell);
        let subject = &finding.subject;
        Self {
            source,
            code: report::cell(&finding.code),
            severity: finding.severity,
            node: text(&subject.node),
            gpu: subject.gpu,
            link: text(&subject.link),
            rank: subject.rank,
            serial: text(&subject.serial),
            bus_id: text(&subject.bus_id),
            text: report::cell(&finding.text),
            line: finding.line,
        }
    }
}

/// Labels as one text, such as `dtype=bf16 shape=1024`.
fn labels(metric: &Metric) -> String {
    let labels: Vec<_> = metric.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    labels.join(" ")
}

/// The I/O error under the CSV error: its kind distinguishes a closed pipe from a full disk.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Parses one log and its clues; `-` is standard input.
pub fn read_with_clues(log: &Path, format: &ReadFormat) -> Result<(Reading, verdict::Clues), CliError> {
    body(log)
        .and_then(|input| format.reader().read_with_clues(input))
        .map(|(mut reading, mut clues)| {
            let nodes = NodesOfHosts::of_logs([&clues.nodes_of_hosts]);
            reading.name_nodes(&nodes);
            clues.name_nodes(&nodes);
            (reading, clues)
        })
        .map_err(|error| CliError::usage(format!("{}: cannot be read: {error}", log.display())))
}

fn body(log: &Path) -> io::Result<Box<dyn Read>> {
    Ok(if log == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(log)?) })
}

/// Parses a log of any format, or of a program that ran on pairs of nodes; `-` is standard input.
pub fn read_pairs(log: &Path, format: &ReadFormat) -> Result<Reading, CliError> {
    let unreadable = |error| CliError::usage(format!("{}: cannot be read: {error}", log.display()));
    let mut text = body(log).and_then(nccl::unpacked).map_err(unreadable)?;
    let mut head = Vec::new();
    text.by_ref().take(HEAD).read_to_end(&mut head).map_err(unreadable)?;
    let has_sections = head.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"burnin pairs: "));
    let reader = if has_sections { format.reader().of_pairs() } else { format.reader() };
    let read = reader.read_with_clues(Cursor::new(head).chain(text));
    read.map(|(reading, _)| reading).map_err(unreadable)
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
    match reading.format.as_deref() {
        Some(format) => {
            let version = reading.version.as_deref().map(|version| format!(" {}", shown(version)));
            let ended = if reading.ended == LogEnd::Empty { "empty: no metric" } else { word(reading.ended) };
            writeln!(out, "{source}: {}{}, {ended}", shown(format), version.unwrap_or_default())?;
        }
        None => writeln!(out, "{source}: {}", word(reading.ended))?,
    }
    if let Some(error) = &reading.first_error {
        writeln!(out, "  first error: {}", shown(error))?;
    }
    for table in &reading.tables {
        write!(out, "\n{}", output::wrapped("  ", &title(table)))?;
        write_rows(out, &table.rows)?;
    }
    if !reading.metrics.is_empty() {
        writeln!(out)?;
        let cells = |metric: &Metric| {
            let value = metric.value.map(|value| value.to_string());
            let value = value.unwrap_or_else(|| shown(metric.unmeasurable.as_deref().unwrap_or("-")));
            let subject =
                if metric.subject.is_unknown() { "-".to_owned() } else { shown(&metric.subject.to_string()) };
            [shown(&metric.name), subject, shown(&labels(metric)), value, shown(&metric.unit)]
        };
        write_columns(out, ["metric", "subject", "labels", "value", "unit"], &reading.metrics, cells)?;
    }
    if !reading.findings.is_empty() {
        writeln!(out)?;
        let cells = |finding: &Finding| {
            let subject = if finding.subject.is_unknown() {
                "-".to_owned()
            } else {
                shown(&finding.subject.to_string())
            };
            let severity = match finding.severity {
                Severity::Unknown => "unknown",
                Severity::Software => "software",
                Severity::Configuration => "configuration",
                Severity::WrongData => "wrong data",
                Severity::Hardware => "hardware",
            };
            [shown(&finding.code), severity.to_owned(), subject, shown(&finding.text)]
        };
        write_columns(out, ["finding", "severity", "subject", "text"], &reading.findings, cells)?;
    }
    Ok(())
}

/// Minimum width of a shortened column.
const FEWEST: usize = 12;

/// Prints left-aligned columns. Cells are formatted twice, once for the widths, as in [`write_rows`]. On a narrow terminal the
/// widest texts are shortened; numbers and units never are.
fn write_columns<T, const N: usize>(
    out: &mut dyn Write,
    names: [&str; N],
    items: &[T],
    cells: impl Fn(&T) -> [String; N],
) -> io::Result<()> {
    let mut widths = names.map(str::len);
    for item in items {
        for (width, cell) in widths.iter_mut().zip(cells(item)) {
            *width = cell.chars().count().max(*width);
        }
    }
    let most = output::width().unwrap_or(usize::MAX);
    while widths.iter().map(|width| width + 2).sum::<usize>() > most {
        let texts =
            widths.iter_mut().zip(names).filter(|(_, name)| !["value", "unit", "line"].contains(name));
        match texts.map(|(width, _)| width).max() {
            Some(widest) if *widest > FEWEST => *widest -= 1,
            _ => break,
        }
    }
    let mut line = |cells: [String; N]| {
        let shortened = |cell: &String, width: usize| match cell.char_indices().nth(width) {
            Some(_) => cell.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
            None => cell.clone(),
        };
        let cells = cells.iter().zip(widths);
        let text: String =
            cells.map(|(cell, width)| format!("  {:<width$}", shortened(cell, width))).collect();
        writeln!(out, "{}", text.trim_end())
    };
    line(names.map(str::to_owned))?;
    items.iter().try_for_each(|item| line(cells(item)))
}

/// Prints which line each rule of a declaration matched.
fn write_matches(out: &mut dyn Write, matches: &[measure::Matched]) -> io::Result<()> {
    if matches.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let cells = |found: &measure::Matched| [found.line.to_string(), shown(&found.field), shown(&found.text)];
    write_columns(out, ["line", "rule", "text"], matches, cells)
}

/// Prints right-aligned rows. Cells are formatted twice, once for the widths: storing all of them would take more memory than the
/// measurements. On a narrow terminal the least significant columns are left out.
fn write_rows(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    let mut widths = COLUMNS.map(str::len);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(cells(row)) {
            *width = cell.chars().count().max(*width);
        }
    }
    let most = output::width().unwrap_or(usize::MAX);
    let wide =
        |columns: &&[usize]| columns.iter().map(|at| widths[*at] + 2).sum::<usize>() > most.saturating_add(1);
    let kept = KEPT.iter().find(|columns| !wide(columns)).or(KEPT.last()).copied().unwrap_or_default();
    let names = kept.iter().map(|at| format!(" {:<width$} ", COLUMNS[*at], width = widths[*at]));
    writeln!(out, "{}", names.collect::<String>().trim_end())?;
    for row in rows {
        let cells = cells(row);
        let line: String =
            kept.iter().map(|at| format!(" {:>width$} ", cells[*at], width = widths[*at])).collect();
        writeln!(out, "{}", line.trim_end())?;
    }
    if kept.len() < COLUMNS.len() {
        writeln!(out, " columns are left out: --output csv has all")?;
    }
    Ok(())
}

/// Selections of columns, the widest first. Each narrower selection also omits, in this order: type and operation, the
/// algorithm bandwidth, the times, the wrong elements.
const KEPT: [&[usize]; 5] = [
    &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    &[0, 3, 4, 5, 6, 7, 8, 9, 10],
    &[0, 3, 5, 6, 7, 9, 10],
    &[0, 5, 6, 9, 10],
    &[0, 5, 9],
];

fn title(table: &Table) -> String {
    let mut title = shown(table.collective.as_deref().unwrap_or("unknown collective"));
    if let Some(ranks) = table.ranks {
        _ = write!(title, ", {}", report::count(ranks, "rank"));
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

/// The parsed columns of a row for one placement.
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
    text.chars().map(|c| if report::is_control(c) { ' ' } else { c }).collect()
}
