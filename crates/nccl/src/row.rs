//! Rows of a table: a left part (size to root), then one half for each placement.
//!
//! A row may be printed in pieces, and other output of the same process may appear between the pieces or be joined to them.
//! [`RowContext::left`] parses the left part, [`RowContext::fill`] the halves that follow it, and [`RowContext::resume`] halves at the
//! start of a later line.

mod context;
mod fill;
mod half;
mod left;
mod partial;

pub(crate) use context::{Beginning, Gap, RowContext};
pub(crate) use fill::Filled;
pub(crate) use partial::Partial;
