//! Joins the halves of a row that are interleaved with other output of the same process.

use super::context::{Gap, RowContext};
use super::partial::Partial;
use crate::number::Number;
use crate::scan::{Words, text};
use crate::value::{is_timestamp, value};
use model::measurement::Row;

/// Effect of a line on a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// All halves are complete; joined output starts at this position.
    Whole(usize),
    /// Halves are missing; interleaved output starts at this position.
    Short(usize),
    /// More numbers than the header has columns: the row belongs to another table.
    TooMuch,
}

/// Maximum number of words of a row; the rest is unrelated output.
const WORDS: usize = 64;

/// The next consecutive values of the line.
#[derive(Clone, Copy)]
struct ValueRun {
    values: usize,
    /// Number of leading values that belong to other output: output joined to a row may end in numbers, and
    /// the row's values follow them.
    foreign: usize,
}

impl RowContext<'_> {
    /// Parses halves starting at `at` into the row; `gap` is the text before them.
    pub(crate) fn fill(&self, partial: &mut Partial, line: &[u8], at: usize, mut gap: Gap) -> Filled {
        let mut words = Words::new(line, at);
        let mut output_start = None;
        for _ in 0..WORDS {
            if partial.filled == self.layout.count() {
                return self.after_last(partial, words, output_start);
            }
            let missing = partial.missing(self.layout) * self.layout.half.len();
            let run = self.run_ahead(words, missing, gap);
            if self.begins_half(run)
                && let Some(half) = self.half(words, partial, gap)
            {
                partial.store_half(self.layout, half.printed);
                words.at = half.end;
                output_start = half.joined.then_some(half.end);
                // A second half directly after the first is as reliable as the first.
                let reliable = gap == Gap::Blanks || run.values == missing;
                gap = if half.joined || !reliable { Gap::Output } else { Gap::Blanks };
                continue;
            }
            let Some(word) = words.peek() else { break };
            if gap == Gap::Blanks && Number::parse(word.text).is_some() {
                // An incomplete half: truncated, unless the following text shows that the columns differ.
                partial.cut = true;
                return Filled::Short(line.len());
            }
            for _ in 0..skipped_words(run, gap) {
                words.next();
            }
            output_start.get_or_insert(word.start);
            gap = Gap::Output;
        }
        Filled::Short(output_start.unwrap_or(line.len()))
    }

    /// Parses one or both halves at the start of a line. Other lines may separate the halves from their left part.
    pub(crate) fn resume(&self, partial: &mut Partial, line: &[u8], at: usize) -> Filled {
        let half = self.layout.half.len();
        let missing = partial.missing(self.layout) * half;
        let values = self.values_ahead(Words::new(line, at));
        if partial.cut || (values != missing && values != half) {
            return Filled::Short(line.len());
        }
        self.fill(partial, line, at, Gap::Output)
    }

    /// Whether the halves of a truncated row are plausible for this table. The truncated part may have
    /// contained columns that the header does not name.
    pub(crate) fn adds_up(&self, line: &[u8], at: usize, cut: &Partial, gap: Gap) -> bool {
        let strict = RowContext { strict: true, ..*self };
        let row = Row { size_bytes: cut.row.size_bytes, ..Row::default() };
        let mut again = Partial { row, ..Partial::default() };
        strict.fill(&mut again, line, at, gap);
        again.filled == cut.filled
    }

    /// Handles the text after the last half.
    fn after_last(&self, partial: &mut Partial, mut words: Words<'_>, output_start: Option<usize>) -> Filled {
        let end = words.at;
        if self.layout.timestamp
            && let (Some(date), Some(time)) = (words.next(), words.next())
            && is_timestamp(date.text, time.text)
        {
            partial.row.timestamp = Some(text(&words.line[date.start..time.end()], 32));
            return Filled::Whole(words.at);
        }
        if self.layout.timestamp && !self.ended {
            return Filled::Short(words.line.len());
        }
        match Words::new(words.line, end).next() {
            Some(word) if Number::parse(word.text).is_some() => Filled::TooMuch,
            Some(word) => Filled::Whole(output_start.unwrap_or(word.start)),
            None => Filled::Whole(end),
        }
    }

    /// The values at the start of `words`; the row lacks `missing` values. If only blanks precede them, that many values belong to the row.
    /// If other output precedes them, all consecutive values are counted, and values beyond the missing ones belong to that output.
    fn run_ahead(&self, words: Words<'_>, missing: usize, gap: Gap) -> ValueRun {
        let values = match gap {
            Gap::Blanks => missing,
            Gap::Output => self.values_ahead(words),
        };
        let own = if values >= missing { missing } else { values.min(self.layout.half.len()) };
        ValueRun { values, foreign: values - own }
    }

    fn begins_half(&self, run: ValueRun) -> bool {
        run.foreign == 0 && run.values >= self.layout.half.len()
    }

    /// Number of consecutive words that are values.
    fn values_ahead(&self, words: Words<'_>) -> usize {
        let half = self.layout.half.len();
        let last = half.saturating_sub(1);
        let mut length = 0;
        for word in words.take(WORDS) {
            if value(word.text).is_some() {
                length += 1;
            } else if length % half == last && self.joined_value(&word).is_some() {
                return length + 1;
            } else {
                break;
            }
        }
        length
    }
}

/// Number of words to skip where no half begins: the foreign values, a sequence of values that is not a half, or one word of other
/// output.
fn skipped_words(run: ValueRun, gap: Gap) -> usize {
    match gap {
        Gap::Blanks => 1,
        Gap::Output if run.foreign > 0 => run.foreign,
        Gap::Output => run.values.max(1),
    }
}
