//! Rows and their pieces: the left part (size to root) and the halves.

use crate::half::{Printed, part, put};
use crate::interleaved;
use crate::layout::{HalfColumn, Layout};
use crate::number::{Number, unsigned};
use crate::scan::{Word, Words, text};
use crate::value::{NAME, Value, is_name, is_timestamp, plausible, value};
use model::measurement::{Half, Iterations, Row};
use std::collections::BTreeSet;

/// A possibly incomplete row.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    pub(crate) row: Row,
    /// Number of halves seen, measured or not.
    pub(crate) filled: u8,
    /// The line ended inside a half: the following text is not part of this row.
    pub(crate) cut: bool,
    /// Width of the last column of the halves seen, with its padding.
    last_pitch: Option<usize>,
}

/// Effect of a line on a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// All halves are complete; joined output starts at this position.
    Whole(usize),
    /// Halves are missing; joined output starts at this position.
    Short(usize),
    /// More numbers than the header has columns: the row belongs to another table.
    TooMuch,
}

/// Context of a row.
pub(crate) struct RowContext<'a> {
    pub(crate) layout: &'a Layout,
    /// The hosts of the Rank lines.
    pub(crate) hosts: &'a BTreeSet<Vec<u8>>,
    /// The line ends in a newline: its last word is complete.
    pub(crate) ended: bool,
    /// The columns were inferred, so every half must be plausible.
    pub(crate) strict: bool,
}

/// Maximum words of a row; the rest is unrelated output.
const WORDS: usize = 64;

