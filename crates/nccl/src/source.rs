//! Where the bytes come from: what kind of file it is, told by its content, and lines out of it in constant memory.

use crate::json;
use crate::text::Text;
use flate2::read::MultiGzDecoder;
use memchr::memchr;
use std::cell::Cell;
use std::io::{self, Cursor, ErrorKind, Read};
use std::rc::Rc;
use terms::measurement::Reading;

/// Bytes in which the kind of a file shows.
const HEAD: usize = 4096;
/// Bytes of a line that are looked at. Nothing of nccl-tests is longer than a few hundred.
const LINE: usize = 256 * 1024;

/// Reads a log of any kind.
pub(crate) fn read(input: impl Read) -> io::Result<Reading> {
    let (head, input) = peek(input);
    if !head.starts_with(&[0x1f, 0x8b]) {
        return plain(Cursor::new(head).chain(input)).map_err(|(error, _)| error);
    }
    let failed = Rc::new(Cell::new(false));
    let watched = Watched { input: Cursor::new(head).chain(input), failed: Rc::clone(&failed) };
    plain(MultiGzDecoder::new(watched)).or_else(|(error, reader)| {
        // An error that is not the input's is the archive's: what could be unpacked still counts.
        if failed.get() {
            Err(error)
        } else {
            Ok(reader.finish(format!("the gzip data is damaged: {error}")))
        }
    })
}

/// Tells errors of the input from errors of the decoder on top of it.
struct Watched<R> {
    input: R,
    failed: Rc<Cell<bool>>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.input.read(buffer);
        self.failed.set(result.as_ref().is_err_and(|error| error.kind() != ErrorKind::Interrupted));
        result
    }
}

/// A reader that was stopped by an error.
enum Stopped {
    Text(Box<Text>),
    Json(Box<json::Document>),
}

impl Stopped {
    fn finish(self, damage: String) -> Reading {
        match self {
            Stopped::Text(text) => text.finish(Some(damage)),
            Stopped::Json(document) => document.finish(Some(damage)),
        }
    }
}

fn plain(input: impl Read) -> Result<Reading, (io::Error, Stopped)> {
    let (head, input) = peek(input);
    let wide = match head[..] {
        [0xff, 0xfe, ..] => Some(0),
        [0xfe, 0xff, ..] => Some(1),
        _ => None,
    };
    let is_json = json::is_document(&head);
    let input = Cursor::new(head).chain(input);
    if let Some(low) = wide {
        return lines(Narrow { input, low, odd: None });
    }
    if is_json {
        let mut document = json::Document::default();
        return match document.read(input) {
            Ok(()) => Ok(document.finish(None)),
            Err(error) => Err((error, Stopped::Json(Box::new(document)))),
        };
    }
    lines(input)
}

/// The first bytes, and the rest of the input. An error among them is kept for whoever reads that far.
fn peek(mut input: impl Read) -> (Vec<u8>, impl Read) {
    let mut head = Vec::with_capacity(HEAD);
    let error = input.by_ref().take(HEAD as u64).read_to_end(&mut head).err();
    (head, Failing(error).chain(input))
}

/// Fails once with an error that was met earlier.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

fn lines(mut input: impl Read) -> Result<Reading, (io::Error, Stopped)> {
    let mut text = Text::default();
    let mut buffer = vec![0; LINE];
    let mut filled = 0;
    // Up to here the buffer is known to hold no newline.
    let mut searched = 0;
    // The start of the line was read already, and this is more of it than anybody needs.
    let mut skipping = false;
    loop {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err((error, Stopped::Text(Box::new(text)))),
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
    Ok(text.finish(None))
}

/// Makes bytes of UTF-16, which some shells write into files. All that matters in a log is ASCII.
struct Narrow<R> {
    input: R,
    /// Which byte of a pair is the low one.
    low: usize,
    odd: Option<u8>,
}

impl<R: Read> Read for Narrow<R> {
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
