//! Halves that were printed and not measured whole, and the rows that have one.

use crate::layout::Layout;
use crate::row::Partial;
use model::measurement::{Column, Half, PartialHalf, Placement, Row};

/// A printed half.
pub(crate) enum Printed {
    /// Every number of it was measured.
    Whole(Half),
    /// A value of it is not finite.
    Part(PartialHalf),
}

/// Puts a half, or what was read of it, into its row.
pub(crate) fn put(row: &mut Row, placement: Placement, half: Printed) {
    match (half, placement) {
        (Printed::Whole(half), Placement::OutOfPlace) => row.out_of_place = Some(half),
        (Printed::Whole(half), Placement::InPlace) => row.in_place = Some(half),
        (Printed::Part(part), placement) => row.partial = Some(Box::new(PartialHalf { placement, ..part })),
    }
}

/// The numbers of a half without those that are unread.
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
    /// The row as far as it was read: a half that did not come is marked. Nothing when no half is whole.
    pub(crate) fn given_up(mut self, layout: &Layout) -> Option<Row> {
        if self.filled < layout.count() && self.row.partial.is_none() {
            self.row.partial = Some(Box::new(PartialHalf::unread(layout.placement(self.filled))));
        }
        (self.row.out_of_place.is_some() || self.row.in_place.is_some()).then_some(self.row)
    }
}
