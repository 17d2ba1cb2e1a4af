//! Recognizes tables of one rank, and lists the measurements of a table.

use model::measurement::{Half, Table};

/// A printed bandwidth above this is not a rounded 0.
const PRINTED: f64 = 0.1;

/// Whether only one rank ran. Without Rank lines the bus bandwidth identifies such a table: no other number of ranks
/// has the factor 0.
#[must_use]
pub fn one_rank(table: &Table) -> bool {
    let mut moved = halves(table).filter(|(_, half)| half.algbw >= PRINTED).peekable();
    match table.ranks {
        Some(ranks) => ranks == 1,
        None => moved.peek().is_some() && moved.all(|(_, half)| half.busbw == 0.0),
    }
}

/// All measured halves of a table, each with the size of its row, bytes.
pub fn halves(table: &Table) -> impl Iterator<Item = (u64, &Half)> {
    table.rows.iter().flat_map(|row| {
        [&row.out_of_place, &row.in_place].into_iter().flatten().map(move |half| (row.size_bytes, half))
    })
}
