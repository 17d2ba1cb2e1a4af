//! The left part of a row: size, count, element type, reduction and root.

use super::context::{Beginning, RowContext};
use crate::interleaved;
use crate::number::{Number, unsigned};
use crate::scan::{Word, Words, text};
use crate::value::{NAME, is_name, value};
use model::measurement::Row;

/// A name in a word.
enum Name {
    /// The whole word.
    Whole(String),
    /// Other output is joined to the name. The columns after it are not printed.
    Joined { name: String, end: usize },
}

impl RowContext<'_> {
    /// Parses the left part, whose first word starts at `at`, and returns its end.
    pub(crate) fn left(&self, row: &mut Row, line: &[u8], at: usize, beginning: Beginning) -> Option<usize> {
        let mut words = Words::new(line, at);
        row.size_bytes = unsigned(words.next()?.text)?;
        row.count = unsigned(words.next()?.text)?;
        match self.name(&words.next()?, &interleaved::TYPES, beginning)? {
            Name::Whole(name) => row.dtype = name,
            Name::Joined { name, end } => {
                row.dtype = name;
                return Some(end);
            }
        }
        if let Some(word) = self.reduction_word(words) {
            match self.name(&word, &interleaved::OPERATIONS, beginning) {
                Some(Name::Whole(name)) => {
                    row.redop = Some(name);
                    words.at = word.end();
                }
                Some(Name::Joined { name, end }) => {
                    row.redop = Some(name);
                    return Some(end);
                }
                None => {}
            }
        }
        if !self.layout.root {
            return Some(words.at);
        }
        let (root, end) = self.root(&words.next()?, line)?;
        row.root = Some(root);
        Some(end)
    }

    /// The word in the column of the reduction, which is blank for a collective without one: the next word is
    /// then a value.
    fn reduction_word<'a>(&self, mut words: Words<'a>) -> Option<Word<'a>> {
        if !self.layout.redop {
            return None;
        }
        words.next().filter(|word| value(word.text).is_none())
    }

    /// Parses the name at the start of a word: a `known` name, or a name that a later version added.
    fn name(&self, word: &Word<'_>, known: &[&'static str], beginning: Beginning) -> Option<Name> {
        match interleaved::name(word.text, known) {
            Some(name) if name.len() == word.text.len() => Some(Name::Whole(name.to_owned())),
            // With a root column, output is joined to the root instead.
            Some(name) if !self.layout.root && word.text.contains(&b':') => {
                Some(Name::Joined { name: name.to_owned(), end: word.start + name.len() })
            }
            _ if beginning == Beginning::Known && is_name(word.text) => {
                Some(Name::Whole(text(word.text, NAME)))
            }
            _ => None,
        }
    }

    /// The root and its end in the line. Other output may follow without a blank.
    fn root(&self, word: &Word<'_>, line: &[u8]) -> Option<(i64, usize)> {
        if let Some(number) = Number::parse(word.text) {
            // At the end of an unterminated line, digits may be missing.
            let complete = word.end() < line.len() || self.ended;
            return if complete { Some((number.integer()?, word.end())) } else { None };
        }
        let length = interleaved::root(word, self.hosts)?;
        Some((Number::parse(&word.text[..length])?.integer()?, word.start + length))
    }
}
