//! A JSON tokenizer that tolerates the program's errors and buffers at most one string.

use crate::number::Number;
use crate::scan::text;
use std::io::{self, ErrorKind, Read};

/// Maximum bytes kept of a string. nccl-tests truncates its own strings at about 2 KB.
const TEXT: usize = 4096;
/// Read buffer size.
const BUFFER: usize = 64 * 1024;
/// Maximum nesting depth; nccl-tests needs seven.
const DEPTH: u32 = 64;

/// Reason why reading ends before the end of the JSON value.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The input ends inside the object.
    Cut,
    /// Invalid JSON.
    Malformed,
    /// The input returned an error.
    Input(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Input(error)
    }
}

/// A value where a number or `null` is expected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nullable {
    Null,
    Number(Number),
    /// Any other value, such as `"nan"`.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum JsonToken {
    BeginObject,
    EndObject,
    BeginArray,
    EndArray,
    Colon,
    Comma,
    /// A string, stored in `text`.
    Text,
    Number(Number),
    /// `null`, `true`, `nan`, `-inf` and other bare words.
    Word,
}

pub(crate) struct Tokens<R> {
    input: R,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    /// The last string or word, possibly truncated.
    text: Vec<u8>,
    /// Lookahead token.
    ahead: Option<JsonToken>,
}

impl<R: Read> Tokens<R> {
    pub(crate) fn new(input: R) -> Tokens<R> {
        Tokens { input, buffer: vec![0; BUFFER], at: 0, filled: 0, text: Vec::new(), ahead: None }
    }

    /// Reads a value that should be an object: `each` receives the name of each member and must read its
    /// value.
    pub(crate) fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        match self.next()? {
            JsonToken::BeginObject => {}
            other => return self.skip_from(other),
        }
        loop {
            match self.next()? {
                JsonToken::EndObject => return Ok(()),
                JsonToken::Comma => {}
                JsonToken::Text => {
                    let name = text(&self.text, 64);
                    if self.next()? != JsonToken::Colon {
                        return Err(Stop::Malformed);
                    }
                    each(self, &name)?;
                }
                _ => return Err(Stop::Malformed),
            }
        }
    }

    /// Reads a value that should be an array: `each` must read one element.
    pub(crate) fn elements(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        match self.next()? {
            JsonToken::BeginArray => {}
            other => return self.skip_from(other),
        }
        loop {
            match self.next()? {
                JsonToken::EndArray => return Ok(()),
                JsonToken::Comma => {}
                token => {
                    self.ahead = Some(token);
                    each(self)?;
                }
            }
        }
    }

    /// Reads a value; `None` if it is not a number.
    pub(crate) fn number(&mut self) -> Result<Option<Number>, Stop> {
        match self.next()? {
            JsonToken::Number(number) => Ok(Some(number)),
            JsonToken::Text => Ok(Number::parse(self.text.trim_ascii())),
            token => self.skip_from(token).map(|()| None),
        }
    }

    /// Reads a value that may be `null`.
    pub(crate) fn nullable(&mut self) -> Result<Nullable, Stop> {
        let token = self.next()?;
        let number = match token {
            JsonToken::Number(number) => Some(number),
            JsonToken::Text => Number::parse(self.text.trim_ascii()),
            JsonToken::Word if self.text == b"null" => return Ok(Nullable::Null),
            token => self.skip_from(token).map(|()| None)?,
        };
        Ok(number.map_or(Nullable::Unreadable, Nullable::Number))
    }

    /// Reads a value; `None` if it is not a string.
    pub(crate) fn string(&mut self) -> Result<Option<String>, Stop> {
        match self.next()? {
            JsonToken::Text => Ok(Some(text(&self.text, TEXT))),
            token => self.skip_from(token).map(|()| None),
        }
    }

    pub(crate) fn skip(&mut self) -> Result<(), Stop> {
        let token = self.next()?;
        self.skip_from(token)
    }

    /// Whether another value follows before the end of the input.
    pub(crate) fn has_more(&mut self) -> Result<bool, Stop> {
        loop {
            match self.next() {
                // Skip separators between objects that are joined in one file or one array.
                Ok(JsonToken::Comma | JsonToken::BeginArray | JsonToken::EndArray) => {}
                Ok(token) => {
                    self.ahead = Some(token);
                    return Ok(true);
                }
                Err(Stop::Cut) => return Ok(false),
                Err(stop) => return Err(stop),
            }
        }
    }

    fn skip_from(&mut self, first: JsonToken) -> Result<(), Stop> {
        let mut depth = 0u32;
        let mut token = first;
        loop {
            match token {
                JsonToken::BeginObject | JsonToken::BeginArray => depth += 1,
                JsonToken::EndObject | JsonToken::EndArray => {
                    depth = depth.checked_sub(1).ok_or(Stop::Malformed)?
                }
                JsonToken::Colon | JsonToken::Comma if depth == 0 => return Err(Stop::Malformed),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
            if depth > DEPTH {
                return Err(Stop::Malformed);
            }
            token = self.next()?;
        }
    }

    fn next(&mut self) -> Result<JsonToken, Stop> {
        if let Some(token) = self.ahead.take() {
            return Ok(token);
        }
        loop {
            let byte = self.byte()?;
            return Ok(match byte {
                b' ' | b'\t' | b'\r' | b'\n' | 0 | 0xef | 0xbb | 0xbf => continue,
                b'{' => JsonToken::BeginObject,
                b'}' => JsonToken::EndObject,
                b'[' => JsonToken::BeginArray,
                b']' => JsonToken::EndArray,
                b':' => JsonToken::Colon,
                b',' => JsonToken::Comma,
                b'"' => self.quoted()?,
                byte if is_bare(byte) => self.bare(byte)?,
                _ => return Err(Stop::Malformed),
            });
        }
    }

    fn quoted(&mut self) -> Result<JsonToken, Stop> {
        self.text.clear();
        loop {
            match self.byte()? {
                b'"' => return Ok(JsonToken::Text),
                b'\\' => match self.byte()? {
                    b'n' | b't' | b'r' | b'b' | b'f' => self.keep(b' '),
                    // Host names and programs are ASCII; other characters are irrelevant.
                    b'u' => self.keep(b'?'),
                    plain => self.keep(plain),
                },
                byte => self.keep(byte),
            }
        }
    }

    /// A number or a word. At the end of the input it may be incomplete and is then rejected.
    fn bare(&mut self, first: u8) -> Result<JsonToken, Stop> {
        self.text.clear();
        self.keep(first);
        loop {
            let byte = self.byte()?;
            if !is_bare(byte) {
                self.at -= 1;
                return Ok(Number::parse(&self.text).map_or(JsonToken::Word, JsonToken::Number));
            }
            self.keep(byte);
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.text.len() < TEXT {
            self.text.push(byte);
        }
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        while self.at == self.filled {
            match self.input.read(&mut self.buffer) {
                Ok(0) => return Err(Stop::Cut),
                Ok(count) => (self.at, self.filled) = (0, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Stop::Input(error)),
            }
        }
        self.at += 1;
        Ok(self.buffer[self.at - 1])
    }
}

fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}
