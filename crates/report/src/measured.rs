//! Measurements as rows to be shown, beside the floors they were held against.

use terms::measurement::{Ended, Half, Reading, Table};

use crate::{Story, text};

/// A table of the log.
pub struct Measured<'a> {
    pub table: &'a Table,
    pub rows: Vec<Row<'a>>,
}

/// A size, and what was measured there.
pub struct Row<'a> {
    pub size_bytes: u64,
    pub out_of_place: Option<&'a Half>,
    pub in_place: Option<&'a Half>,
    /// Wrong elements of both placements; none when something was not checked.
    pub wrong: Option<u64>,
    /// What the criteria ask for at this size, GB/s.
    pub floor: Option<f64>,
}

impl Row<'_> {
    pub fn halves(&self) -> impl Iterator<Item = &Half> {
        [self.out_of_place, self.in_place].into_iter().flatten()
    }

    pub fn below_floor(&self) -> bool {
        self.floor.is_some_and(|floor| self.halves().any(|half| half.busbw < floor))
    }

    pub fn has_wrong(&self) -> bool {
        self.halves().any(|half| half.wrong.is_some_and(|wrong| wrong > 0))
    }

    /// `0`, `12`, or `n/a` when nothing was checked.
    pub fn wrong_words(&self) -> String {
        self.wrong.map_or_else(|| "n/a".to_owned(), |wrong| wrong.to_string())
    }
}

/// The tables of the log, in its order. A log may hold many more than are shown.
pub fn measured<'a>(story: &Story<'a>) -> impl ExactSizeIterator<Item = Measured<'a>> + use<'a> {
    let floors = floors(story);
    let tables = story.reading.map_or(&[][..], |reading| &reading.tables);
    tables.iter().map(move |table| Measured { table, rows: rows(table, &floors) })
}

/// The floors of the criteria: size and GB/s.
pub fn floors(story: &Story<'_>) -> Vec<(u64, f64)> {
    let benchmark = story.state.workflow.benchmark.as_ref();
    let floors = benchmark.map_or(&[][..], |benchmark| &benchmark.criteria.floors);
    floors
        .iter()
        .map(|floor| (floor.size_bytes, floor.busbw))
        .filter(|(_, busbw)| busbw.is_finite())
        .collect()
}

fn rows<'a>(table: &'a Table, floors: &[(u64, f64)]) -> Vec<Row<'a>> {
    let row = |row: &'a terms::measurement::Row| {
        let halves = || [&row.out_of_place, &row.in_place].into_iter().flatten();
        let checked = halves().next().is_some() && halves().all(|half| half.wrong.is_some());
        let wrong = halves().filter_map(|half| half.wrong).fold(0, u64::saturating_add);
        let at_size = floors.iter().filter(|(size, _)| *size == row.size_bytes).map(|(_, busbw)| *busbw);
        Row {
            size_bytes: row.size_bytes,
            out_of_place: row.out_of_place.as_ref(),
            in_place: row.in_place.as_ref(),
            wrong: (checked || wrong > 0).then_some(wrong),
            floor: at_size.reduce(f64::max),
        }
    };
    table.rows.iter().map(row).collect()
}

/// `all_reduce, 2 ranks, NCCL 2.28.9`: what the log says of the whole table.
pub fn caption(table: &Table) -> String {
    let mut words = vec![table.collective.clone().unwrap_or_else(|| "unknown collective".to_owned())];
    words.extend(table.ranks.map(|ranks| text::count(ranks, "rank")));
    words.extend(table.nccl_version.as_ref().map(|version| format!("NCCL {version}")));
    words.extend(table.nccl_tests_version.as_ref().map(|version| format!("nccl-tests {version}")));
    words.extend(short_of_complete(table.ended).map(str::to_owned));
    words.join(", ")
}

/// Why there is nothing to show, where there is a log.
pub fn nothing(reading: &Reading) -> Option<String> {
    let first = reading.first_error.as_ref().map(|error| format!("; the first error is: {error}"));
    reading.tables.is_empty().then(|| format!("the log holds no table{}", first.unwrap_or_default()))
}

const fn short_of_complete(ended: Ended) -> Option<&'static str> {
    match ended {
        Ended::Complete => None,
        Ended::Truncated => Some("cut off before its summary"),
        Ended::Failed => Some("failed"),
        Ended::Empty => Some("empty"),
    }
}
