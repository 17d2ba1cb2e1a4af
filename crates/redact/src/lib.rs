//! Removes secrets from a stream of bytes.
//!
//! Each secret is replaced by `[redacted:KIND]`; all other bytes are unchanged. The output does not depend on
//! the chunks of the stream, and memory is bounded for any length of a line or secret.
//!
//! - **Known values** are found literally, JSON-escaped, percent-encoded and in base64, at any offset and
//!   across line breaks.
//! - **Patterns** find tokens with a typical prefix (`ghp_...`, `AKIA...`, private keys), values of secret
//!   names (`HF_TOKEN=...`, `"password": "..."`), headers, and passwords in URLs. Tokens and keys are
//!   also found in base64.
//! - **The environment block** of nccl-tests' JSON keeps only values that describe the measurement.

mod environment;
mod forms;
mod kind;
mod known;
mod names;
mod rules;
mod scan;
mod tokens;
mod window;

use std::sync::Arc;

pub use aho_corasick::BuildError;
pub use kind::{SecretKind, Tally};
pub use known::redacted;
pub use names::is_secret_name;
pub use rules::Rules;

use scan::{RemovedRest, ScanMatch, SecretRest};
use window::{BACK, StreamWindow};

/// Maximum bytes processed in one step.
const CHUNK: usize = 64 << 10;

/// State of one stream.
pub struct Redactor {
    rules: Arc<Rules>,
    /// The last processed bytes, for lookbehind, and the undecided bytes.
    buffer: Vec<u8>,
    /// Number of processed bytes in the buffer.
    passed: usize,
    mode: Mode,
    /// Whether an environment block continues after the current value.
    environment: bool,
    tally: Tally,
}

#[derive(Clone, Copy)]
enum Mode {
    Text,
    SecretRest(SecretRest),
    Environment,
}

impl Redactor {
    /// Starts a stream.
    pub fn new(rules: Arc<Rules>) -> Self {
        let (mode, tally) = (Mode::Text, Tally::default());
        Self { rules, buffer: Vec::new(), passed: 0, mode, environment: false, tally }
    }

    /// Processes the next bytes of the stream, and appends the decided bytes to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for chunk in bytes.chunks(CHUNK) {
            self.buffer.extend_from_slice(chunk);
            self.advance(false, out);
            let old = self.passed.saturating_sub(BACK);
            self.buffer.drain(..old);
            self.passed -= old;
        }
    }

    /// Ends the stream, and appends the rest to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Tally {
        self.advance(true, out);
        self.tally
    }

    /// Counts of the secrets in the bytes already written.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Number of bytes that are not decided yet.
    pub fn undecided(&self) -> usize {
        self.buffer.len() - self.passed
    }

    fn advance(&mut self, ends: bool, out: &mut Vec<u8>) {
        while match self.mode {
            Mode::Text => self.text(ends, out),
            Mode::SecretRest(rest) => self.remove_rest(rest, ends, out),
            Mode::Environment => self.environment(ends, out),
        } {}
    }

    /// Keeps all bytes up to this position.
    fn keep(&mut self, to: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.buffer[self.passed..to]);
        self.passed = to;
    }

    /// Keeps all bytes up to this position, except secrets within.
    fn keep_redacted(&mut self, to: usize, out: &mut Vec<u8>) {
        let mut inner = Self::new(Arc::clone(&self.rules));
        inner.push(&self.buffer[self.passed..to], out);
        self.tally.add(&inner.finish(out));
        self.passed = to;
    }

    fn replace(&mut self, kind: SecretKind, out: &mut Vec<u8>) {
        self.tally.count(kind);
        for part in ["[redacted:", kind.as_str(), "]"] {
            out.extend_from_slice(part.as_bytes());
        }
    }

    /// Returns whether another call is needed.
    fn text(&mut self, ends: bool, out: &mut Vec<u8>) -> bool {
        let length = self.buffer.len();
        // The end may be the beginning of a longer match. No other bytes are held back, because logs are read
        // while they are written.
        let decided_to = if ends { length } else { self.rules.unfinished(&self.buffer, self.passed) };
        let mut from = self.passed;
        while let Some((at, pattern)) = self.rules.find(&self.buffer, from).filter(|(at, _)| *at < decided_to)
        {
            match self.rules.decide(pattern, &StreamWindow::new(&self.buffer, at, ends)) {
                Ok(None) => from = at + 1,
                Ok(Some(ScanMatch::Hit(hit))) => {
                    self.keep(at, out);
                    self.keep_redacted(at + hit.keep, out);
                    self.replace(hit.kind, out);
                    self.passed += hit.skip;
                    self.mode = Mode::SecretRest(hit.then);
                    return true;
                }
                Ok(Some(ScanMatch::Environment(length))) => {
                    self.keep(at + length, out);
                    self.mode = Mode::Environment;
                    return true;
                }
                Err(window::Undecided) => {
                    self.keep(at, out);
                    return false;
                }
            }
        }
        self.keep(decided_to.max(from), out);
        false
    }

    fn remove_rest(&mut self, rest: SecretRest, ends: bool, out: &mut Vec<u8>) -> bool {
        let bytes = &self.buffer[self.passed..];
        match rest.scan(bytes, ends) {
            RemovedRest::All(rest) => {
                self.passed = self.buffer.len();
                self.mode = Mode::SecretRest(rest);
                false
            }
            RemovedRest::AllButOne(rest) => {
                self.passed = self.buffer.len() - 1;
                self.mode = Mode::SecretRest(rest);
                false
            }
            RemovedRest::End(length, backslashes) => {
                self.passed += length;
                out.resize(out.len() + backslashes, b'\\');
                self.mode = Mode::Text;
                if std::mem::take(&mut self.environment) {
                    self.mode = Mode::Environment;
                    if self.buffer[self.passed] == b'"' {
                        self.keep(self.passed + 1, out);
                    }
                }
                true
            }
        }
    }

    /// Handles the part between the strings of an environment block.
    fn environment(&mut self, ends: bool, out: &mut Vec<u8>) -> bool {
        let Some(byte) = self.buffer.get(self.passed) else { return false };
        match byte {
            b'"' => match environment::text(&StreamWindow::new(&self.buffer, self.passed, ends)) {
                Err(window::Undecided) => return false,
                Ok(environment::EnvironmentText::Secret { name }) => {
                    self.keep(self.passed + 1, out);
                    self.keep_redacted(self.passed + name, out);
                    self.replace(SecretKind::Environment, out);
                    self.environment = true;
                    self.mode = Mode::SecretRest(SecretRest::Quoted { mark: b'"', open: 0, run: 0 });
                }
                Ok(environment::EnvironmentText::Open { length }) => {
                    self.keep(self.passed + 1, out);
                    self.keep_redacted(self.passed + length, out);
                    let closed = self.buffer.get(self.passed) == Some(&b'"');
                    self.keep(self.passed + usize::from(closed), out);
                }
            },
            byte if byte.is_ascii_whitespace() || *byte == b',' => self.keep(self.passed + 1, out),
            _ => self.mode = Mode::Text,
        }
        true
    }
}
