//! The tables of a log: which run a line belongs to, and how each run ended.
//!
//! A run prints its lines in a fixed order, so that a line which would be a step back starts another run. Several
//! programs may write at once; then a launcher's tag tells them apart, and without one the youngest open run that
//! still waits for such a line takes it.

use crate::layout::Layout;
use crate::notes::Notes;
use std::rc::Rc;
use terms::measurement::{Ended, Reading, Row, Table};

/// Rows kept of one log. A run that repeats its sizes for days prints more; the rest is counted and left out.
pub(crate) const ROWS: usize = 100_000;
/// Tables kept of one log.
const TABLES: usize = 4_096;
/// Rank lines kept of one log.
const DEVICES: usize = 65_536;

/// The steps of a run, in the order in which it prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Version,
    Starting,
    Banner,
    Devices,
    Rank,
    Header,
    Row,
}

/// A run being read.
pub(crate) struct Run {
    pub(crate) table: Table,
    pub(crate) layout: Option<Rc<Layout>>,
    pub(crate) notes: Notes,
    /// A Rank line was cut or left out, so that the number of ranks is not known.
    pub(crate) ranks_missing: bool,
    step: Step,
    stream: u64,
    /// The same process began another run: this one gets no more.
    superseded: bool,
}

impl Run {
    fn open(&self) -> bool {
        self.table.ended != Ended::Complete && !self.superseded
    }
}

/// All runs of a log.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) runs: Vec<Run>,
    /// What was said before the first run.
    pub(crate) before: Notes,
    /// Test programs named since the last run began: their command lines.
    programs: Vec<&'static str>,
    /// NCCL's version, when it came before the run.
    library: Option<String>,
    rows: usize,
    devices: usize,
    left_out: bool,
}

impl Tables {
    /// The run that a line of this step belongs to, opening one if it would be a step back for all.
    pub(crate) fn at(&mut self, step: Step, stream: u64) -> usize {
        let waits = |run: &Run| {
            // Rank lines repeat.
            run.open() && (run.step < step || (run.step == step && step == Step::Rank))
        };
        let since =
            self.runs.iter().rposition(|run| !run.open() && run.stream == stream).map_or(0, |at| at + 1);
        let same = self.runs[since..].iter().rposition(|run| run.stream == stream && waits(run));
        // Not every line of a run has its tag.
        let unknown = || !self.runs.iter().any(|run| run.stream == stream);
        let found = same.map(|at| at + since).or_else(|| {
            let last = self.runs.len().checked_sub(1)?;
            ((unknown() || self.runs[last].stream == 0) && waits(&self.runs[last])).then_some(last)
        });
        let at = found.unwrap_or_else(|| self.begin(stream));
        self.runs[at].step = self.runs[at].step.max(step);
        at
    }

    fn begin(&mut self, stream: u64) -> usize {
        for run in self.runs.iter_mut().rev().take(16) {
            // Programs started together have not got far; one that had failed or printed its table is over.
            let over = run.step >= Step::Header || run.notes.failure.is_some();
            run.superseded |= run.stream == stream && over;
        }
        self.programs.dedup();
        let collective = match self.programs[..] {
            [name] => Some(name.to_owned()),
            // Several programs were named, and which of them this is cannot be known.
            _ => None,
        };
        self.programs.clear();
        if self.runs.len() == TABLES {
            self.left_out = true;
            self.runs.pop();
        }
        let table = Table {
            collective,
            ranks: None,
            devices: Vec::new(),
            nccl_tests_version: None,
            nccl_version: self.library.take(),
            rows: Vec::new(),
            out_of_bounds: None,
            average_busbw: None,
            ended: Ended::Truncated,
        };
        self.runs.push(Run {
            table,
            layout: None,
            notes: Notes::default(),
            ranks_missing: false,
            step: Step::Version,
            stream,
            superseded: false,
        });
        self.runs.len() - 1
    }

    /// The youngest open run that fits: of this process if there is one.
    pub(crate) fn open(&self, stream: u64, fits: impl Fn(&Run) -> bool) -> Option<usize> {
        let of = |run: &Run| run.open() && fits(run);
        self.runs
            .iter()
            .rposition(|run| run.stream == stream && of(run))
            .or_else(|| self.runs.iter().rposition(of))
    }

    /// The youngest run of this process, open or not, or else the youngest of all.
    pub(crate) fn youngest(&self, stream: u64) -> Option<usize> {
        self.runs.iter().rposition(|run| run.stream == stream).or(self.runs.len().checked_sub(1))
    }

