//! Input: detects the kind of file from its content, and splits it into lines in constant memory.

use crate::json;
use crate::text::TextReader;
use flate2::read::MultiGzDecoder;
use memchr::memchr;
use model::measurement::Reading;
use std::error::Error;
use std::fmt;
use std::io::{self, Cursor, ErrorKind, Read};

/// Number of bytes used to detect the kind of a file.
const HEAD: usize = 4096;
/// Maximum bytes evaluated per line. Lines of nccl-tests have at most a few hundred.
const LINE: usize = 256 * 1024;

/// Reads a log of any kind. The type of the input is not a parameter, so that the parser is compiled once and not in each caller.
pub(crate) fn read(input: &mut dyn Read) -> io::Result<Reading> {
    let input = match unpacked(Box::new(input)) {
        Ok(input) => input,
        Err(error) => return damage(error).map(|damage| TextReader::default().finish(Some(damage))),
    };
    let (head, input) = peek(input)?;
    let is_json = json::is_document(&head);
    let input = Cursor::new(head).chain(input);
    if is_json {
        let mut document = json::JsonDocument::default();
        let end = document.read(input);
        Ok(document.finish(end.err().map(damage).transpose()?))
    } else {
        let mut text = TextReader::default();
        let end = lines(input, &mut text);
        Ok(text.finish(end.err().map(damage).transpose()?))
    }
}

/// The log as its program wrote it: decoded from gzip, with any number of members, and from UTF-16.
pub(crate) fn unpacked<'a>(input: Box<dyn Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    let (head, input) = peek(input)?;
    let packed = head.starts_with(&[0x1f, 0x8b]);
    let input = Cursor::new(head).chain(input);
    let (mut head, input) = peek(if packed { Box::new(Gzip::new(input)) } else { Box::new(input) })?;
    let low = match head[..] {
        [0xff, 0xfe, ..] => Some(0),
        [0xfe, 0xff, ..] => Some(1),
        _ => None,
    };
    if low.is_some() {
        head.drain(..2);
    }
    let input = Cursor::new(head).chain(input);
    Ok(match low {
        Some(low) => Box::new(Utf16Decoder { input, low, odd: None }),
        None => Box::new(input),
    })
}

/// The first bytes, and the rest of the input. An error after them is returned when the reader reaches it.
fn peek<'a>(mut input: Box<dyn Read + 'a>) -> io::Result<(Vec<u8>, impl Read + 'a)> {
    let mut head = Vec::with_capacity(HEAD);
    match input.by_ref().take(HEAD as u64).read_to_end(&mut head) {
        Err(error) if head.is_empty() => Err(error),
        result => Ok((head, FailingReader(result.err()).chain(input))),
    }
}

/// Description of a damaged archive, if the error reports one. Data unpacked before the damage is kept.
fn damage(error: io::Error) -> io::Result<String> {
    match error.get_ref().and_then(|error| error.downcast_ref::<Damaged>()) {
        Some(damaged) => Ok(damaged.to_string()),
        None => Err(error),
    }
}

/// An archive that cannot be unpacked completely.
#[derive(Debug)]
struct Damaged(io::Error);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the gzip data is damaged: {}", self.0)
    }
}

impl Error for Damaged {}

/// Unpacks gzip, and returns [`Damaged`] only for errors of the archive.
struct Gzip<R> {
    decoder: MultiGzDecoder<InputReader<R>>,
}

impl<R: Read> Gzip<R> {
    fn new(input: R) -> Self {
        Gzip { decoder: MultiGzDecoder::new(InputReader { input, failed: false }) }
    }
}

impl<R: Read> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(buffer).map_err(|error| {
            if self.decoder.get_ref().failed {
                error
            } else {
                io::Error::new(ErrorKind::InvalidData, Damaged(error))
            }
        })
    }
}

/// Distinguishes errors of the input from errors of the decoder on top of it.
struct InputReader<R> {
    input: R,
    failed: bool,
}

impl<R: Read> Read for InputReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.input.read(buffer);
        self.failed = result.is_err();
        result
    }
}

/// Fails once with an earlier error.
struct FailingReader(Option<io::Error>);

impl Read for FailingReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn lines(mut input: impl Read, text: &mut TextReader) -> io::Result<()> {
    let mut buffer = vec![0; LINE];
    let mut filled = 0;
    // The buffer contains no newline up to this position.
    let mut searched = 0;
    // The start of the line was already read; the rest exceeds the maximum.
    let mut skipping = false;
    loop {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let mut from = 0;
        while let Some(more) = memchr(b'\n', &buffer[searched..filled]) {
            let end = searched + more;
            if !std::mem::take(&mut skipping) {
                text.line(&buffer[from..end], true);
            }
            from = end + 1;
            searched = from;
        }
        if from == 0 && filled == buffer.len() {
            if !std::mem::replace(&mut skipping, true) {
                text.line(&buffer, false);
            }
            from = filled;
        }
        if from > 0 {
            buffer.copy_within(from..filled, 0);
            filled -= from;
        }
        searched = filled;
    }
    if filled > 0 && !skipping {
        text.line(&buffer[..filled], false);
    }
    Ok(())
}

/// Converts UTF-16, the encoding of redirected output in some shells, to bytes. All relevant text in a log is ASCII.
struct Utf16Decoder<R> {
    input: R,
    /// Index of the low byte in a pair.
    low: usize,
    odd: Option<u8>,
}

impl<R: Read> Read for Utf16Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let mut wide = [0; 8192];
        let room = wide.len().min(buffer.len().saturating_mul(2));
        loop {
            let start = usize::from(self.odd.is_some());
            if let Some(odd) = self.odd {
                wide[0] = odd;
            }
            let count = self.input.read(&mut wide[start..room])?;
            if count == 0 {
                return Ok(0);
            }
            let bytes = &wide[..start + count];
            let (pairs, odd) = bytes.as_chunks::<2>();
            self.odd = odd.first().copied();
            for (byte, pair) in buffer.iter_mut().zip(pairs) {
                *byte = if pair[1 - self.low] == 0 { pair[self.low] } else { b'?' };
            }
            if !pairs.is_empty() {
                return Ok(pairs.len());
            }
        }
    }
}
