//! Measurements as display rows, with their references and bounds.

mod references;

use model::measurement::{Half, LogEnd, Reading, Table};
use verdict::baseline::{Region, regions};

pub use references::{Expected, TableReferences};

use crate::{ReportInput, ReportedLog, text};

pub struct MeasuredTable<'a> {
    pub source: &'a str,
    /// Index in the log, starting at 0.
    pub number: usize,
    pub table: &'a Table,
    pub references: TableReferences<'a>,
    pub rows: Vec<MeasuredSize<'a>>,
}

pub struct MeasuredSize<'a> {
    pub size_bytes: u64,
    pub dtype: &'a str,
    pub redop: Option<&'a str>,
    /// Region of the curve, as defined by the baseline, the reference, or the curve itself.
    pub region: Option<Region>,
    pub out_of_place: Option<Placed<'a>>,
    pub in_place: Option<Placed<'a>>,
    /// Wrong elements of both placements; `None` if one was not checked.
    pub wrong: Option<u64>,
    /// Floor of the criteria at this size, GB/s.
    pub floor: Option<f64>,
    /// Reference at this size, GB/s.
    pub reference: Option<f64>,
}

/// One placement of one size.
pub struct Placed<'a> {
    pub half: &'a Half,
    /// Values of the baseline.
    pub expected: Option<Expected>,
    /// Violated bounds: `floor`, `reference`, `baseline`.
    pub below: Vec<&'static str>,
}

impl Placed<'_> {
    /// Excess time over the baseline, relative.
    pub fn slower(&self) -> Option<f64> {
        let slower = self.half.time_us / self.expected.as_ref()?.time_us - 1.0;
        slower.is_finite().then_some(slower)
    }

    /// Whether the bus bandwidth is below the floor or the reference.
    pub fn short(&self) -> bool {
        self.below.iter().any(|what| *what != "baseline")
    }
}

impl<'a> MeasuredSize<'a> {
    pub fn placed(&self) -> impl Iterator<Item = &Placed<'a>> {
        [&self.out_of_place, &self.in_place].into_iter().flatten()
    }

    pub fn is_below(&self, what: &str) -> bool {
        self.placed().any(|placed| placed.below.contains(&what))
    }

    pub fn has_wrong(&self) -> bool {
        self.placed().any(|placed| placed.half.wrong.is_some_and(|wrong| wrong > 0))
    }

    /// Number of wrong elements as text, such as `12`; `n/a` if unchecked.
    pub fn wrong_words(&self) -> String {
        self.wrong.map_or_else(|| "n/a".to_owned(), |wrong| wrong.to_string())
    }
}

/// All tables of all logs, in order. Their number is unlimited; reports show a part of them.
pub fn measured<'a>(input: &ReportInput<'a>) -> impl Iterator<Item = MeasuredTable<'a>> {
    input.logs.iter().flat_map(|log| tables(input, log))
}

pub fn tables<'a>(input: &ReportInput<'a>, log: &ReportedLog<'a>) -> impl Iterator<Item = MeasuredTable<'a>> {
    let log = *log;
    let references = TableReferences::of(input, &log);
    log.reading.tables.iter().enumerate().map(move |(number, table)| {
        let rows = rows(table, &references);
        MeasuredTable { source: log.name, number, table, references: references.clone(), rows }
    })
}

fn rows<'a>(table: &'a Table, references: &TableReferences<'a>) -> Vec<MeasuredSize<'a>> {
    let either = |row: &'a model::measurement::Row| row.out_of_place.as_ref().or(row.in_place.as_ref());
    let curve: Vec<_> = table
        .rows
        .iter()
        .map(|row| (row.size_bytes, either(row).map_or(f64::NAN, |half| half.time_us)))
        .collect();
    let own = regions(&curve).zip(&curve).map(|(region, (_, time_us))| time_us.is_finite().then_some(region));
    let row = |(row, own): (&'a model::measurement::Row, Option<Region>)| {
        let halves = || [&row.out_of_place, &row.in_place].into_iter().flatten();
        let checked = halves().next().is_some() && halves().all(|half| half.wrong.is_some());
        let wrong = halves().filter_map(|half| half.wrong).fold(0, u64::saturating_add);
        let out_of_place = row.out_of_place.as_ref().map(|half| references.placed(row, half, false));
        let in_place = row.in_place.as_ref().map(|half| references.placed(row, half, true));
        let learned = [&out_of_place, &in_place].into_iter().flatten().find_map(|it| it.expected.as_ref());
        let reference = references.reference_at(row.size_bytes);
        MeasuredSize {
            size_bytes: row.size_bytes,
            dtype: &row.dtype,
            redop: row.redop.as_deref(),
            region: learned.map(|it| it.region).or(reference.map(|(_, region)| region)).or(own),
            wrong: (checked || wrong > 0).then_some(wrong),
            floor: references.floor_at(row.size_bytes),
            reference: reference.map(|(busbw, _)| busbw),
            out_of_place,
            in_place,
        }
    };
    table.rows.iter().zip(own).map(row).collect()
}

/// `all_reduce, 2 ranks, NCCL 2.28.9`: properties of the whole table.
pub fn caption(table: &Table) -> String {
    let mut words = vec![table.collective.clone().unwrap_or_else(|| "unknown collective".to_owned())];
    words.extend(table.ranks.map(|ranks| text::count(ranks, "rank")));
    words.extend(table.nccl_version.as_ref().map(|version| format!("NCCL {version}")));
    words.extend(table.nccl_tests_version.as_ref().map(|version| format!("nccl-tests {version}")));
    words.extend(short_of_complete(table.ended).map(str::to_owned));
    words.join(", ")
}

/// Reason why an existing log has no table to show, or the number of its metrics.
pub fn text_without_table(reading: &Reading) -> Option<String> {
    if let Some(format) = &reading.format {
        let program =
            reading.version.as_ref().map_or(format.clone(), |version| format!("{format} {version}"));
        let values = reading.metrics.iter().filter(|metric| metric.value.is_some()).count();
        let unmeasurable = reading.metrics.len() - values;
        let mut words = vec![format!("{program}: {}", text::count(values as u64, "value"))];
        words.extend((unmeasurable > 0).then(|| format!("{unmeasurable} not measurable")));
        let findings = reading.all_findings().count() as u64;
        words.extend((findings > 0).then(|| text::count(findings, "finding")));
        words.extend(short_of_complete(reading.ended).map(str::to_owned));
        return Some(words.join(", "));
    }
    let first = reading.first_error.as_ref().map(|error| format!("; the first error is: {error}"));
    reading.tables.is_empty().then(|| format!("the log has no table{}", first.unwrap_or_default()))
}

const fn short_of_complete(ended: LogEnd) -> Option<&'static str> {
    match ended {
        LogEnd::Complete => None,
        LogEnd::Truncated => Some("cut off before its summary"),
        LogEnd::Failed => Some("failed"),
        LogEnd::Empty => Some("empty"),
    }
}
