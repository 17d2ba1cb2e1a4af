//! Matches of a scan, and the bytes to keep and to remove.

use crate::SecretKind;

/// Whether this byte can be part of an unquoted value.
pub(crate) fn word(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'\'' | b'`')
}

pub(crate) enum ScanMatch {
    Hit(Hit),
    /// The beginning of an environment block, with its length.
    Environment(usize),
}

/// A secret at a position.
pub(crate) struct Hit {
    pub(crate) kind: SecretKind,
    /// Number of bytes to keep, starting at the position.
    pub(crate) keep: usize,
    /// Number of bytes to remove after the kept bytes.
    pub(crate) skip: usize,
    /// The rest of the secret, of unknown length, which is removed while streaming.
    pub(crate) then: Swallow,
}

impl Hit {
    pub(crate) fn new(kind: SecretKind, keep: usize, skip: usize, then: Swallow) -> Self {
        Self { kind, keep, skip, then }
    }
}

/// The rest of a secret, removed while streaming, because its length is unlimited.
#[derive(Clone, Copy)]
pub(crate) enum Swallow {
    Nothing,
    /// All bytes of this class.
    While(fn(u8) -> bool),
    /// An unquoted value, up to a blank, a quote or an escaped newline.
    Word,
    /// A quoted value, up to the closing quote or the end of the line.
    Quoted {
        mark: u8,
        /// Backslashes before the opening mark: nested quoting.
        open: usize,
        /// Backslashes directly before the current position.
        run: usize,
    },
}

pub(crate) enum Swallowed {
    /// All available bytes were removed; more may follow.
    All(Swallow),
    /// All bytes except the last were removed; the last byte is needed to interpret the next byte.
    AllButOne(Swallow),
    /// Length of the value, bytes, and number of backslashes that belong to the following text.
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
                        (byte, _) if word(*byte) => at += 1,
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
                        // At this depth of quoting, a closing mark has this many backslashes.
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
