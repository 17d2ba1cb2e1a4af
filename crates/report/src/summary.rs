//! One sentence about a verdict, and the next step.

use model::{Reason, Verdict};
use verdict::baseline::Region;

use crate::{
    Story, findings,
    measured::{MeasuredSize, MeasuredTable, measured},
    reasons, text,
};

/// Reasons about the level of a curve.
const OF_LEVEL: [&str; 8] = [
    "BELOW_BASELINE",
    "BELOW_REFERENCE",
    "BELOW_FLOOR",
    "AS_BASELINE",
    "AS_REFERENCE",
    "ABOVE_FLOOR",
    "SANE",
    "EFFICIENCY",
];
/// Maximum length of a reason as a sentence, characters.
const LONGEST: usize = 200;

/// The verdict in one sentence: level, distance from its standard, and affected sizes; or the gravest reason.
#[must_use]
pub fn sentence(story: &Story<'_>) -> Option<String> {
    story.verdict()?;
    let first = findings::reasons(story).first()?;
    let of_level = OF_LEVEL.contains(&first.code.as_str());
    let level =
        if of_level { the_only_table(story).and_then(|table| level(&table, &first.code)) } else { None };
    Some(level.unwrap_or_else(|| text::shortened(&first.text, LONGEST)))
}

/// What to do, from the documentation of the gravest reason that has a next step. A pass needs none.
#[must_use]
pub fn next(story: &Story<'_>) -> Option<String> {
    let verdict = story.verdict().filter(|verdict| *verdict != Verdict::Pass)?;
    let decides = |reason: &&Reason| reason.weighs == verdict;
    // Of a code that both kinds of benchmarks use, the entry of this kind.
    let metrics = story.logs.iter().all(|log| log.reading.tables.is_empty());
    let step = |reason: &Reason| {
        let entries = reasons::entries(&reason.code);
        let entry = entries.iter().find(|entry| entry.metrics == metrics).or(entries.first())?;
        (!entry.action.is_empty()).then(|| entry.action.clone())
    };
    findings::reasons(story).iter().filter(decides).find_map(step)
}

fn the_only_table<'a>(story: &Story<'a>) -> Option<MeasuredTable<'a>> {
    let mut all = measured(story);
    let table = all.next()?;
    all.next().is_none().then_some(table)
}

fn level(table: &MeasuredTable<'_>, code: &str) -> Option<String> {
    let plateau = |row: &&_| is_plateau(row);
    let rows = || table.rows.iter().filter(plateau);
    let measured = median(rows().flat_map(|row| row.placed().map(|placed| placed.half.busbw)))?;
    if measured <= 0.0 {
        return None; // one rank measures no link
    }
    let collective = text::shortened(table.table.collective.as_deref().unwrap_or("the"), 40);
    let begin = format!("{collective} plateau {} GB/s", figure(measured));
    let baseline = || {
        let points = table.against.baseline()?.points.iter();
        median(points.filter(|point| point.region == Region::Plateau).map(|point| point.busbw))
    };
    let reference = || median(rows().filter_map(|row| row.reference));
    if code.ends_with("FLOOR") {
        return at_floor(table, &collective);
    }
    let candidates = [("BASELINE", "baseline", baseline()), ("REFERENCE", "reference", reference())];
    // The standard that the reason names, else the strictest one.
    let named = candidates.iter().find(|(part, _, value)| code.ends_with(part) && value.is_some());
    let chosen = named.or_else(|| candidates.iter().find(|(.., value)| value.is_some()));
    let Some((_, what, Some(standard))) = chosen else {
        return at_floor(table, &collective)
            .or_else(|| Some(format!("{begin}; the criteria bound no bandwidth")));
    };
    let (distance, affected) = (distance(measured, *standard), affected(table, what));
    Some(format!("{begin}, {distance} the {what} of {} GB/s; {affected}", figure(*standard)))
}

/// The measurement that is the nearest to its floor, or the furthest below.
fn at_floor(table: &MeasuredTable<'_>, collective: &str) -> Option<String> {
    let placed = table.rows.iter().flat_map(|row| row.placed().map(move |placed| (row, placed.half.busbw)));
    let floor = |(row, busbw): (&MeasuredSize<'_>, f64)| {
        let floor = row.floor.filter(|floor| *floor > 0.0)?;
        busbw.is_finite().then_some((row.size_bytes, busbw, floor))
    };
    let worst = placed.filter_map(floor).min_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)));
    let (size, busbw, floor) = worst?;
    let (distance, affected) = (distance(busbw, floor), affected(table, "floor"));
    let (busbw, floor, size) = (figure(busbw), figure(floor), text::size(size));
    Some(format!("{collective} {busbw} GB/s at {size}, {distance} the floor of {floor} GB/s; {affected}"))
}

fn distance(measured: f64, standard: f64) -> String {
    match (measured / standard - 1.0) * 100.0 {
        percent if percent <= -0.5 => format!("{:.0} % below", -percent),
        percent if percent < 0.5 => "equal to".to_owned(),
        percent if percent < 200.0 => format!("{percent:.0} % above"),
        _ => "above".to_owned(),
    }
}

fn affected(table: &MeasuredTable<'_>, what: &str) -> String {
    let bounded = table.rows.iter().filter(|row| match what {
        "baseline" => row.placed().any(|placed| placed.expected.is_some()),
        "reference" => row.reference.is_some(),
        _ => row.floor.is_some(),
    });
    let affected = table.rows.iter().filter(|row| row.is_below(what)).count();
    match (affected, bounded.count()) {
        (0, _) => "no size is affected".to_owned(),
        (affected, all) if affected == all && all > 1 => "every size is affected".to_owned(),
        (affected, all) => format!("{affected} of {} affected", text::count(all as u64, "size")),
    }
}

fn is_plateau(row: &MeasuredSize<'_>) -> bool {
    row.region == Some(Region::Plateau)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Three digits, as a person compares them.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
