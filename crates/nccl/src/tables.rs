//! The tables of a log: assigns lines to runs and determines how each run ended.
//!
//! A run prints its lines in a fixed order, so a line that belongs to an earlier step starts another run.
//! Several programs may write concurrently; a launcher's tag then distinguishes them, and an untagged line
//! goes to the newest open run that expects it.

use crate::budget::{self, Budget, BudgetKind};
use crate::layout::Layout;
use crate::notes::Notes;
use model::measurement::{Device, LogEnd, Reading, Row, Table};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Maximum tables per log.
const TABLES: usize = 4_096;
/// Maximum concurrent programs: older runs receive no further lines.
const AT_ONCE: usize = 1_024;
/// Message for a log with a removed part.
const CUT: &str = "a piece of the log was cut out when it was collected";
/// Bytes of a run besides its data: its final table, the columns, versions and the collective.
const RUN: usize = size_of::<Table>() + 640;

/// The steps of a run, in print order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunPhase {
    Version,
    Starting,
    Banner,
    Devices,
    Rank,
    Header,
    Row,
}

/// A run in progress.
pub(crate) struct OpenRun {
    pub(crate) table: Table,
    pub(crate) layout: Option<Rc<Layout>>,
    pub(crate) notes: Notes,
    /// The hosts of the Rank lines.
    pub(crate) hosts: BTreeSet<Vec<u8>>,
    /// A Rank line was truncated or omitted, so the number of ranks is unknown.
    pub(crate) ranks_missing: bool,
    step: RunPhase,
    stream: u64,
    /// The same process started another run: this one receives no further lines.
    superseded: bool,
    /// A part of its output was removed from the log.
    cut: bool,
    /// The budget is exhausted: this run is tracked to its end without storing data.
    left_out: bool,
}

impl OpenRun {
    fn open(&self) -> bool {
        self.table.ended != LogEnd::Complete && !self.superseded
    }

    /// Determines how the run ended, from its messages and earlier ones.
    fn conclude(&mut self, failed_before: bool) -> LogEnd {
        // Rows may be missing, which the summary alone would not show.
        if self.cut && self.table.ended == LogEnd::Complete {
            self.table.ended = LogEnd::Truncated;
        }
        if self.table.ended != LogEnd::Complete && (self.notes.failed() || failed_before) {
            self.table.ended = LogEnd::Failed;
        }
        self.table.ended
    }
}

/// All runs of a log.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) runs: Vec<OpenRun>,
    /// Messages before the first run.
    pub(crate) before: Notes,
    /// Test programs named since the start of the last run: their command lines.
    programs: Vec<&'static str>,
    /// NCCL's version, if printed before the run.
    library: Option<String>,
    pub(crate) budget: Budget,
    /// A part was removed from the log.
    cut: bool,
    /// Worst end of the omitted runs.
    worst: Option<u8>,
}

impl Tables {
    /// The run of a line of this step; opens one if the step is in the past for all runs.
    pub(crate) fn at(&mut self, step: RunPhase, stream: u64) -> usize {
        let waits = |run: &OpenRun| {
            // Rank lines repeat.
            run.open() && (run.step < step || (run.step == step && step == RunPhase::Rank))
        };
        // The newest ended run of this process stops the search.
        let of = self.recent(|run| run.stream == stream && (!run.open() || waits(run)));
        let same = of.filter(|&at| self.runs[at].open());
        // Not every line of a run has its tag.
        let unknown = || self.recent(|run| run.stream == stream).is_none();
        let found = same.or_else(|| {
            let last = self.runs.len().checked_sub(1)?;
            ((unknown() || self.runs[last].stream == 0) && waits(&self.runs[last])).then_some(last)
        });
        let at = found.unwrap_or_else(|| self.begin(stream));
        self.runs[at].step = self.runs[at].step.max(step);
        at
    }

    fn begin(&mut self, stream: u64) -> usize {
        for run in self.runs.iter_mut().rev().take(16) {
            // Programs started together have made little progress; a run with a failure or a table has ended.
            let over = run.step >= RunPhase::Header || run.notes.failure.is_some();
            if run.stream == stream && over {
                run.superseded = true;
                self.budget.shrink(&mut run.table.rows);
            }
        }
        self.programs.dedup();
        let collective = match self.programs[..] {
            [name] => Some(name.to_owned()),
            // Several programs were named: ambiguous.
            _ => None,
        };
        self.programs.clear();
        if let Some(mut last) = self.runs.pop_if(|run| run.left_out) {
            self.worst = self.worst.max(Some(severity(last.conclude(false))));
        }
        let left_out = self.runs.len() == TABLES
            || !self.budget.room(&mut self.runs, BudgetKind::Runs)
            || !self.budget.take(RUN, BudgetKind::Runs);
        self.budget.left_out |= left_out;
        let table = Table {
            collective,
            ranks: None,
            devices: Vec::new(),
            nccl_tests_version: None,
            nccl_version: self.library.take(),
            started_at: None,
            unmeasured: 0,
            rows: Vec::new(),
            out_of_bounds: None,
            average_busbw: None,
            ended: LogEnd::Truncated,
        };
        self.runs.push(OpenRun {
            table,
            layout: None,
            notes: Notes::default(),
            hosts: BTreeSet::new(),
            ranks_missing: false,
            step: RunPhase::Version,
            stream,
            superseded: false,
            cut: false,
            left_out,
        });
        self.runs.len() - 1
    }

