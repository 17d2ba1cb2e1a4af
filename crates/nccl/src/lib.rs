//! Parses the output of nccl-tests and rccl-tests, including changes made by launchers and log collectors,
//! into [measurements](model::measurement).
//!
//! All formats of the programs since 2017 are supported, text and JSON, plain or gzip. The header line defines the columns. These
//! guarantees hold for any input, including damaged input:
//!
//! - A number is returned exactly as printed, or not at all.
//! - A row was measured: single halves and rows of unknown columns are dropped, and a row requires one
//!   complete half. The other half may be truncated or have an unreadable number (`nan`): it is then
//!   [`partial`](model::measurement::Row::partial), with its readable numbers. Rows without a complete half
//!   are counted ([`unmeasured`](model::measurement::Table::unmeasured)).
//! - A table is [`Complete`](model::measurement::LogEnd::Complete) only if its average was printed.
//! - Memory is limited to 16 MiB for any input: stored data uses at most 14 MiB, room for about 27,000 plain rows, or 4,096 tables of a few
//!   rows. Rank lines use at most 5 MiB (about 18,000 lines), and per-process times the rest below 10 MiB; rows have priority over both,
//!   and tables over rows. `first_error` reports omitted data in addition to other errors. Only the first 256 KiB of a line are evaluated.
//! - Time is linear in the size of the input.
//!
//! ```
//! let log = b"#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong
//!   1048576  262144  float  sum  -1  46.48  22.56  33.84  0  44.46  23.58  35.38  0
//! # Out of bounds values : 0 OK
//! # Avg bus bandwidth    : 34.61
//! ";
//! let reading = nccl::read_bytes(log);
//! assert_eq!(reading.ended, model::measurement::LogEnd::Complete);
//! assert_eq!(reading.tables[0].rows[0].out_of_place.unwrap().busbw, 33.84);
//! ```

#![deny(missing_docs)]

mod banner;
mod budget;
mod classify;
mod clean;
mod factor;
mod headerless;
mod interleaved;
mod json;
mod layout;
mod notes;
mod number;
mod open_run;
mod phrase;
mod position;
mod prefix;
mod printed;
mod row;
mod scan;
mod source;
mod tables;
mod text;
mod value;

pub use clean::clean;
pub use factor::bus_factor;

use model::measurement::Reading;
use std::io;

/// Reads a log to its end. Its kind (text, JSON, either in gzip) is detected from its content.
///
/// # Errors
///
/// Returns an error if the reader fails. Any input yields a [`Reading`]; damaged gzip data is reported as
/// its `first_error`.
pub fn read(mut reader: impl io::Read) -> io::Result<Reading> {
    source::read(&mut reader)
}

/// Reads a log from memory.
pub fn read_bytes(mut log: &[u8]) -> Reading {
    // Reading from a slice cannot fail.
    source::read(&mut log).unwrap_or_default()
}

/// A log as its program wrote it, unpacked while it is read: gzip with any number of members and UTF-16 with a byte order mark are
/// decoded, any other input is passed through. UTF-16 is reduced to ASCII: each other character becomes a question mark. [`read`] unpacks
/// its input itself; unpacked input has the same result.
///
/// # Errors
///
/// Returns an error if the first bytes cannot be read; later errors come from the returned reader. Damaged gzip
/// data is an error of kind [`InvalidData`](io::ErrorKind::InvalidData), after the bytes before the damage.
pub fn unpacked<'a>(reader: impl io::Read + 'a) -> io::Result<Box<dyn io::Read + 'a>> {
    source::unpacked(Box::new(reader))
}
