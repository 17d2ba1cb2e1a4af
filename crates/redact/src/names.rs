//! Values with secret names: assignments, headers, passwords in URLs.

use crate::{
    SecretKind,
    scan::{Hit, SecretRest, word},
    window::{StreamWindow, Undecided},
};

/// Suffixes of names with secret values, case-insensitive.
pub(crate) const NAMES: [&str; 17] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "_pass",
    "_pwd",
    "_pat",
    "_key",
    "-key",
    "apikey",
    "accesskey",
    "accountkey",
    "sharedkey",
    "_jwt",
    "\"auth",
    "credential",
];
/// Headers that are secret up to the end of the line.
pub(crate) const HEADERS: [&str; 2] = ["authorization", "cookie"];
/// Maximum spaces between the parts of an assignment.
const SPACES: usize = 16;
/// Maximum length of a user or password.
const USER: usize = 1 << 10;

/// Whether a variable or setting with this name contains a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let ends = [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "_pass",
        "_pwd",
        "_pat",
        "_key",
        "-key",
        "apikey",
    ];
    ends.iter().any(|end| name.ends_with(end))
}

fn blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn line(byte: u8) -> bool {
    !matches!(byte, b'\n' | b'\r')
}

/// A quotation mark, possibly escaped by backslashes: its length and kind.
fn quote(window: &StreamWindow<'_>, at: usize) -> Result<Option<(usize, u8)>, Undecided> {
    let slashes = window.run(at, 8, |byte| byte == b'\\')?;
    let mark = window.byte(at + slashes)?.filter(|byte| matches!(byte, b'"' | b'\''));
    Ok(mark.map(|mark| (slashes + 1, mark)))
}

/// The value assigned to a name whose last `length` bytes are at this position.
pub(crate) fn assignment(window: &StreamWindow<'_>, length: usize) -> Result<Option<Hit>, Undecided> {
    let quoted = quote(window, length)?;
    let mut at = length + quoted.map_or(0, |(bytes, _)| bytes);
    let flag = is_flag(window.behind());
    let spaces = window.run(at, SPACES, blank)?;
    let separator = window.byte(at + spaces)?;
    match separator {
        // The name is followed by `>`: an XML element such as `<SecretAccessKey>value</SecretAccessKey>`.
        Some(b'>') if spaces == 0 && is_element(window.behind()) => {
            let value = window.run(at + 1, 4, |byte| byte != b'<' && word(byte))?;
            let hit = Hit::new(
                SecretKind::Assignment,
                at + 1,
                0,
                SecretRest::While(|byte| byte != b'<' && word(byte)),
            );
            return Ok((value == 4).then_some(hit));
        }
        // `::` separates the parts of a path.
        Some(b':') if window.byte(at + spaces + 1)? == Some(b':') => return Ok(None),
        Some(b'=' | b':') => at += spaces + 1,
        Some(b',') if flag && quoted.is_some() => at += spaces + 1,
        Some(byte) if flag && spaces > 0 && byte != b'-' => {}
        _ => return Ok(None),
    }
    at += window.run(at, SPACES, blank)?;
    // A private key is redacted up to its own end line; `***` and the redacted password of a command contain no secret.
    for begins in [&b"-----BEGIN "[..], b"***", b"[redacted:command"] {
        if window.has_text(at, begins)? {
            return Ok(None);
        }
    }
    let Some((bytes, mark)) = quote(window, at)? else {
        if quoted.is_some() || trivial(window, at)? {
            return Ok(None); // a JSON number, list or object, or a harmless setting
        }
        let whole_line = at == length + 1 && begins_line(window.behind());
        return Ok(Some(Hit::new(
            SecretKind::Assignment,
            at,
            0,
            if whole_line { SecretRest::While(line) } else { SecretRest::Word },
        )));
    };
    let value = at + bytes;
    if trivial(window, value)? {
        return Ok(None);
    }
    Ok(Some(Hit::new(SecretKind::Assignment, value, 0, SecretRest::Quoted { mark, open: bytes - 1, run: 0 })))
}

