//! The usable timing matrices of a reading.

use model::measurement::{Reading, Table};

/// The times of one placement of one row.
#[derive(Debug)]
pub(super) struct Matrix {
    /// `[iteration][process]`, microseconds, every one finite and positive.
    pub iterations: Vec<Vec<f64>>,
}

/// The matrices of one table, all of the same processes.
#[derive(Debug)]
pub(super) struct Matrices<'a> {
    /// Where the devices stand.
    pub table: &'a Table,
    /// How many processes were timed.
    pub processes: usize,
    /// In file order, out-of-place before in-place.
    pub halves: Vec<Matrix>,
}

/// The table with most usable times of a reading.
///
/// Tables are not mixed: rank 2 of another run may be another GPU.
pub(super) fn matrices(reading: &Reading) -> Option<Matrices<'_>> {
    let usable = reading.tables.iter().filter_map(of_table);
    // The first among equals, so that the answer does not hang on a tie.
    usable.reduce(|best, next| if next.iterations() > best.iterations() { next } else { best })
}

impl Matrices<'_> {
    /// Iterations over all halves.
    pub(super) fn iterations(&self) -> usize {
        self.halves.iter().map(|half| half.iterations.len()).sum()
    }
}

fn of_table(table: &Table) -> Option<Matrices<'_>> {
    let measured = table.rows.iter().filter_map(|row| row.processes.as_deref());
    let placements = measured.flat_map(|times| [&times.out_of_place_us, &times.in_place_us]);
    let placements: Vec<_> = placements.filter(|placement| !placement.is_empty()).collect();
    let processes = placements.iter().map(|placement| placement.len()).max()?;
    // A half that lacks a process would shift the blame to its neighbour.
    let whole = placements.into_iter().filter(|placement| placement.len() == processes);
    let halves: Vec<_> =
        whole.map(|placement| matrix(placement)).filter(|half| half.iterations.len() >= 3).collect();
    (!halves.is_empty()).then_some(Matrices { table, processes, halves })
}

/// The iterations that every process measured.
fn matrix(placement: &[Vec<f64>]) -> Matrix {
    let common = placement.iter().map(Vec::len).min().unwrap_or(0);
    let iterations = (0..common).map(|iteration| placement.iter().map(|times| times[iteration]).collect());
    // The upper bound, some thirty years, keeps sums and squares finite.
    let plausible = |times: &Vec<f64>| times.iter().all(|time| (1e-3..1e15).contains(time));
    Matrix { iterations: iterations.filter(plausible).collect() }
}
