//! Encodings of known values.

use std::collections::BTreeSet;

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, general_purpose::NO_PAD},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::window::{StreamWindow, Undecided};

/// Minimum length of a known value, bytes: shorter values occur in harmless text.
pub(crate) const SHORTEST: usize = 8;
/// Longer values are split into pieces, to bound the lookahead.
const PIECE: usize = 1 << 10;
/// Maximum length of the prefix of each form that is searched for, bytes.
const ANCHOR: usize = 16;

const UNRESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Characters that are not escaped in the path of a URL.
const IN_PATH: AsciiSet = UNRESERVED.remove(b'/').remove(b':').remove(b'@').remove(b'+').remove(b'=');

/// One encoding of a secret's value, as it can appear in output.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EncodedForm {
    text: Vec<u8>,
    /// Separators permitted at any position.
    between: Separator,
}

/// Separators within an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Separator {
    Nothing,
    /// Newlines, as written by `base64`.
    Lines,
    /// Newlines, blanks and colons, as in hexadecimal dumps.
    Dump,
    /// Newlines, and terminal colour sequences.
    LinesAndColours,
}

/// Maximum length of a skipped escape sequence, bytes.
const SEQUENCE: usize = 16;

impl EncodedForm {
    /// All encodings of a value; empty for values that cannot be distinguished from harmless text: shorter
    /// than 8 bytes, or a number as in a table of results.
    pub(crate) fn of(value: &[u8]) -> BTreeSet<Self> {
        let value = value.trim_ascii();
        let number = value.len() < 2 * SHORTEST && value.iter().all(|byte| b"0123456789.+-eE".contains(byte));
        if value.len() < SHORTEST || number {
            return BTreeSet::new();
        }
        let pieces = value.len().div_ceil(PIECE);
        value.chunks(value.len().div_ceil(pieces)).flat_map(spellings).collect()
    }

    /// Texts to search for; each match must be confirmed by [`EncodedForm::at`].
    pub(crate) fn anchors(&self) -> Vec<Vec<u8>> {
        let head = &self.text[..self.text.len().min(ANCHOR)];
        let mut anchors = vec![head.to_vec()];
        match self.between {
            Separator::Nothing => {}
            Separator::Lines => {
                anchors.extend((1..head.len()).map(|at| [&head[..at], b"\n", &head[at..]].concat()));
            }
            // Dumps show single bytes or pairs of bytes, separated by a blank or a colon.
            Separator::Dump => {
                anchors.extend((1..head.len()).map(|at| [&head[..at], b"\n", &head[at..]].concat()));
                for (digits, between) in [(2, b' '), (2, b':'), (4, b' ')] {
                    anchors.push(head.chunks(digits).collect::<Vec<_>>().join(&between));
                }
            }
            // Text after the separator is not searched for: there may be several separators, and colour
            // sequences have many forms. Prefixes shorter than four bytes are too common.
            Separator::LinesAndColours => {
                for with in [&b"\n"[..], b"\r", b"\x1b["] {
                    anchors.extend((4..head.len()).map(|at| [&head[..at], with].concat()));
                }
            }
        }
        anchors
    }

    /// Length of the value at this position; `None` without a match.
    pub(crate) fn at(&self, window: &StreamWindow<'_>) -> Result<Option<usize>, Undecided> {
        let (mut at, mut matched) = (0, 0);
        while matched < self.text.len() {
            match window.byte(at)? {
                Some(byte) if byte == self.text[matched] => matched += 1,
                Some(b'\n' | b'\r') if self.between != Separator::Nothing && matched > 0 => {}
                Some(b' ' | b':') if self.between == Separator::Dump && matched > 0 => {}
                Some(0x1b) if self.between == Separator::LinesAndColours && matched > 0 => {
                    // An escape sequence consists of `ESC [`, parameters and one letter.
                    let parameters = window.run(at + 2, SEQUENCE, |byte| matches!(byte, b' '..=b'?'))?;
                    at += 2 + parameters;
                }
                _ => return Ok(None),
            }
            at += 1;
        }
        Ok(Some(at))
    }
}

fn spellings(value: &[u8]) -> BTreeSet<EncodedForm> {
    let plain = |text: Vec<u8>| EncodedForm { text, between: Separator::Nothing };
    let mut forms =
        BTreeSet::from([EncodedForm { text: value.to_vec(), between: Separator::LinesAndColours }]);
    let hex = hex::encode(value);
    for text in [hex.to_ascii_uppercase(), hex] {
        forms.insert(EncodedForm { text: text.into_bytes(), between: Separator::Dump });
    }
    // Some programs percent-encode all bytes, including unreserved ones.
    let percent: String = value.iter().map(|byte| format!("%{byte:02x}")).collect();
    forms.extend([plain(percent.to_ascii_uppercase().into_bytes()), plain(percent.into_bytes())]);
    for set in [&UNRESERVED, &IN_PATH] {
        let encoded = percent_encode(value, set).to_string();
        // Hexadecimal digits may be lower-case.
        let mut small = encoded.clone().into_bytes();
        for at in memchr::memchr_iter(b'%', encoded.as_bytes()) {
            small[at + 1..at + 3].make_ascii_lowercase();
        }
        forms.extend([plain(encoded.into_bytes()), plain(small)]);
    }
    if let Some(quoted) = std::str::from_utf8(value).ok().and_then(|value| serde_json::to_string(value).ok())
    {
        let quoted = quoted[1..quoted.len() - 1].to_owned();
        // nccl-tests and PHP also escape the slash, and quoted text is sometimes quoted again.
        forms.insert(plain(quoted.replace('/', "\\/").into_bytes()));
        forms.insert(plain(quoted.replace('\\', "\\\\").replace('"', "\\\"").into_bytes()));
        forms.insert(plain(quoted.into_bytes()));
    }
    for alphabet in [alphabet::STANDARD, alphabet::URL_SAFE] {
        let engine = GeneralPurpose::new(&alphabet, NO_PAD);
        // The offset within groups of three bytes is unknown; characters that depend on adjacent bytes are
        // omitted.
        for (shift, foreign) in [(0, 0), (1, 2), (2, 3)] {
            let encoded = engine.encode([&[0; 2][..shift], value].concat());
            let shared = usize::from(!(shift + value.len()).is_multiple_of(3));
            let text = encoded.as_bytes()[foreign..encoded.len() - shared].to_vec();
            forms.insert(EncodedForm { text, between: Separator::Lines });
        }
    }
    forms
}
