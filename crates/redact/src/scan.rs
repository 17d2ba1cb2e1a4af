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
    pub(crate) then: SecretRest,
}

impl Hit {
    pub(crate) fn new(kind: SecretKind, keep: usize, skip: usize, then: SecretRest) -> Self {
        Self { kind, keep, skip, then }
    }
}

/// The rest of a secret, removed while streaming, because its length is unlimited.
#[derive(Clone, Copy)]
pub(crate) enum SecretRest {
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

pub(crate) enum RemovedRest {
    /// All available bytes were removed; more may follow.
    All(SecretRest),
    /// All bytes except the last were removed; the last byte is needed to interpret the next byte.
    AllButOne(SecretRest),
    /// Length of the value, bytes, and number of backslashes that belong to the following text.
    End(usize, usize),
}

impl SecretRest {
    pub(crate) fn scan(self, bytes: &[u8], ends: bool) -> RemovedRest {
        match self {
            Self::Nothing => RemovedRest::End(0, 0),
            Self::While(class) => match bytes.iter().position(|byte| !class(*byte)) {
                Some(at) => RemovedRest::End(at, 0),
                None => RemovedRest::All(self),
            },
            Self::Word => {
                let mut at = 0;
                while let Some(byte) = bytes.get(at) {
                    match (byte, bytes.get(at + 1)) {
                        (b'\\', None) if !ends => return RemovedRest::AllButOne(self),
                        (b'\\', Some(b'n' | b'r' | b't' | b'"')) => return RemovedRest::End(at, 0),
                        (b'\\', Some(_)) => at += 2,
                        (byte, _) if word(*byte) => at += 1,
                        _ => return RemovedRest::End(at, 0),
                    }
                }
                RemovedRest::All(self)
            }
            Self::Quoted { mark, open, mut run } => {
                for (at, byte) in bytes.iter().enumerate() {
                    match *byte {
                        b'\\' => run += 1,
                        b'\n' => return RemovedRest::End(at, 0),
                        // At this depth of quoting, a closing mark has this many backslashes.
                        byte if byte == mark && (run < open || (run - open) % (2 * (open + 1)) == 0) => {
                            return RemovedRest::End(at, run.min(open));
                        }
                        _ => run = 0,
                    }
                }
                RemovedRest::All(Self::Quoted { mark, open, run })
            }
        }
    }
}
