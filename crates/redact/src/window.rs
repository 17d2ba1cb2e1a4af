//! The part of the stream visible to a rule, so that decisions do not depend on the chunks of the stream.

/// Maximum lookahead of a rule, bytes.
pub(crate) const AHEAD: usize = 16 << 10;
/// Maximum lookbehind of a rule, bytes.
pub(crate) const BACK: usize = 64;

/// The decision requires bytes that have not arrived yet.
pub(crate) struct Undecided;

/// The stream from a position on. An access beyond the available bytes returns [`Undecided`] unless the
/// stream has ended, so no result depends on the end of a chunk.
pub(crate) struct StreamWindow<'a> {
    behind: &'a [u8],
    ahead: &'a [u8],
    whole: bool,
}

impl<'a> StreamWindow<'a> {
    /// A window at a position of the available bytes; `ends` if the stream has ended.
    pub(crate) fn new(bytes: &'a [u8], at: usize, ends: bool) -> Self {
        let to = bytes.len().min(at + AHEAD);
        let whole = ends || bytes.len() >= at + AHEAD;
        Self { behind: &bytes[at.saturating_sub(BACK)..at], ahead: &bytes[at..to], whole }
    }

    /// Returns the part of this window from a later position. Earlier bytes are not visible in it.
    pub(crate) fn on(&self, from: usize) -> Self {
        Self { behind: &[], ahead: self.rest(from), whole: self.whole }
    }

    /// At most [`BACK`] bytes before the position.
    pub(crate) fn behind(&self) -> &'a [u8] {
        self.behind
    }

    /// The available bytes from `from` on.
    pub(crate) fn rest(&self, from: usize) -> &'a [u8] {
        self.ahead.get(from..).unwrap_or_default()
    }

    /// Whether all bytes that a rule may access are available.
    pub(crate) fn whole(&self) -> bool {
        self.whole
    }

    /// A byte; `None` beyond the end.
    pub(crate) fn byte(&self, at: usize) -> Result<Option<u8>, Undecided> {
        match self.ahead.get(at) {
            Some(byte) => Ok(Some(*byte)),
            None if self.whole => Ok(None),
            None => Err(Undecided),
        }
    }

    /// Number of following bytes of a class, up to `most`.
    pub(crate) fn run(&self, from: usize, most: usize, class: fn(u8) -> bool) -> Result<usize, Undecided> {
        let mut length = 0;
        while length < most && self.byte(from + length)?.is_some_and(class) {
            length += 1;
        }
        Ok(length)
    }

    /// Whether exactly these bytes follow.
    pub(crate) fn has_text(&self, from: usize, text: &[u8]) -> Result<bool, Undecided> {
        for (at, byte) in text.iter().enumerate() {
            if self.byte(from + at)? != Some(*byte) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