impl RowContext<'_> {
    /// Parses the left part, whose first word starts at `at`, and returns its end.
    ///
    /// With `anywhere` the preceding words are unknown, so the type must be a known one.
    pub(crate) fn left(&self, row: &mut Row, line: &[u8], at: usize, anywhere: bool) -> Option<usize> {
        let mut words = Words::new(line, at);
        row.size_bytes = unsigned(words.next()?.text)?;
        row.count = unsigned(words.next()?.text)?;
        let word = words.next()?;
        let known = interleaved::name(word.text, &interleaved::TYPES);
        match known {
            Some(name) if name.len() == word.text.len() => row.dtype = name.to_owned(),
            // Without reduction and root, other output is joined to the type.
            Some(name) if !self.layout.root && word.text.contains(&b':') => {
                row.dtype = name.to_owned();
                return Some(word.start + name.len());
            }
            // A type of a later version.
            _ if !anywhere && is_name(word.text) => row.dtype = text(word.text, NAME),
            _ => return None,
        }

        // The column may be blank for a collective without a reduction.
        if self.layout.redop
            && let Some(word) = words.peek()
        {
            match interleaved::name(word.text, &interleaved::OPERATIONS) {
                Some(name) if name.len() == word.text.len() => {
                    row.redop = Some(name.to_owned());
                    words.at = word.end();
                }
                Some(name) if !self.layout.root && word.text.contains(&b':') => {
                    row.redop = Some(name.to_owned());
                    return Some(word.start + name.len());
                }
                _ if !anywhere && is_name(word.text) && value(word.text).is_none() => {
                    row.redop = Some(text(word.text, NAME));
                    words.at = word.end();
                }
                _ => {}
            }
        }

        if self.layout.root {
            let word = words.next()?;
            match Number::parse(word.text) {
                Some(number) if word.end() < line.len() || self.ended => row.root = Some(number.integer()?),
                Some(_) => return None,
                None => {
                    let length = interleaved::root(&word, self.hosts)?;
                    row.root = Some(Number::parse(&word.text[..length])?.integer()?);
                    return Some(word.start + length);
                }
            }
        }
        Some(words.at)
    }

    /// Parses halves starting at `at` into the row.
    ///
    /// `doubtful` means that the values do not directly follow the left part: they must then be plausible,
    /// because other programs also print numbers.
    pub(crate) fn fill(&self, partial: &mut Partial, line: &[u8], at: usize, mut doubtful: bool) -> Filled {
        let mut words = Words::new(line, at);
        let mut noise = None;
        let half = self.layout.half.len();
        for _ in 0..WORDS {
            if partial.filled == self.layout.count() {
                return self.tail(partial, words, noise);
            }
            let missing = usize::from(self.layout.count() - partial.filled) * half;
            let run = if doubtful { self.run(words) } else { missing };
            // Joined output may end in numbers; the last ones belong to the row.
            let foreign = run - if run >= missing { missing } else { run.min(half) };
            let complete = run >= half && foreign == 0;
            if complete && let Some((measured, after, glued)) = self.half(words, partial, doubtful) {
                self.place(partial, measured);
                words.at = after;
                // A second half directly after the first is as reliable as the first.
                doubtful = glued || (doubtful && run != missing);
                noise = glued.then_some(after);
                continue;
            }
            let Some(word) = words.peek() else { break };
            if !doubtful && Number::parse(word.text).is_some() {
                // An incomplete half: truncated, unless the following text shows that the columns differ.
                partial.cut = true;
                return Filled::Short(line.len());
            }
            let skipped = if complete || foreign == 0 { run } else { foreign };
            for _ in 0..if doubtful { skipped.max(1) } else { 1 } {
                words.next();
            }
            noise.get_or_insert(word.start);
            doubtful = true;
        }
        Filled::Short(noise.unwrap_or(line.len()))
    }

    /// Parses one or both halves at the start of a line, possibly long after their left part.
    pub(crate) fn resume(&self, partial: &mut Partial, line: &[u8], at: usize) -> Filled {
        let missing = usize::from(self.layout.count() - partial.filled) * self.layout.half.len();
        let run = self.run(Words::new(line, at));
        if partial.cut || (run != missing && run != self.layout.half.len()) {
            return Filled::Short(line.len());
        }
        self.fill(partial, line, at, true)
    }

    /// Handles the text after the last half.
    fn tail(&self, partial: &mut Partial, mut words: Words<'_>, noise: Option<usize>) -> Filled {
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
            Some(word) => Filled::Whole(noise.unwrap_or(word.start)),
            None => Filled::Whole(end),
        }
    }

    /// Number of consecutive words that are values.
    fn run(&self, words: Words<'_>) -> usize {
        let last = self.layout.half.len().saturating_sub(1);
        let mut length = 0;
        for word in words.take(WORDS) {
            if value(word.text).is_some() {
                length += 1;
            } else if length % self.layout.half.len() == last && self.glued(&word).is_some() {
                return length + 1;
            } else {
                break;
            }
        }
        length
    }

    /// Parses one half, partially if a value is not finite. Returns its end and whether output is joined to
    /// it.
    fn half(
        &self,
        mut words: Words<'_>,
        partial: &mut Partial,
        doubtful: bool,
    ) -> Option<(Printed, usize, bool)> {
        let layout = self.layout;
        let size = partial.row.size_bytes;
        let is_last = partial.filled + 1 == layout.count();
        let mut pitch = None;
        let last = layout.half.len() - 1;
        let mut half = Half::default();
        let mut unread = Vec::new();
        let mut printed = [None; 3];
        let mut iterations = None::<Iterations>;
        let mut glued = false;
        let mut end = words.at;
        for (index, column) in layout.half.iter().enumerate() {
            let word = words.next()?;
            end = word.end();
            if index == last {
                // A log, and each of its lines, may stop in the middle of a number. If another half must
                // follow, the line was truncated.
                let ends = end == words.line.len();
                let whole =
                    if self.ended && is_last { self.reaches(&word, partial) } else { self.fills(&word) };
                if ends && !whole {
                    return None;
                }
                pitch = (!ends).then(|| word.pitch());
            }
            let number = match Number::parse(word.text) {
                Some(number) => number,
                None => {
                    let value = match value(word.text) {
                        Some(value) => value,
                        None if index == last => {
                            let length = self.glued(&word)?;
                            (glued, end) = (true, word.start + length);
                            value(&word.text[..length])?
                        }
                        None => return None,
                    };
                    match value {
                        Value::Number(number) => number,
                        Value::NotAvailable if index > 2 => continue,
                        Value::NotAvailable => return None,
                        Value::NotFinite => {
                            unread.push(column.field());
                            continue;
                        }
                    }
                }
            };
            let shift = if *column == HalfColumn::Time { layout.to_us } else { 0 };
            let spread = iterations.get_or_insert_default();
            let slot = match column {
                HalfColumn::Time => &mut half.time_us,
                HalfColumn::Algbw => &mut half.algbw,
                HalfColumn::Busbw => &mut half.busbw,
                HalfColumn::CopyBw => half.copybw.get_or_insert_default(),
                HalfColumn::Error => half.error.get_or_insert_default(),
                HalfColumn::IterationMin => &mut spread.min_us,
                HalfColumn::IterationMax => &mut spread.max_us,
                HalfColumn::IterationP99 => &mut spread.p99_us,
                HalfColumn::IterationCv => &mut spread.cv_pct,
                HalfColumn::Wrong => {
                    half.wrong = Some(number.count()?);
                    continue;
                }
                HalfColumn::Unknown => continue,
            };
            *slot = number.measured(shift)?;
            if index < 3 {
                printed[index] = Some(number);
            }
        }
        if layout.half.contains(&HalfColumn::IterationMin) {
            half.iterations = iterations;
        }
        if (doubtful || self.strict) && !plausible(layout, size, printed) {
            return None;
        }
        partial.last_pitch = pitch.filter(|_| !glued);
        let half = if unread.is_empty() { Printed::Whole(half) } else { Printed::Part(part(&half, unread)) };
        Some((half, end, glued))
    }

    /// Whether the word ends in the same column as the last word of the previous half: both columns have the
    /// same width. Tables with collapsed padding do not show this.
    fn reaches(&self, word: &Word<'_>, partial: &Partial) -> bool {
        word.blanks < 2 || word.text == b"N/A" || partial.last_pitch.is_none_or(|pitch| word.pitch() >= pitch)
    }

    /// Whether the word fills its column to the right, so that no digit is missing. A count without padding
    /// may be the beginning of one that is wider than its column.
    fn fills(&self, word: &Word<'_>) -> bool {
        let padded = word.blanks > 2 || self.layout.half.last() != Some(&HalfColumn::Wrong);
        word.text == b"N/A" || (padded && self.layout.last_pitch == Some(word.pitch()))
    }

    /// End of the value in the last word of a half with joined output.
    fn glued(&self, word: &Word<'_>) -> Option<usize> {
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

    fn place(&self, partial: &mut Partial, half: Printed) {
        let placement = self.layout.placement(partial.filled);
        put(&mut partial.row, placement, half);
        partial.filled += 1;
    }

    /// Whether the halves of a truncated row are plausible for this table. After the truncation there may
    /// have been more columns than the header names.
    pub(crate) fn adds_up(&self, line: &[u8], at: usize, cut: &Partial, glued: bool) -> bool {
        let strict = RowContext { strict: true, ..*self };
        let row = Row { size_bytes: cut.row.size_bytes, ..Row::default() };
        let mut again = Partial { row, ..Partial::default() };
        strict.fill(&mut again, line, at, glued);
        again.filled == cut.filled
    }
}