    /// The newest matching open run, of this process if possible.
    pub(crate) fn open(&self, stream: u64, fits: impl Fn(&OpenRun) -> bool) -> Option<usize> {
        let of = |run: &OpenRun| run.open() && fits(run);
        self.recent(|run| run.stream == stream && of(run)).or_else(|| self.recent(of))
    }

    /// The newest matching run among those that may receive lines.
    fn recent(&self, fits: impl Fn(&OpenRun) -> bool) -> Option<usize> {
        let since = self.runs.len().saturating_sub(AT_ONCE);
        self.runs[since..].iter().rposition(fits).map(|at| since + at)
    }

    /// The newest run of this process, open or not, otherwise the newest of all.
    pub(crate) fn youngest(&self, stream: u64) -> Option<usize> {
        self.recent(|run| run.stream == stream).or(self.runs.len().checked_sub(1))
    }

    /// The run for rows without a header.
    pub(crate) fn headless(&mut self, stream: u64) -> usize {
        let at = match self.open(stream, |run| run.layout.is_none()) {
            Some(at) => at,
            None => self.begin(stream),
        };
        self.runs[at].step = RunPhase::Row;
        // Its header may be in the removed part.
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
            self.budget.give_back(budget::times(times));
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

    /// The run printed its average, which ends it.
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
        match self.open(stream, |_| true) {
            Some(at) => {
                self.runs[at].table.nccl_version.get_or_insert(version);
            }
            None => self.library = Some(version),
        }
    }

    /// Notes for a failure or a warning: of the run of this process, of the newest run, or of the time before
    /// all runs. The text counts against the budget.
    pub(crate) fn notes(&mut self, stream: u64) -> (&mut Notes, &mut Budget) {
        let notes = match self.open(stream, |_| true).or(self.youngest(stream)) {
            Some(at) => &mut self.runs[at].notes,
            None => &mut self.before,
        };
        (notes, &mut self.budget)
    }

    /// Ends the log. `damage` describes a problem of the file itself.
    pub(crate) fn finish(self, damage: Option<String>) -> Reading {
        let mut first: Option<(u64, String)> = None;
        let mut earliest = |found: Option<(u64, String)>| {
            if let Some(found) = found
                && first.as_ref().is_none_or(|first| found.0 < first.0)
            {
                first = Some(found);
            }
        };
        let mut worst = self.worst;
        let cut = self.cut && self.runs.iter().all(|run| run.cut);
        let mut tables = Vec::with_capacity(self.runs.len());
        for (at, mut run) in self.runs.into_iter().enumerate() {
            let before = (at == 0).then_some(&self.before);
            let ended = run.conclude(before.is_some_and(|notes| notes.failure.is_some()));
            if ended == LogEnd::Failed || (ended == LogEnd::Complete && run.notes.went_wrong()) {
                earliest(run.notes.earliest());
                earliest(before.and_then(Notes::earliest));
            }
            worst = worst.max(Some(severity(ended)));
            if run.left_out {
                continue;
            }
            run.table.ranks = ranks(&run);
            tables.push(run.table);
        }
        let ended = match worst {
            None if self.before.failure.is_some()
                || self.before.warning.is_some()
                || self.before.hint.is_some() =>
            {
                earliest(self.before.earliest().or(self.before.hint));
                LogEnd::Failed
            }
            None => LogEnd::Empty,
            Some(0) => LogEnd::Complete,
            Some(1) => LogEnd::Truncated,
            Some(_) => LogEnd::Failed,
        };
        let left_out = self.budget.left_out.then(|| {
            let rows: usize = tables.iter().map(|table| table.rows.len()).sum();
            format!("the log exceeds the memory limit: kept {rows} rows of {} tables", tables.len())
        });
        let damage = damage.or_else(|| cut.then(|| CUT.to_owned()));
        let found = first.map(|(_, text)| text).filter(|text| !text.is_empty()).or(damage);
        // Missing table data is reported besides other errors.
        let first_error = match (found, left_out) {
            (Some(found), Some(left_out)) => Some(format!("{found}; {left_out}")),
            (found, left_out) => found.or(left_out),
        };
        Reading { ended, first_error, tables }
    }
}

fn severity(ended: LogEnd) -> u8 {
    match ended {
        LogEnd::Complete => 0,
        LogEnd::Truncated | LogEnd::Empty => 1,
        LogEnd::Failed => 2,
    }
}

/// The number of Rank lines, if they are 0..N-1 without a gap.
fn ranks(run: &OpenRun) -> Option<u32> {
    let devices = &run.table.devices;
    if run.table.ranks.is_some() || run.ranks_missing || devices.is_empty() {
        return run.table.ranks;
    }
    let mut ranks: Vec<u32> = devices.iter().map(|device| device.rank).collect();
    ranks.sort_unstable();
    let whole = ranks.iter().enumerate().all(|(at, rank)| *rank as usize == at);
    whole.then(|| u32::try_from(ranks.len()).ok()).flatten()
}
