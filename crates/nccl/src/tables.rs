//! The tables of a log: assigns lines to runs and determines how each run ended.
//!
//! A run prints its lines in a fixed order, so a line that belongs to an earlier step starts another run.
//! Several programs may write concurrently; a launcher's tag then distinguishes them, and an untagged line
//! goes to the newest open run that expects it.

use crate::budget::{self, Budget, BudgetKind};
use crate::notes::Notes;
use crate::open_run::{OpenRun, RunPhase};
use model::measurement::{Device, LogEnd, Reading, Row, Table};

/// Maximum tables per log.
const TABLES: usize = 4_096;
/// Maximum number of concurrent programs: older runs receive no further lines.
const AT_ONCE: usize = 1_024;
/// Maximum number of programs that one process starts together.
const STARTED_TOGETHER: usize = 16;
/// Stream of lines without a launcher's tag.
const UNTAGGED: u64 = 0;
/// Message for a log with a removed part.
const CUT: &str = "a part of the log was removed when it was collected";
/// Bytes of a run in addition to its data: its final table, the columns, versions and the collective.
const RUN: usize = size_of::<Table>() + 640;

/// All runs of a log.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) runs: Vec<OpenRun>,
    /// Messages before the first run.
    pub(crate) before: Notes,
    /// Test programs named by lines (such as command lines) since the start of the last run.
    programs: Vec<&'static str>,
    /// NCCL's version, if printed before the run.
    library: Option<String>,
    pub(crate) budget: Budget,
    /// Whether a part was removed from the log.
    cut: bool,
    /// Worst end of the omitted runs.
    worst: Option<u8>,
}

impl Tables {
    /// The run that a line of this step belongs to: an open run that expects the step, otherwise a new one.
    pub(crate) fn run_for(&mut self, step: RunPhase, stream: u64) -> usize {
        let at = self.expecting(step, stream).unwrap_or_else(|| self.begin(stream));
        self.runs[at].step = self.runs[at].step.max(step);
        at
    }

    /// The open run that expects this step.
    fn expecting(&self, step: RunPhase, stream: u64) -> Option<usize> {
        // The newest ended run of this process stops the search: its older runs have ended.
        let own = self.recent(|run| run.stream == stream && (!run.open() || run.expects(step)));
        if let Some(at) = own.filter(|&at| self.runs[at].open()) {
            return Some(at);
        }
        // Some lines of a run lack its tag: a line of a process without a run, and any line after an
        // untagged run, continues the newest run.
        let at = self.runs.len().checked_sub(1)?;
        let untagged = self.runs[at].stream == UNTAGGED || self.recent(|run| run.stream == stream).is_none();
        (untagged && self.runs[at].expects(step)).then_some(at)
    }

    /// Starts a run of this process.
    fn begin(&mut self, stream: u64) -> usize {
        self.supersede_earlier_runs(stream);
        if let Some(mut last) = self.runs.pop_if(|run| run.left_out) {
            self.worst = self.worst.max(Some(severity(last.conclude(false))));
        }
        let left_out = self.runs.len() == TABLES
            || !self.budget.room(&mut self.runs, BudgetKind::Runs)
            || !self.budget.take(RUN, BudgetKind::Runs);
        self.budget.left_out |= left_out;
        let mut run = OpenRun::new(stream, left_out);
        run.table.collective = self.named_program();
        run.table.nccl_version = self.library.take();
        self.runs.push(run);
        self.runs.len() - 1
    }

    /// Ends the earlier runs of a process that starts a new run. Programs that were started together have no table
    /// header yet; a run with a failure or a table header has ended.
    fn supersede_earlier_runs(&mut self, stream: u64) {
        for run in self.runs.iter_mut().rev().take(STARTED_TOGETHER) {
            let over = run.step >= RunPhase::Header || run.notes.failure.is_some();
            if run.stream == stream && over {
                run.superseded = true;
                self.budget.shrink(&mut run.table.rows);
            }
        }
    }

    /// The test program named since the start of the last run; `None` if several were named.
    fn named_program(&mut self) -> Option<String> {
        self.programs.dedup();
        let name = match self.programs[..] {
            [name] => Some(name.to_owned()),
            _ => None,
        };
        self.programs.clear();
        name
    }

    /// The newest matching open run, of this process if possible.
    pub(crate) fn newest_open(&self, stream: u64, fits: impl Fn(&OpenRun) -> bool) -> Option<usize> {
        let of = |run: &OpenRun| run.open() && fits(run);
        self.recent(|run| run.stream == stream && of(run)).or_else(|| self.recent(of))
    }

    /// The newest matching run among those that may receive lines.
    fn recent(&self, fits: impl Fn(&OpenRun) -> bool) -> Option<usize> {
        let since = self.runs.len().saturating_sub(AT_ONCE);
        self.runs[since..].iter().rposition(fits).map(|at| since + at)
    }

    /// The newest run of this process, open or not, otherwise the newest of all.
    pub(crate) fn newest(&self, stream: u64) -> Option<usize> {
        self.recent(|run| run.stream == stream).or(self.runs.len().checked_sub(1))
    }

    /// The run for rows without a header.
    pub(crate) fn headerless(&mut self, stream: u64) -> usize {
        let at = match self.newest_open(stream, |run| run.layout.is_none()) {
            Some(at) => at,
            None => self.begin(stream),
        };
        self.runs[at].step = RunPhase::Row;
        // The header of this run may be in the removed part.
        self.runs[at].cut |= self.cut;
        at
    }

    /// A part of the log was removed here: every open run is incomplete.
    pub(crate) fn cut(&mut self) {
        self.cut = true;
        self.runs.iter_mut().filter(|run| run.open()).for_each(|run| run.cut = true);
    }

