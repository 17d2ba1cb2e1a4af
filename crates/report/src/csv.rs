//! All measurements as CSV for a spreadsheet (RFC 4180), with their references and bounds.

use serde::Serialize;
use verdict::baseline::Region;

use crate::{
    Story,
    measured::{MeasuredSize, MeasuredTable, Placed, measured},
    text,
};

/// One placement of one size. The field names are an interface.
#[derive(Default, Serialize)]
struct CsvRow<'a> {
    source: &'a str,
    table: usize,
    collective: Option<&'a str>,
    ranks: Option<u32>,
    size_bytes: u64,
    dtype: String,
    redop: Option<String>,
    placement: &'static str,
    region: Option<Region>,
    time_us: Option<f64>,
    algbw: Option<f64>,
    busbw: Option<f64>,
    wrong: Option<u64>,
    floor_busbw: Option<f64>,
    reference_busbw: Option<f64>,
    baseline_time_us: Option<f64>,
    baseline_low_us: Option<f64>,
    baseline_high_us: Option<f64>,
    slowdown: Option<f64>,
    below: String,
}

/// The measurements without any limit. The header is written even without rows.
#[must_use]
pub fn csv(story: &Story<'_>) -> String {
    let mut out = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
    let mut lines = 0;
    // Writing to memory cannot fail.
    for table in measured(story) {
        let (source, collective) = (cell(table.source), table.table.collective.as_deref().map(cell));
        for row in &table.rows {
            let placed = [("out_of_place", &row.out_of_place), ("in_place", &row.in_place)];
            for (placement, placed) in placed {
                let Some(placed) = placed else { continue };
                let named = (source.as_str(), collective.as_deref(), placement);
                drop(out.serialize(line(&table, row, placed, named)));
                lines += 1;
            }
        }
    }
    let written = String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default();
    if lines == 0 { heading() } else { written }
}

/// Only the header: the writer derives it from the first row.
fn heading() -> String {
    let mut out = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
    drop(out.serialize(CsvRow::default()));
    let written = String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default();
    written.split_inclusive("\r\n").next().unwrap_or_default().to_owned()
}

fn line<'a>(
    table: &MeasuredTable<'_>,
    row: &MeasuredSize<'_>,
    placed: &Placed<'_>,
    (source, collective, placement): (&'a str, Option<&'a str>, &'static str),
) -> CsvRow<'a> {
    let number = |value: f64| value.is_finite().then_some(value);
    let expected = placed.expected.as_ref();
    CsvRow {
        source,
        table: table.number,
        collective,
        ranks: table.table.ranks,
        size_bytes: row.size_bytes,
        dtype: cell(row.dtype),
        redop: row.redop.map(cell),
        placement,
        region: row.region,
        time_us: number(placed.half.time_us),
        algbw: number(placed.half.algbw),
        busbw: number(placed.half.busbw),
        wrong: placed.half.wrong,
        floor_busbw: row.floor,
        reference_busbw: row.reference.and_then(number),
        baseline_time_us: expected.and_then(|it| number(it.time_us)),
        baseline_low_us: expected.and_then(|it| number(rounded(it.band_us[0]))),
        baseline_high_us: expected.and_then(|it| number(rounded(it.band_us[1]))),
        slowdown: placed.slower().map(|slower| (slower * 1e6).round() / 1e6),
        below: placed.below.join(" "),
    }
}

fn rounded(time_us: f64) -> f64 {
    (time_us * 1e3).round() / 1e3
}

/// Escapes external text that a spreadsheet would evaluate as a formula. Numbers are unchanged.
pub fn cell(text: &str) -> String {
    let text = text::line(text);
    let number = text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.parse::<f64>().is_ok();
    let formula = text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    if formula && !number { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn formulas_are_escaped_and_numbers_are_not() {
        for (said, told) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("@SUM(1,2)", "'@SUM(1,2)"),
            ("+1+1", "'+1+1"),
            ("-2+3", "'-2+3"),
            ("\t=1", "'=1"),
            ("\u{1b}[1m=1", "'=1"),
            ("＝1", "'＝1"),
            ("-1.5e3", "-1.5e3"),
            ("+7", "+7"),
            ("-inf", "'-inf"),
            ("float", "float"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(cell(said), told);
        }
    }
}
