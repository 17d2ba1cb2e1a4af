//! A run whose lines are being read.

use crate::layout::Layout;
use crate::notes::Notes;
use model::measurement::{LogEnd, Table};
use std::collections::BTreeSet;
use std::rc::Rc;

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

pub(crate) struct OpenRun {
    pub(crate) table: Table,
    pub(crate) layout: Option<Rc<Layout>>,
    pub(crate) notes: Notes,
    /// The hosts of the Rank lines.
    pub(crate) hosts: BTreeSet<Vec<u8>>,
    /// Whether a Rank line was truncated or omitted, so that the number of ranks is unknown.
    pub(crate) ranks_missing: bool,
    pub(crate) step: RunPhase,
    pub(crate) stream: u64,
    /// Whether the same process has started a later run, so that this run receives no further lines.
    pub(crate) superseded: bool,
    /// Whether a part of the output was removed from the log.
    pub(crate) cut: bool,
    /// Whether the budget is exhausted: this run is tracked to its end without storing data.
    pub(crate) left_out: bool,
}

impl OpenRun {
    pub(crate) fn new(stream: u64, left_out: bool) -> Self {
        Self {
            table: Table::empty(LogEnd::Truncated),
            layout: None,
            notes: Notes::default(),
            hosts: BTreeSet::new(),
            ranks_missing: false,
            step: RunPhase::Version,
            stream,
            superseded: false,
            cut: false,
            left_out,
        }
    }

    pub(crate) fn open(&self) -> bool {
        self.table.ended != LogEnd::Complete && !self.superseded
    }

    /// Whether a line of this step may follow. Rank lines repeat.
    pub(crate) fn expects(&self, step: RunPhase) -> bool {
        self.open() && (self.step < step || (self.step == step && step == RunPhase::Rank))
    }

    /// Determines the end state of the run from its own messages and from failures printed before it.
    pub(crate) fn conclude(&mut self, failed_before: bool) -> LogEnd {
        // Rows may be missing, although the log contains a summary.
        if self.cut && self.table.ended == LogEnd::Complete {
            self.table.ended = LogEnd::Truncated;
        }
        if self.table.ended != LogEnd::Complete && (self.notes.failed() || failed_before) {
            self.table.ended = LogEnd::Failed;
        }
        self.table.ended
    }

    /// The number of ranks: as printed, otherwise the number of Rank lines, if they are 0..N-1 without a gap.
    pub(crate) fn ranks(&self) -> Option<u32> {
        let devices = &self.table.devices;
        if self.table.ranks.is_some() || self.ranks_missing || devices.is_empty() {
            return self.table.ranks;
        }
        let mut ranks: Vec<u32> = devices.iter().map(|device| device.rank).collect();
        ranks.sort_unstable();
        let whole = ranks.iter().enumerate().all(|(at, rank)| *rank as usize == at);
        whole.then(|| u32::try_from(ranks.len()).ok()).flatten()
    }
}
