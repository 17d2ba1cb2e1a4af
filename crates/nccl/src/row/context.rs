//! Context of a row before it is parsed.

use crate::layout::Layout;
use std::collections::BTreeSet;

pub(crate) struct RowContext<'a> {
    pub(crate) layout: &'a Layout,
    /// The hosts of the Rank lines.
    pub(crate) hosts: &'a BTreeSet<Vec<u8>>,
    /// Whether the line ends in a newline: its last word is then complete.
    pub(crate) ended: bool,
    /// Whether the columns were inferred, so that every half must be plausible.
    pub(crate) strict: bool,
}

/// Text before a row on its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// No text, or a known prefix: any name of an element type is accepted.
    Known,
    /// Unknown text: the element type must be one of the known ones.
    Unknown,
}

/// Text between the previous part of a row and its next values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Blanks only: the values belong to the row.
    Blanks,
    /// Other output. Its numbers could be taken for values, so the values must be plausible.
    Output,
}
