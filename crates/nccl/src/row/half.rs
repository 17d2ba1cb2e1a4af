//! One half of a row: the values of one placement.

use super::context::{Gap, RowContext};
use super::partial::Partial;
use crate::interleaved;
use crate::layout::{HalfColumn, Layout};
use crate::number::Number;
use crate::printed::Printed;
use crate::scan::{Word, Words};
use crate::value::{CellValue, plausible, value};
use model::measurement::{Column, Half, Iterations};

/// Columns that every half begins with: time, algorithm bandwidth and bus bandwidth. They are never N/A.
const MEASURED: usize = 3;

pub(super) struct FoundHalf {
    pub(super) printed: Printed,
    pub(super) end: usize,
    /// Whether other output is joined to its last word.
    pub(super) joined: bool,
}

struct LastValue {
    value: CellValue,
    end: usize,
    joined: bool,
    /// Width of the value's column, if known.
    pitch: Option<usize>,
}

/// The values already read from a half.
#[derive(Default)]
struct HalfValues {
    half: Half,
    /// `None` until a number was read.
    iterations: Option<Iterations>,
    /// Columns without a finite value.
    unread: Vec<Column>,
    /// The first columns as printed.
    printed: [Option<Number>; MEASURED],
}

impl RowContext<'_> {
    /// Parses one half at the start of `words`; `None` if a value is missing, cut off or implausible.
    pub(super) fn half(&self, mut words: Words<'_>, partial: &mut Partial, gap: Gap) -> Option<FoundHalf> {
        let (last_column, columns) = self.layout.half.split_last()?;
        let mut values = HalfValues::default();
        for (index, column) in columns.iter().enumerate() {
            values.add(index, *column, value(words.next()?.text)?, self.layout)?;
        }
        let last = self.last_value(&words.next()?, words.line.len(), partial)?;
        values.add(columns.len(), *last_column, last.value, self.layout)?;

        let must_be_plausible = gap == Gap::Output || self.strict;
        if must_be_plausible && !plausible(self.layout, partial.row.size_bytes, values.printed) {
            return None;
        }
        partial.last_pitch = last.pitch;
        Some(FoundHalf { printed: values.printed_half(self.layout), end: last.end, joined: last.joined })
    }

    /// The value in the last column. A log, and each of its lines, may stop in the middle of a number: at the
    /// end of the line, the width of the column shows whether the number is complete.
    fn last_value(&self, word: &Word<'_>, line_length: usize, partial: &Partial) -> Option<LastValue> {
        let at_line_end = word.end() == line_length;
        if at_line_end {
            // If another half must follow, the line was truncated even if it ends in a newline.
            let complete = if self.ended && partial.awaits_last(self.layout) {
                reaches(word, partial)
            } else {
                self.fills(word)
            };
            if !complete {
                return None;
            }
        }
        if let Some(value) = value(word.text) {
            let pitch = (!at_line_end).then(|| word.pitch());
            return Some(LastValue { value, end: word.end(), joined: false, pitch });
        }
        let length = self.joined_value(word)?;
        let value = value(&word.text[..length])?;
        Some(LastValue { value, end: word.start + length, joined: true, pitch: None })
    }

    /// Whether the word fills its column to the right, so that no digit is missing. A count without padding
    /// may be the beginning of a count that is wider than its column.
    fn fills(&self, word: &Word<'_>) -> bool {
        let padded = word.blanks > 2 || self.layout.half.last() != Some(&HalfColumn::Wrong);
        word.text == b"N/A" || (padded && self.layout.last_pitch == Some(word.pitch()))
    }

    /// Length of the value in the last word of a half with joined output.
    pub(super) fn joined_value(&self, word: &Word<'_>) -> Option<usize> {
        if word.text.len() > 3 && word.text.starts_with(b"N/A") {
            return Some(3);
        }
        match self.layout.half.last()? {
            HalfColumn::Wrong => interleaved::count(word, self.layout.last_pitch, self.hosts),
            HalfColumn::Error => interleaved::error(word.text),
            HalfColumn::IterationCv => interleaved::percentage(word.text),
            _ => None,
        }
    }
}

/// Whether the word ends in the same column as the last word of the previous half: both columns have the
/// same width. Tables with collapsed padding do not show this.
fn reaches(word: &Word<'_>, partial: &Partial) -> bool {
    word.blanks < 2 || word.text == b"N/A" || partial.last_pitch.is_none_or(|pitch| word.pitch() >= pitch)
}

impl HalfValues {
    /// Adds the value of a column; `None` if the column cannot have it.
    fn add(&mut self, index: usize, column: HalfColumn, value: CellValue, layout: &Layout) -> Option<()> {
        match value {
            CellValue::Number(number) => self.add_number(index, column, number, layout),
            CellValue::NotAvailable => (index >= MEASURED).then_some(()),
            CellValue::NotFinite => {
                self.unread.push(column.field());
                Some(())
            }
        }
    }

    fn add_number(
        &mut self,
        index: usize,
        column: HalfColumn,
        number: Number,
        layout: &Layout,
    ) -> Option<()> {
        let half = &mut self.half;
        let iterations = self.iterations.get_or_insert_default();
        let slot = match column {
            HalfColumn::Time => &mut half.time_us,
            HalfColumn::Algbw => &mut half.algbw,
            HalfColumn::Busbw => &mut half.busbw,
            HalfColumn::CopyBw => half.copybw.get_or_insert_default(),
            HalfColumn::Error => half.error.get_or_insert_default(),
            HalfColumn::IterationMin => &mut iterations.min_us,
            HalfColumn::IterationMax => &mut iterations.max_us,
            HalfColumn::IterationP99 => &mut iterations.p99_us,
            HalfColumn::IterationCv => &mut iterations.cv_pct,
            HalfColumn::Wrong => {
                half.wrong = Some(number.count()?);
                return Some(());
            }
            HalfColumn::Unknown => return Some(()),
        };
        let shift = if column == HalfColumn::Time { layout.to_us } else { 0 };
        *slot = number.measured(shift)?;
        if let Some(printed) = self.printed.get_mut(index) {
            *printed = Some(number);
        }
        Some(())
    }

    fn printed_half(mut self, layout: &Layout) -> Printed {
        if layout.half.contains(&HalfColumn::IterationMin) {
            self.half.iterations = self.iterations;
        }
        Printed::new(self.half, self.unread)
    }
}
