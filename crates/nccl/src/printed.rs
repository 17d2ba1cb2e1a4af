//! Halves as printed: all values are finite, or some are not.

use model::measurement::{Column, Half, PartialHalf, Placement, Row};

pub(crate) enum Printed {
    /// All numbers were measured.
    Whole(Half),
    /// At least one value is not finite.
    Part(PartialHalf),
}

impl Printed {
    /// A half whose values in the `unread` columns are not finite.
    pub(crate) fn new(half: Half, unread: Vec<Column>) -> Self {
        use Column::{Algbw, Busbw, TimeUs};
        if unread.is_empty() {
            return Self::Whole(half);
        }
        let read = |column, value: f64| (!unread.contains(&column)).then_some(value);
        Self::Part(PartialHalf {
            // Replaced when the half is stored in its row.
            placement: Placement::OutOfPlace,
            time_us: read(TimeUs, half.time_us),
            algbw: read(Algbw, half.algbw),
            busbw: read(Busbw, half.busbw),
            wrong: half.wrong,
            unread,
        })
    }

    pub(crate) fn store(self, row: &mut Row, placement: Placement) {
        match (self, placement) {
            (Self::Whole(half), Placement::OutOfPlace) => row.out_of_place = Some(half),
            (Self::Whole(half), Placement::InPlace) => row.in_place = Some(half),
            (Self::Part(part), placement) => row.partial = Some(Box::new(PartialHalf { placement, ..part })),
        }
    }
}
