//! Rows that are not complete yet.

use crate::layout::Layout;
use crate::printed::Printed;
use model::measurement::{PartialHalf, Row};

/// A possibly incomplete row.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    pub(crate) row: Row,
    /// Number of halves read, measured or not.
    pub(crate) filled: u8,
    /// Whether the line ended inside a half: the following text is then not part of this row.
    pub(super) cut: bool,
    /// Width of the last column of the halves read, with its padding.
    pub(super) last_pitch: Option<usize>,
}

impl Partial {
    /// Number of halves still to come.
    pub(super) fn missing(&self, layout: &Layout) -> usize {
        usize::from(layout.count() - self.filled)
    }

    /// Whether the next half is the last one.
    pub(super) fn awaits_last(&self, layout: &Layout) -> bool {
        self.filled + 1 == layout.count()
    }

    /// Stores the next half.
    pub(super) fn store_half(&mut self, layout: &Layout, half: Printed) {
        half.store(&mut self.row, layout.placement(self.filled));
        self.filled += 1;
    }

    /// The row in its current state, with a missing half marked. `None` without a complete half.
    pub(crate) fn into_partial_row(mut self, layout: &Layout) -> Option<Row> {
        if self.filled < layout.count() && self.row.partial.is_none() {
            self.row.partial = Some(Box::new(PartialHalf::unread(layout.placement(self.filled))));
        }
        (self.row.out_of_place.is_some() || self.row.in_place.is_some()).then_some(self.row)
    }
}
