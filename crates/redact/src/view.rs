//! What a rule gets to see of the stream, so that it decides the same however the stream was cut into chunks.

/// A rule looks at most so many bytes ahead.
pub(crate) const AHEAD: usize = 16 << 10;
/// And so many back.
pub(crate) const BACK: usize = 64;

/// The answer lies in bytes that have not come yet.
pub(crate) struct Undecided;

/// The stream from a place on. Every look past its end says [`Undecided`] unless nothing more is to come, so no answer
/// ever depends on where a chunk ended.
pub(crate) struct View<'a> {
    behind: &'a [u8],
    ahead: &'a [u8],
    whole: bool,
}

impl<'a> View<'a> {
    /// At a place in what is there of the stream; `ends` when this is all there will be.
    pub(crate) fn new(bytes: &'a [u8], at: usize, ends: bool) -> Self {
        let to = bytes.len().min(at + AHEAD);
        let whole = ends || bytes.len() >= at + AHEAD;
        Self { behind: &bytes[at.saturating_sub(BACK)..at], ahead: &bytes[at..to], whole }
    }

    /// The same, from a place further on. What stood before it is not seen.
    pub(crate) fn on(&self, from: usize) -> Self {
        Self { behind: &[], ahead: self.rest(from), whole: self.whole }
    }

    /// At most [`BACK`] bytes before the place.
    pub(crate) fn behind(&self) -> &'a [u8] {
        self.behind
    }

    /// The bytes from `from` on, as far as they are there.
    pub(crate) fn rest(&self, from: usize) -> &'a [u8] {
        self.ahead.get(from..).unwrap_or_default()
    }

    /// Everything that a rule may look at is there.
    pub(crate) fn whole(&self) -> bool {
        self.whole
    }

    /// A byte; none behind the end.
    pub(crate) fn byte(&self, at: usize) -> Result<Option<u8>, Undecided> {
        match self.ahead.get(at) {
            Some(byte) => Ok(Some(*byte)),
            None if self.whole => Ok(None),
            None => Err(Undecided),
        }
    }

    /// How many bytes of a class follow, `most` being enough.
    pub(crate) fn run(&self, from: usize, most: usize, class: fn(u8) -> bool) -> Result<usize, Undecided> {
        let mut length = 0;
        while length < most && self.byte(from + length)?.is_some_and(class) {
            length += 1;
        }
        Ok(length)
    }

    /// Whether these bytes stand at the place, letter for letter.
    pub(crate) fn says(&self, from: usize, text: &[u8]) -> Result<bool, Undecided> {
        for (at, byte) in text.iter().enumerate() {
            if self.byte(from + at)? != Some(*byte) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
