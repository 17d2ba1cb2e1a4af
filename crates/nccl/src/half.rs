//! Printed halves with unmeasured numbers, and their rows.

use crate::layout::Layout;
use crate::row::Partial;
use model::measurement::{Column, Half, PartialHalf, Placement, Row};

/// A printed half.
pub(crate) enum Printed {
    /// All numbers were measured.
    Whole(Half),
    /// At least one value is not finite.
    Part(PartialHalf),
}

/// Stores a complete or partial half in its row.
pub(crate) fn put(row: &mut Row, placement: Placement, half: Printed) {
    match (half, placement) {
        (Printed::Whole(half), Placement::OutOfPlace) => row.out_of_place = Some(half),
        (Printed::Whole(half), Placement::InPlace) => row.in_place = Some(half),
        (Printed::Part(part), placement) => row.partial = Some(Box::new(PartialHalf { placement, ..part })),
    }
}

/// The numbers of a half without the unreadable ones.
pub(crate) fn part(half: &Half, unread: Vec<Column>) -> PartialHalf {
    use Column::{Algbw, Busbw, TimeUs};
    let read = |column, value: f64| (!unread.contains(&column)).then_some(value);
    PartialHalf {
        placement: Placement::OutOfPlace,
        time_us: read(TimeUs, half.time_us),
        algbw: read(Algbw, half.algbw),
        busbw: read(Busbw, half.busbw),
        wrong: half.wrong,
        unread,
    }
}

impl Partial {
    /// The row as read so far, with a missing half marked. `None` without a complete half.
    pub(crate) fn given_up(mut self, layout: &Layout) -> Option<Row> {
        if self.filled < layout.count() && self.row.partial.is_none() {
            self.row.partial = Some(Box::new(PartialHalf::unread(layout.placement(self.filled))));
        }
        (self.row.out_of_place.is_some() || self.row.in_place.is_some()).then_some(self.row)
    }
}