    /// Stores a row if the budget permits. The times of its processes were counted when read.
    pub(crate) fn push(&mut self, at: usize, row: Row) {
        let run = &mut self.runs[at];
        // A half without a finite number was printed but not measured.
        let measured = row.out_of_place.is_some() || row.in_place.is_some();
        if measured {
            run.step = RunPhase::Row;
            run.notes.row();
        } else {
            run.table.unmeasured += 1;
        }
        let keep = measured
            && !run.left_out
            && self.budget.room(&mut run.table.rows, BudgetKind::Rows)
            && self.budget.take(budget::row(&row), BudgetKind::Rows);
        if keep {
            run.table.rows.push(row);
        } else if let Some(times) = &row.processes {
            self.budget.release(budget::times(times));
        }
    }

    /// Stores a Rank line if the budget permits; returns whether it did.
    pub(crate) fn device(&mut self, at: usize, device: Device) -> bool {
        let run = &mut self.runs[at];
        let new_host = !device.host.is_empty() && !run.hosts.contains(device.host.as_bytes());
        let keep = !run.left_out
            && self.budget.room(&mut run.table.devices, BudgetKind::Devices)
            && self.budget.take(budget::device(&device, new_host), BudgetKind::Devices);
        if keep {
            if new_host {
                run.hosts.insert(device.host.clone().into_bytes());
            }
            run.table.devices.push(device);
        }
        keep
    }

    /// Ends the run at its printed average.
    pub(crate) fn complete(&mut self, at: usize, average: Option<f64>) {
        let table = &mut self.runs[at].table;
        table.average_busbw = average;
        table.ended = LogEnd::Complete;
        self.budget.shrink(&mut table.rows);
        self.budget.shrink(&mut table.devices);
    }

    /// Records a named test program.
    pub(crate) fn program(&mut self, name: &'static str) {
        if !self.programs.contains(&name) {
            self.programs.push(name);
        }
    }

    /// Records the printed NCCL version.
    pub(crate) fn library(&mut self, stream: u64, version: String) {
        match self.newest_open(stream, |_| true) {
            Some(at) => {
                self.runs[at].table.nccl_version.get_or_insert(version);
            }
            None => self.library = Some(version),
        }
    }

    /// The notes that record a failure or a warning: those of the process's open run, otherwise of its newest run, otherwise the notes
    /// before the first run. The text counts against the budget.
    pub(crate) fn notes(&mut self, stream: u64) -> (&mut Notes, &mut Budget) {
        let notes = match self.newest_open(stream, |_| true).or(self.newest(stream)) {
            Some(at) => &mut self.runs[at].notes,
            None => &mut self.before,
        };
        (notes, &mut self.budget)
    }

    /// Ends the log. `damage` describes a problem of the file itself.
    pub(crate) fn finish(self, damage: Option<String>) -> Reading {
        let Self { runs, before, budget, cut, mut worst, .. } = self;
        let mut first_error = FirstError::default();
        let all_cut = cut && runs.iter().all(|run| run.cut);
        let mut tables = Vec::with_capacity(runs.len());
        for (at, mut run) in runs.into_iter().enumerate() {
            // Messages before the first run belong to it.
            let earlier = (at == 0).then_some(&before);
            let ended = run.conclude(earlier.is_some_and(|notes| notes.failure.is_some()));
            if ended == LogEnd::Failed || (ended == LogEnd::Complete && run.notes.has_failures()) {
                first_error.consider(run.notes.earliest());
                first_error.consider(earlier.and_then(Notes::earliest));
            }
            worst = worst.max(Some(severity(ended)));
            if run.left_out {
                continue;
            }
            run.table.ranks = run.ranks();
            tables.push(run.table);
        }
        let ended = match worst {
            Some(COMPLETE) => LogEnd::Complete,
            Some(TRUNCATED) => LogEnd::Truncated,
            Some(_) => LogEnd::Failed,
            None if before.failure.is_some() || before.warning.is_some() || before.hint.is_some() => {
                first_error.consider(before.earliest().or(before.hint));
                LogEnd::Failed
            }
            None => LogEnd::Empty,
        };
        let damage = damage.or_else(|| all_cut.then(|| CUT.to_owned()));
        let left_out = budget.left_out.then(|| left_out_text(&tables));
        let found = first_error.text().or(damage);
        // Missing table data is reported in addition to other errors.
        let first_error = match (found, left_out) {
            (Some(found), Some(left_out)) => Some(format!("{found}; {left_out}")),
            (found, left_out) => found.or(left_out),
        };
        Reading { ended, first_error, tables, ..Reading::default() }
    }
}

/// The earliest message of a log.
#[derive(Default)]
struct FirstError(Option<(u64, String)>);

impl FirstError {
    /// Keeps the message with the lower line number.
    fn consider(&mut self, message: Option<(u64, String)>) {
        if let Some(message) = message
            && self.0.as_ref().is_none_or(|first| message.0 < first.0)
        {
            self.0 = Some(message);
        }
    }

    fn text(self) -> Option<String> {
        self.0.map(|(_, text)| text).filter(|text| !text.is_empty())
    }
}

fn left_out_text(tables: &[Table]) -> String {
    let rows: usize = tables.iter().map(|table| table.rows.len()).sum();
    format!("the log exceeds the memory limit: kept {rows} rows of {} tables", tables.len())
}

/// Ends of a run, by severity: the worst one is the end of the log.
const COMPLETE: u8 = 0;
const TRUNCATED: u8 = 1;
const FAILED: u8 = 2;

fn severity(ended: LogEnd) -> u8 {
    match ended {
        LogEnd::Complete => COMPLETE,
        LogEnd::Truncated | LogEnd::Empty => TRUNCATED,
        LogEnd::Failed => FAILED,
    }
}
