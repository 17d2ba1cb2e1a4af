//! Tokens with a known prefix, plain and in base64.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{
        DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig,
        general_purpose::{NO_PAD, PAD},
    },
};

use crate::{
    SecretKind,
    scan::{Hit, SecretRest},
    window::{AHEAD, StreamWindow, Undecided},
};

#[derive(Debug)]
pub(crate) struct TokenPattern {
    /// Prefix.
    pub(crate) begins: &'static str,
    kind: SecretKind,
    /// Minimum number of characters after the prefix.
    least: usize,
    class: fn(u8) -> bool,
    /// Whether a match must not be preceded by a letter.
    alone: bool,
}

const fn token(begins: &'static str, kind: SecretKind, least: usize) -> TokenPattern {
    TokenPattern { begins, kind, least, class: dashed, alone: false }
}

pub(crate) const TOKENS: [TokenPattern; 36] = [
    token("ghp_", SecretKind::GitToken, 20),
    token("gho_", SecretKind::GitToken, 20),
    token("ghu_", SecretKind::GitToken, 20),
    token("ghs_", SecretKind::GitToken, 20),
    token("ghr_", SecretKind::GitToken, 20),
    token("github_pat_", SecretKind::GitToken, 20),
    token("glpat-", SecretKind::GitToken, 16),
    token("AIza", SecretKind::GoogleApiKey, 30),
    TokenPattern { class: dotted, ..token("ya29.", SecretKind::GoogleToken, 16) },
    token("GOCSPX-", SecretKind::GoogleToken, 16),
    TokenPattern { class: capital, alone: true, ..token("AKIA", SecretKind::AwsKey, 16) },
    TokenPattern { class: capital, alone: true, ..token("ASIA", SecretKind::AwsKey, 16) },
    token("xoxa-", SecretKind::SlackToken, 10),
    token("xoxb-", SecretKind::SlackToken, 10),
    token("xoxe-", SecretKind::SlackToken, 10),
    token("xoxe.", SecretKind::SlackToken, 10),
    token("xoxp-", SecretKind::SlackToken, 10),
    token("xoxr-", SecretKind::SlackToken, 10),
    token("xoxs-", SecretKind::SlackToken, 10),
    token("xapp-", SecretKind::SlackToken, 10),
    token("nvapi-", SecretKind::NgcKey, 20),
    TokenPattern { alone: true, ..token("hf_", SecretKind::HuggingFaceToken, 20) },
    TokenPattern { alone: true, ..token("sk-ant-", SecretKind::ApiKey, 16) },
    TokenPattern { alone: true, ..token("sk-proj-", SecretKind::ApiKey, 16) },
    TokenPattern { alone: true, ..token("sk_live_", SecretKind::ApiKey, 16) },
    TokenPattern { alone: true, ..token("sk_test_", SecretKind::ApiKey, 16) },
    TokenPattern { alone: true, ..token("rk_live_", SecretKind::ApiKey, 16) },
    TokenPattern { alone: true, ..token("rk_test_", SecretKind::ApiKey, 16) },
    TokenPattern { alone: true, ..token("whsec_", SecretKind::ApiKey, 16) },
    TokenPattern { alone: true, ..token("npm_", SecretKind::RegistryToken, 30) },
    TokenPattern { alone: true, ..token("pypi-AgE", SecretKind::RegistryToken, 30) },
    TokenPattern { alone: true, ..token("dckr_pat_", SecretKind::RegistryToken, 16) },
    TokenPattern { alone: true, ..token("hvs.", SecretKind::VaultToken, 20) },
    TokenPattern { alone: true, ..token("hvb.", SecretKind::VaultToken, 20) },
    TokenPattern { alone: true, ..token("hvr.", SecretKind::VaultToken, 20) },
    TokenPattern { class: path, ..token("hooks.slack.com/services/", SecretKind::SlackToken, 16) },
];

