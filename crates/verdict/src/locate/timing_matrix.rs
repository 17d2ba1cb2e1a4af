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
    /// The table with the device list.
    pub table: &'a Table,
    /// Number of timed processes.
    pub processes: usize,
    /// The halves in file order, out-of-place before in-place.
    pub halves: Vec<Matrix>,
}

/// The table of a reading with the most usable times.
///
/// Tables are never mixed: rank 2 of another run may be another GPU.
pub(super) fn matrices(reading: &Reading) -> Option<Matrices<'_>> {
    let usable = reading.tables.iter().filter_map(of_table);
    // Select the first of several equal tables, so that the result is deterministic.
    usable.reduce(|best, next| if next.iterations() > best.iterations() { next } else { best })
}

impl Matrices<'_> {
    /// Number of iterations, added over all halves.
    pub(super) fn iterations(&self) -> usize {
        self.halves.iter().map(|half| half.iterations.len()).sum()
    }
}

fn of_table(table: &Table) -> Option<Matrices<'_>> {
    let measured = table.rows.iter().filter_map(|row| row.processes.as_deref());
    let placements = measured.flat_map(|times| [&times.out_of_place_us, &times.in_place_us]);
    let placements: Vec<_> = placements.filter(|placement| !placement.is_empty()).collect();
    let processes = placements.iter().map(|placement| placement.len()).max()?;
    // A placement that lacks a process would shift the ranks and make the wrong rank a suspect.
    let whole = placements.into_iter().filter(|placement| placement.len() == processes);
    let halves: Vec<_> =
        whole.map(|placement| matrix(placement)).filter(|half| half.iterations.len() >= 3).collect();
    (!halves.is_empty()).then_some(Matrices { table, processes, halves })
}

/// The iterations measured by every process.
fn matrix(placement: &[Vec<f64>]) -> Matrix {
    let common = placement.iter().map(Vec::len).min().unwrap_or(0);
    let iterations = (0..common).map(|iteration| placement.iter().map(|times| times[iteration]).collect());
    // The upper bound of about thirty years keeps sums and squares finite.
    let plausible = |times: &Vec<f64>| times.iter().all(|time| (1e-3..1e15).contains(time));
    Matrix { iterations: iterations.filter(plausible).collect() }
}
