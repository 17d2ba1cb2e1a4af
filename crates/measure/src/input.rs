//! The input of a log: unpacked, with its beginning kept for the detection of its format.

use std::io::{self, Read};

use model::measurement::Reading;

use crate::{
    lines::{self, Lines},
    prefix::LogPrefixes,
    reading_builder::ReadingBuilder,
};

/// Length of the log prefix from which the format is detected, bytes.
const HEAD: usize = 1 << 20;
/// Initial buffer size, bytes. With `HEAD` bytes most of the buffer would be unused for a short log, and the allocator would return the
/// buffer to the system after each log, so that the next log would wait for new pages.
const SHORT: usize = HEAD / 4;

/// Reads the lines of a log in this format; `beginning` was already read from `input`.
///
/// # Errors
///
/// Returns an error if the reader fails.
pub(crate) fn read(
    format: &str,
    labels: LogPrefixes,
    new: &dyn Fn() -> Box<dyn Lines>,
    beginning: Vec<u8>,
    input: &mut dyn Read,
) -> io::Result<Reading> {
    // A beginning shorter than `HEAD` is the whole log, so the length of the log is known.
    let length = if beginning.len() < HEAD { beginning.len() } else { 0 };
    let mut out = ReadingBuilder::default();
    out.length = length;
    let ended = lines::read(beginning, input, labels, new, &mut out)?;
    Ok(out.finish(format, ended))
}

/// The unpacked beginning and the rest of a log. An error after the first byte is returned when the reader reaches it.
///
/// # Errors
///
/// Returns an error if the reader fails, except for damaged gzip data.
pub(crate) fn beginning(input: &mut dyn Read) -> io::Result<(Vec<u8>, impl Read)> {
    let (input, error) = match nccl::unpacked(input) {
        Ok(input) => (Some(input), None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => (None, Some(error)),
        Err(error) => return Err(error),
    };
    // This memory is reused as the buffer for the rest of the log.
    let mut head = Vec::with_capacity(SHORT);
    let (mut input, mut error) = (OptionalReader(input), error);
    if let Err(found) = input.by_ref().take(HEAD as u64).read_to_end(&mut head) {
        if found.kind() != io::ErrorKind::InvalidData {
            return Err(found);
        }
        error = Some(found);
    }
    Ok((head, Failing(error).chain(input)))
}

/// A reader that may be absent; an absent reader is empty.
struct OptionalReader<R>(Option<R>);

impl<R: Read> Read for OptionalReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(0), |input| input.read(buffer))
    }
}

/// A reader whose first read returns an earlier error; later reads return the end of the input.
pub(crate) struct Failing(pub Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
