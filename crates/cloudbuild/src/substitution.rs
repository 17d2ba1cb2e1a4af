//! Syntax of substitutions: `$NAME`, `${NAME}` and `$$` for a dollar sign.
//!
//! A name consists of upper-case letters, underscores and digits, and does not begin with a digit. Any other text after
//! a dollar sign is literal, so `$(id)`, `$1` and `$home` are unchanged.

use std::collections::BTreeMap;

/// Built-in names of Cloud Build. A name without a value is replaced by an empty text, never an error.
pub const BUILT_INS: [&str; 16] = [
    "BRANCH_NAME",
    "BUILD_ID",
    "COMMIT_SHA",
    "LOCATION",
    "PROJECT_ID",
    "PROJECT_NUMBER",
    "REF_NAME",
    "REPO_FULL_NAME",
    "REPO_NAME",
    "REVISION_ID",
    "SERVICE_ACCOUNT",
    "SERVICE_ACCOUNT_EMAIL",
    "SHORT_SHA",
    "TAG_NAME",
    "TRIGGER_BUILD_CONFIG_PATH",
    "TRIGGER_NAME",
];

pub fn is_built_in(name: &str) -> bool {
    BUILT_INS.binary_search(&name).is_ok()
}

/// Whether a user may define this name: an underscore, then capitals, digits and underscores.
pub fn is_user_name(name: &str) -> bool {
    name.len() > 1 && name.starts_with('_') && name_length(name) == name.len()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Literal text.
    Text(&'a str),
    /// `$NAME` or `${NAME}`.
    Reference(&'a str),
    /// `${NAME` followed by another character than `}`: a shell's parameter expansion, up to its closing
    /// brace.
    Expansion(&'a str),
}

/// Splits a template into its parts.
pub fn pieces(template: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let (piece, length) = dollar(&rest[at..]);
        pieces.push(piece);
        rest = &rest[at + length..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// Replaces every reference; a name without a value is replaced by an empty text.
///
/// Values are not expanded again: a dollar sign in a value is literal.
pub fn expand(template: &str, values: &BTreeMap<String, String>) -> String {
    pieces(template)
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) | Piece::Expansion(text) => text,
            Piece::Reference(name) => values.get(name).map_or("", String::as_str),
        })
        .collect()
}

/// The part that begins at a dollar sign, and its length in bytes.
fn dollar(text: &str) -> (Piece<'_>, usize) {
    let after = &text[1..];
    if after.starts_with('$') {
        return (Piece::Text("$"), 2);
    }
    if let Some(braced) = after.strip_prefix('{') {
        let length = name_length(braced);
        let name = &braced[..length];
        if length > 0 && braced[length..].starts_with('}') {
            return (Piece::Reference(name), length + 3);
        }
        if is_user_name(name) || is_built_in(name) {
            let end = braced.find('}').map_or(text.len(), |at| at + 3);
            return (Piece::Expansion(&text[..end]), end);
        }
        return (Piece::Text("$"), 1);
    }
    match name_length(after) {
        0 => (Piece::Text("$"), 1),
        length => (Piece::Reference(&after[..length]), length + 1),
    }
}

fn name_length(text: &str) -> usize {
    let legal = |(at, byte): (usize, u8)| {
        byte.is_ascii_uppercase() || byte == b'_' || (at > 0 && byte.is_ascii_digit())
    };
    text.bytes().enumerate().take_while(|&each| legal(each)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> BTreeMap<String, String> {
        [("_A", "alpha"), ("_A_B", "both"), ("_EMPTY", ""), ("_TRICKY", "$_A $$ ${_A}"), ("BUILD_ID", "b1")]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn templates_expand_as_in_the_cloud() {
        let table = [
            ("", ""),
            ("plain", "plain"),
            ("$_A", "alpha"),
            ("${_A}", "alpha"),
            ("x$_A/y", "xalpha/y"),
            ("${_A}B", "alphaB"),
            ("$_A_B", "both"),
            ("$_A-b", "alpha-b"),
            ("$_Ab", "alphab"),
            ("$_EMPTY", ""),
            ("$_MISSING|", "|"),
            ("$BUILD_ID:${BUILD_ID}", "b1:b1"),
            ("$$_A", "$_A"),
            ("$${_A}", "${_A}"),
            ("$$$_A", "$alpha"),
            ("$$$$", "$$"),
            ("$", "$"),
            ("a$", "a$"),
            ("$1 $@ $? $home $(id) `id` ${lower} ${} ${1}", "$1 $@ $? $home $(id) `id` ${lower} ${} ${1}"),
            ("$_TRICKY", "$_A $$ ${_A}"),
            ("é$_Aé", "éalphaé"),
            ("${_A", "${_A"),
            ("${HOME:-x}", "${HOME:-x}"),
        ];
        for (template, expected) in table {
            assert_eq!(expand(template, &values()), expected, "{template:?}");
        }
    }

    #[test]
    fn a_shell_expansion_is_distinguished_from_a_substitution() {
        assert_eq!(pieces("a${_X:-d}b"), [Piece::Text("a"), Piece::Expansion("${_X:-d}"), Piece::Text("b")]);
        assert_eq!(pieces("${TAG_NAME##v"), [Piece::Expansion("${TAG_NAME##v")]);
    }

    #[test]
    fn built_ins_are_sorted_for_binary_search() {
        assert!(BUILT_INS.is_sorted());
        assert!(is_built_in("TRIGGER_NAME") && !is_built_in("HOME"));
    }

    #[test]
    fn user_names_begin_with_an_underscore() {
        for (name, legal) in
            [("_A", true), ("_1", true), ("_", false), ("A", false), ("_a", false), ("_A-B", false)]
        {
            assert_eq!(is_user_name(name), legal, "{name}");
        }
    }
}