pub(crate) fn dashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

pub(crate) fn dotted(byte: u8) -> bool {
    dashed(byte) || byte == b'.'
}

fn path(byte: u8) -> bool {
    dashed(byte) || byte == b'/'
}

fn capital(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn base64(byte: u8) -> bool {
    dashed(byte) || matches!(byte, b'+' | b'/' | b'=')
}

/// Whether a byte can occur in the body of a PEM block, including newlines written as `
/// `.
fn pem(byte: u8) -> bool {
    base64(byte) || byte.is_ascii_whitespace() || byte == b'\\'
}

impl TokenPattern {
    pub(crate) fn at(&self, window: &StreamWindow<'_>) -> Result<Option<Hit>, Undecided> {
        let begins = self.begins.as_bytes();
        if !window.has_text(0, begins)? || self.alone && !is_at_word_boundary(window.behind()) {
            return Ok(None);
        }
        let long = window.run(begins.len(), self.least, self.class)? == self.least;
        Ok(long.then(|| Hit::new(self.kind, 0, begins.len(), SecretRest::While(self.class))))
    }

    /// The token's prefix in base64, shifted by this many bytes; `None` if it is too short to be distinctive.
    pub(crate) fn in_base64(&self, shift: usize) -> Option<String> {
        let anchor = encoded(self.begins, shift);
        (anchor.len() >= 4).then_some(anchor)
    }

    /// A match of the token within base64.
    pub(crate) fn at_in_base64(
        &self,
        shift: usize,
        window: &StreamWindow<'_>,
    ) -> Result<Option<Hit>, Undecided> {
        let Some(bytes) = decoded(window, shift, encoded(self.begins, shift).as_bytes())? else {
            return Ok(None);
        };
        // The first decoded letter is incomplete, because some of its bits precede the anchor.
        let token = bytes.get(shift + 1..).unwrap_or_default();
        let Some(rest) = token.strip_prefix(&self.begins.as_bytes()[1..]) else { return Ok(None) };
        let long = rest.len() >= self.least && rest[..self.least].iter().all(|byte| (self.class)(*byte));
        Ok(long.then(|| Hit::new(self.kind, 0, 1, SecretRest::While(base64))))
    }
}

/// First line of a private key.
pub(crate) const PEM: &str = "-----BEGIN ";

/// A block with a private key, up to its end if the lookahead includes the end.
pub(crate) fn private_key(window: &StreamWindow<'_>) -> Result<Option<Hit>, Undecided> {
    let label = window.run(PEM.len(), 40, |byte| byte.is_ascii_uppercase() || byte == b' ')?;
    let named = memchr::memmem::find(&window.rest(PEM.len())[..label], b"PRIVATE KEY").is_some();
    if !named || !window.has_text(0, PEM.as_bytes())? || !window.has_text(PEM.len() + label, b"-----")? {
        return Ok(None);
    }
    let body = PEM.len() + label + 5;
    let length = match memchr::memmem::find(window.rest(body), b"-----END ") {
        Some(end) => {
            let end = body + end + 9;
            let label = window.run(end, 40, |byte| byte.is_ascii_uppercase() || byte == b' ')?;
            end + label + window.run(end + label, 5, |byte| byte == b'-')?
        }
        None if window.whole() => {
            return Ok(Some(Hit::new(SecretKind::PrivateKey, 0, body, SecretRest::While(pem))));
        }
        None => return Err(Undecided),
    };
    Ok(Some(Hit::new(SecretKind::PrivateKey, 0, length, SecretRest::Nothing)))
}

/// First characters of private keys in base64, for keys without their first line: SEC1 on P-256, PKCS #8 on
/// P-256 and with Ed25519, OpenSSH's own format, and RSA keys, whose length is encoded in the dots of
/// `MII...IBADAN` (PKCS #8) or `MII...IBAAKC` (PKCS #1).
pub(crate) const KEY_BODIES: [&str; 5] =
    ["MHcCAQEE", "MIGHAgEAMBM", "MC4CAQAwBQYDK2Vw", "b3BlbnNzaC1rZXktdjEA", "MII"];

/// The body of a private key without its first line.
pub(crate) fn key_body(window: &StreamWindow<'_>, begins: &str) -> Result<Option<Hit>, Undecided> {
    if !window.has_text(0, begins.as_bytes())? || !is_at_word_boundary(window.behind()) {
        return Ok(None);
    }
    // Certificates also begin with `MII`, and are public.
    if begins == "MII" && !window.has_text(6, b"IBADAN")? && !window.has_text(6, b"IBAAKC")? {
        return Ok(None);
    }
    let long = window.run(0, 40, base64)? == 40;
    Ok(long.then(|| Hit::new(SecretKind::PrivateKey, 0, begins.len(), SecretRest::While(pem))))
}

/// Beginning of a PEM block in base64, shifted by this many bytes.
pub(crate) fn pem_in_base64(shift: usize) -> String {
    encoded(PEM, shift)
}

/// A private key's block within base64.
pub(crate) fn private_key_in_base64(
    shift: usize,
    window: &StreamWindow<'_>,
) -> Result<Option<Hit>, Undecided> {
    let bytes = decoded(window, shift, pem_in_base64(shift).as_bytes())?;
    let named = bytes.is_some_and(|bytes| memchr::memmem::find(&bytes, b"PRIVATE KEY-----").is_some());
    Ok(named.then(|| Hit::new(SecretKind::PrivateKey, 0, 1, SecretRest::While(pem))))
}

/// A JSON Web Token: three parts separated by dots, the first of which is a JSON object.
pub(crate) fn jwt(window: &StreamWindow<'_>) -> Result<Option<Hit>, Undecided> {
    if !window.has_text(0, b"eyJ")? {
        return Ok(None);
    }
    let mut at = 0;
    for _ in 0..2 {
        let part = window.run(at, AHEAD, dashed)?;
        if part < 8 || window.byte(at + part)? != Some(b'.') {
            return Ok(None);
        }
        at += part + 1;
    }
    Ok(Some(Hit::new(SecretKind::Jwt, 0, at, SecretRest::While(dotted))))
}

/// Whether the text starts at a word boundary. The last byte of an escape sequence is not a word character.
fn is_at_word_boundary(behind: &[u8]) -> bool {
    match behind {
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [.., byte] => !byte.is_ascii_alphanumeric(),
        [] => true,
    }
}

/// The base64 characters that depend only on these bytes.
fn encoded(text: &str, shift: usize) -> String {
    let engine = GeneralPurpose::new(&STANDARD, NO_PAD);
    let encoded = engine.encode([&[0; 2][..shift], text.as_bytes()].concat());
    let shared = usize::from(!(shift + text.len()).is_multiple_of(3));
    encoded[[0, 2, 3][shift]..encoded.len() - shared].to_owned()
}

/// Decodes the base64 at this position, as if the shifted bytes before it were zero; `None` unless it begins
/// with `anchor`.
fn decoded(window: &StreamWindow<'_>, shift: usize, anchor: &[u8]) -> Result<Option<Vec<u8>>, Undecided> {
    if !window.has_text(0, anchor)? {
        return Ok(None);
    }
    let length = window.run(0, 128, |byte| byte != b'=' && base64(byte))?;
    let mut text = vec![b'A'; [0, 2, 3][shift]];
    text.extend_from_slice(&window.rest(0)[..length]);
    for byte in &mut text {
        *byte = match *byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => byte,
        };
    }
    let lenient: GeneralPurposeConfig =
        PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true);
    // A single remaining character is not a byte.
    let whole = text.len() - usize::from(text.len() % 4 == 1);
    Ok(GeneralPurpose::new(&STANDARD, lenient).decode(&text[..whole]).ok())
}