    /// The run that takes rows which came without a header.
    pub(crate) fn headless(&mut self, stream: u64) -> usize {
        let at = match self.open(stream, |run| run.layout.is_none()) {
            Some(at) => at,
            None => self.begin(stream),
        };
        self.runs[at].step = Step::Row;
        at
    }

    /// Keeps a row, up to the cap.
    pub(crate) fn push(&mut self, at: usize, row: Row) {
        // A half without a finite number was printed and not measured.
        if row.out_of_place.is_none() && row.in_place.is_none() {
            return;
        }
        let run = &mut self.runs[at];
        run.step = Step::Row;
        run.notes.row();
        if self.rows < ROWS {
            self.rows += 1;
            run.table.rows.push(row);
        } else {
            self.left_out = true;
        }
    }

    /// Counts a Rank line; false when there have been too many to keep.
    pub(crate) fn may_keep_device(&mut self) -> bool {
        self.devices += 1;
        self.devices <= DEVICES
    }

    /// A test program was named.
    pub(crate) fn program(&mut self, name: &'static str) {
        if !self.programs.contains(&name) {
            self.programs.push(name);
        }
    }

    /// NCCL said its version.
    pub(crate) fn library(&mut self, stream: u64, version: String) {
        match self.open(stream, |_| true) {
            Some(at) => {
                self.runs[at].table.nccl_version.get_or_insert(version);
            }
            None => self.library = Some(version),
        }
    }

    /// Where a failure or a warning is noted: at the run of this process, at the youngest, or before all.
    pub(crate) fn notes(&mut self, stream: u64) -> &mut Notes {
        match self.open(stream, |_| true).or(self.youngest(stream)) {
            Some(at) => &mut self.runs[at].notes,
            None => &mut self.before,
        }
    }

    /// Ends the log. `damage` says what went wrong with the file itself.
    pub(crate) fn finish(self, damage: Option<String>) -> Reading {
        let mut first: Option<(u64, String)> = None;
        let mut earliest = |found: Option<(u64, String)>| {
            if let Some(found) = found
                && first.as_ref().is_none_or(|first| found.0 < first.0)
            {
                first = Some(found);
            }
        };
        let mut worst = None;
        let mut tables = Vec::with_capacity(self.runs.len());
        for (at, mut run) in self.runs.into_iter().enumerate() {
            let before = (at == 0).then_some(&self.before);
            let complete = run.table.ended == Ended::Complete;
            let failed_before = before.is_some_and(|notes| notes.failure.is_some());
            if !complete && (run.notes.failed() || failed_before) {
                run.table.ended = Ended::Failed;
            }
            if run.table.ended == Ended::Failed || (complete && run.notes.went_wrong()) {
                earliest(run.notes.earliest());
                earliest(before.and_then(Notes::earliest));
            }
            run.table.ranks = ranks(&run);
            worst = worst.max(Some(severity(run.table.ended)));
            tables.push(run.table);
        }
        let ended = match worst {
            None if self.before.failure.is_some()
                || self.before.warning.is_some()
                || self.before.hint.is_some() =>
            {
                earliest(self.before.earliest().or(self.before.hint));
                Ended::Failed
            }
            None => Ended::Empty,
            Some(0) => Ended::Complete,
            Some(1) => Ended::Truncated,
            Some(_) => Ended::Failed,
        };
        let left_out =
            || format!("the log is longer than is kept: the first {ROWS} rows and {TABLES} tables are here");
        let first_error = first.map(|(_, text)| text).or(damage).or_else(|| self.left_out.then(left_out));
        Reading { ended, first_error, tables }
    }
}

fn severity(ended: Ended) -> u8 {
    match ended {
        Ended::Complete => 0,
        Ended::Truncated | Ended::Empty => 1,
        Ended::Failed => 2,
    }
}

/// The number of Rank lines, if they are 0..N-1 without a gap.
fn ranks(run: &Run) -> Option<u32> {
    let devices = &run.table.devices;
    if run.table.ranks.is_some() || run.ranks_missing || devices.is_empty() {
        return run.table.ranks;
    }
    let mut ranks: Vec<u32> = devices.iter().map(|device| device.rank).collect();
    ranks.sort_unstable();
    let whole = ranks.iter().enumerate().all(|(at, rank)| *rank as usize == at);
    whole.then(|| u32::try_from(ranks.len()).ok()).flatten()
}
