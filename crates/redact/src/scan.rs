//! What was found, and what follows from it.

use crate::Kind;

/// What stands at a place.
pub(crate) enum Found {
    /// A secret.
    Hit(Hit),
    /// The beginning of an environment block, this long.
    Environment(usize),
}

/// A secret at a place.
pub(crate) struct Hit {
    pub(crate) kind: Kind,
    /// Bytes from the place on that stay.
    pub(crate) keep: usize,
    /// Bytes after those that certainly go.
    pub(crate) skip: usize,
    /// What goes with them, however far it reaches.
    pub(crate) then: Swallow,
}

impl Hit {
    pub(crate) fn new(kind: Kind, keep: usize, skip: usize, then: Swallow) -> Self {
        Self { kind, keep, skip, then }
    }
}

/// The rest of a secret, left out as it comes by: it may be longer than memory.
#[derive(Clone, Copy)]
pub(crate) enum Swallow {
    Nothing,
    /// All bytes of this class.
    While(fn(u8) -> bool),
    /// A value without quotes, to a blank, a quote or an escaped line end.
    Word,
    /// A value in quotes, to the quote that closes it or the end of the line.
    Quoted {
        /// The quotation mark.
        mark: u8,
        /// Backslashes before the opening mark: text within text.
        open: usize,
        /// Backslashes right before here.
        run: usize,
    },
}

/// How far a [`Swallow`] got.
pub(crate) enum Swallowed {
    /// All bytes; there may be more.
    All(Swallow),
    /// All but the last byte, without which the next cannot be told.
    AllButOne(Swallow),
    /// It ends after so many, and this many backslashes belong to what follows.
    End(usize, usize),
}

impl Swallow {
    pub(crate) fn over(self, bytes: &[u8], ends: bool) -> Swallowed {
        match self {
            Self::Nothing => Swallowed::End(0, 0),
            Self::While(class) => match bytes.iter().position(|byte| !class(*byte)) {
                Some(at) => Swallowed::End(at, 0),
                None => Swallowed::All(self),
            },
            Self::Word => {
                let mut at = 0;
                while let Some(byte) = bytes.get(at) {
                    match (byte, bytes.get(at + 1)) {
                        (b'\\', None) if !ends => return Swallowed::AllButOne(self),
                        (b'\\', Some(b'n' | b'r' | b't' | b'"')) => return Swallowed::End(at, 0),
                        (b'\\', Some(_)) => at += 2,
                        (byte, _) if crate::names::word(*byte) => at += 1,
                        _ => return Swallowed::End(at, 0),
                    }
                }
                Swallowed::All(self)
            }
            Self::Quoted { mark, open, mut run } => {
                for (at, byte) in bytes.iter().enumerate() {
                    match *byte {
                        b'\\' => run += 1,
                        b'\n' => return Swallowed::End(at, 0),
                        // Within as many layers of quoting, a mark that closes has this many backslashes.
                        byte if byte == mark && (run < open || (run - open) % (2 * (open + 1)) == 0) => {
                            return Swallowed::End(at, run.min(open));
                        }
                        _ => run = 0,
                    }
                }
                Swallowed::All(Self::Quoted { mark, open, run })
            }
        }
    }
}
