//! Reads what nccl-tests and rccl-tests print, and what became of it on its way through launchers and log
//! collectors, into [measurements](model::measurement).
//!
//! Every format of the programs is read, from 2017 on, text and JSON, plain or gzip. What the columns are is taken
//! from the header line. Rules that hold for any input, however damaged:
//!
//! - A number is the printed one, or there is none.
//! - A row was measured: halves that stand alone and rows of unknown columns are left out, and a row needs one whole
//!   half. The other half may be cut off or have an unreadable number (`nan`): it is then
//!   [`partial`](model::measurement::Row::partial), with the numbers that were read. Rows without a whole half are
//!   counted ([`unmeasured`](model::measurement::Table::unmeasured)).
//! - A table is [`Complete`](model::measurement::Ended::Complete) only when its average was printed.
//! - Memory does not grow with the input beyond 16 MiB in all: whatever is kept shares 14 MiB of them, which is room
//!   for some 27,000 plain rows, or 4,096 tables of some rows each. Of these Rank lines get at most 5 MiB (some 18,000
//!   lines) and per-process times what is left below 10 MiB; rows come before both, and tables before rows. When
//!   something was left out, `first_error` says so, beside what else went wrong. A line counts up to 256 KiB.
//! - Time grows as the input does.
//!
//! ```
//! let log = b"#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong
//!   1048576  262144  float  sum  -1  46.48  22.56  33.84  0  44.46  23.58  35.38  0
//! # Out of bounds values : 0 OK
//! # Avg bus bandwidth    : 34.61
//! ";
//! let reading = nccl::read_bytes(log);
//! assert_eq!(reading.ended, model::measurement::Ended::Complete);
//! assert_eq!(reading.tables[0].rows[0].out_of_place.unwrap().busbw, 33.84);
//! ```

mod banner;
mod budget;
mod clean;
mod factor;
mod glance;
mod glue;
mod half;
mod headless;
mod json;
mod layout;
mod notes;
mod number;
mod phrase;
mod position;
mod prefix;
mod row;
mod scan;
mod source;
mod tables;
mod text;
mod value;

pub use factor::bus_factor;

use model::measurement::{Ended, Reading};
use std::io;

/// Reads a log to its end. Its kind (text, JSON, either of them in gzip) is told by its content.
///
/// # Errors
///
/// Only those of the reader itself. Whatever the bytes are, there is a [`Reading`]; damaged gzip data is its
/// `first_error`.
pub fn read(reader: impl io::Read) -> io::Result<Reading> {
    source::read(reader)
}

/// Reads a log that is in memory.
pub fn read_bytes(log: &[u8]) -> Reading {
    // A slice cannot fail to be read.
    source::read(log).unwrap_or(Reading { ended: Ended::Empty, first_error: None, tables: Vec::new() })
}

/// The bytes of a log as its program wrote them, unpacked while they are read: a log in gzip, of one member or many,
/// and one in UTF-16 with a byte order mark come out plain, and any other as it is. Of UTF-16 only ASCII is kept; each
/// other character becomes a question mark. [`read`] reads through this, and reads what comes out of it the same.
///
/// # Errors
///
/// Those of the reader, here for the first bytes and later from the returned reader. Damaged gzip data is an error of
/// kind [`InvalidData`](io::ErrorKind::InvalidData), once the bytes before the damage were read.
pub fn unpacked(reader: impl io::Read) -> io::Result<impl io::Read> {
    source::unpacked(reader)
}