/// Whether the value is empty, a switch or a short number: such values are settings, not secrets.
fn trivial(window: &StreamWindow<'_>, at: usize) -> Result<bool, Undecided> {
    let length =
        window.run(at, 8, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+'))?;
    let value = &window.rest(at)[..length];
    let ends = window
        .byte(at + length)?
        .is_none_or(|byte| !word(byte) || matches!(byte, b',' | b';' | b')' | b'\\'));
    let literals = ["", "true", "false", "null", "none", "yes", "no", "on", "off"];
    let is_literal = literals.iter().any(|literal| value.eq_ignore_ascii_case(literal.as_bytes()));
    Ok(ends && length < 8 && (is_literal || value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')))
}

fn part_of_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether the text before a name ends with `--`, as in `--name`.
fn is_flag(behind: &[u8]) -> bool {
    let name = behind.iter().rposition(|byte| !part_of_name(byte)).map_or(behind, |at| &behind[at + 1..]);
    name.starts_with(b"--")
}

/// Whether the text before a name ends with `<`, as in `<name`.
fn is_element(behind: &[u8]) -> bool {
    behind.iter().rfind(|byte| !part_of_name(byte)) == Some(&b'<')
}

/// Commands with passwords as arguments, and their flags. A flag that ends with a letter may be followed
/// directly by its value, as in `mysql -pPASS`.
pub(crate) const COMMANDS: [(&str, &[&str]); 9] = [
    (" login ", &["-p", "--password"]),
    ("sshpass ", &["-p"]),
    ("mysql ", &["-p", "--password"]),
    ("mysqldump ", &["-p", "--password"]),
    ("redis-cli ", &["-a", "--pass"]),
    ("ldapsearch ", &["-w"]),
    // A line of .netrc: `machine host login user password PASS`.
    ("machine ", &["password"]),
    ("curl ", &["-u", "--user", "-U", "--proxy-user"]),
    ("wget ", &["--password", "--http-password"]),
];
/// Maximum length of a command line that is searched.
const COMMAND: usize = 1 << 10;

/// A password among the arguments of the command at this position.
pub(crate) fn command(window: &StreamWindow<'_>, command: usize) -> Result<Option<Hit>, Undecided> {
    let (name, flags) = COMMANDS[command];
    let length = window.run(name.len(), COMMAND, line)?;
    let text = &window.rest(name.len())[..length];
    for flag in flags {
        // A flag is recognized only at the beginning of an argument.
        let found = memchr::memmem::find_iter(text, flag.as_bytes());
        let begins = found.into_iter().find(|at| *at == 0 || matches!(text[at - 1], b' ' | b'\t'));
        let Some(at) = begins else { continue };
        let rest = &text[at + flag.len()..];
        let gap = rest.iter().take_while(|byte| matches!(byte, b' ' | b'=' | b'"' | b'\'')).count();
        if gap == 0 && flag.starts_with("--") {
            continue; // another flag: --password-stdin
        }
        let value: &[u8] = rest[gap..].split(|byte| !word(*byte)).next().unwrap_or_default();
        if value.is_empty()
            || value.starts_with(b"-")
            || value.starts_with(b"$")
            || value.starts_with(b"[redacted")
        {
            continue;
        }
        // Redact only the password in `user:password`.
        let user = match memchr::memchr(b':', value) {
            Some(colon) if name == "curl " => colon + 1,
            None if name == "curl " => continue,
            _ => 0,
        };
        let keep = name.len() + at + flag.len() + gap + user;
        return Ok(
            (value.len() > user).then(|| Hit::new(SecretKind::CommandPassword, keep, 0, SecretRest::Word))
        );
    }
    Ok(None)
}

/// A variable printed by `env`: the name begins the line, so the value ends with it.
fn begins_line(behind: &[u8]) -> bool {
    match behind.iter().rposition(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_') {
        Some(at) => behind[at] == b'\n',
        None => behind.len() < crate::window::BACK,
    }
}

/// A header, up to the end of its line or quotation.
pub(crate) fn header(window: &StreamWindow<'_>, length: usize) -> Result<Option<Hit>, Undecided> {
    let mut at = length + quote(window, length)?.map_or(0, |(bytes, _)| bytes);
    if !matches!(window.byte(at)?, Some(b':' | b'=')) {
        return Ok(None);
    }
    at += 1;
    at += window.run(at, SPACES, blank)?;
    at += quote(window, at)?.map_or(0, |(bytes, _)| bytes);
    let some = window.run(at, 1, in_header)? > 0;
    Ok(some.then(|| Hit::new(SecretKind::Header, at, 0, SecretRest::While(in_header))))
}

fn in_header(byte: u8) -> bool {
    line(byte) && !matches!(byte, b'"' | b'\'' | b'\\')
}

/// Beginning of a bearer token, case-insensitive.
pub(crate) const BEARER: &str = "bearer ";

pub(crate) fn bearer(window: &StreamWindow<'_>) -> Result<Option<Hit>, Undecided> {
    let class = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte);
    // Words in prose are shorter, or have no digit.
    let length = window.run(BEARER.len(), 64, class)?;
    let text = &window.rest(BEARER.len())[..length];
    let token = length >= 16 && (length == 64 || text.iter().any(u8::is_ascii_digit));
    Ok(token.then(|| Hit::new(SecretKind::BearerToken, BEARER.len(), 0, SecretRest::While(class))))
}

/// The password in `scheme://user:password@host`, or a user with the length of a token.
pub(crate) fn url(window: &StreamWindow<'_>) -> Result<Option<Hit>, Undecided> {
    let class = |byte: u8| word(byte) && !matches!(byte, b'/' | b'@' | b'<' | b'>' | b'?' | b'#' | b'\\');
    let length = window.run(3, USER, class)?;
    if length == USER || window.byte(3 + length)? != Some(b'@') {
        return Ok(None);
    }
    let user = &window.rest(3)[..length];
    if user.starts_with(b"[") {
        return Ok(None); // already redacted
    }
    let (keep, secret) = match memchr::memchr(b':', user) {
        Some(at) => (at + 1, length - at - 1),
        None => (0, length),
    };
    let secret = if keep == 0 && secret < 20 { 0 } else { secret };
    Ok((secret > 0).then(|| Hit::new(SecretKind::UrlPassword, 3 + keep, secret, SecretRest::Nothing)))
}
