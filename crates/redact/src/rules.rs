//! All patterns of secrets, as one automaton.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock},
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, MatchKind};

use crate::{
    SecretKind, environment,
    forms::EncodedForm,
    names::{self, BEARER, HEADERS, NAMES},
    scan::{Hit, ScanMatch, SecretRest},
    tokens::{self, PEM, TOKENS},
    window::{StreamWindow, Undecided},
};

/// Maximum number of patterns (about forty known values) for a transition table.
const TABLE: usize = 4000;

/// Rule to apply at a match.
#[derive(Clone, Copy, Debug)]
enum RedactionRule {
    Known(usize),
    PrivateKey,
    Jwt,
    Token(usize),
    Base64(usize, usize),
    PrivateKeyInBase64(usize),
    Environment,
    Header(usize),
    Assignment(usize),
    Bearer,
    Url,
    KeyBody(&'static str),
    Command(usize),
}

/// All rules. Created once, shared by any number of streams.
pub struct Rules {
    automaton: AhoCorasick,
    /// For each pattern, the rules of its text and of all prefixes of that text. Known values come first.
    by_pattern: Vec<Vec<RedactionRule>>,
    known: Vec<EncodedForm>,
    /// All searched texts, in lower case, sorted.
    texts: Vec<Vec<u8>>,
    longest: usize,
}

impl fmt::Debug for Rules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Known values are secrets: show only their number.
        formatter.debug_struct("Rules").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

impl Rules {
    /// The patterns of common tokens, and these values in every encoding. Values shorter than 8 bytes, and
    /// numbers shorter than 16, cannot be distinguished from results and are ignored.
    ///
    /// # Errors
    /// Returns an error if the values exceed the capacity of the automaton: hundreds of megabytes.
    pub fn new<V: AsRef<[u8]>>(known: impl IntoIterator<Item = V>) -> Result<Self, BuildError> {
        let mut forms: Vec<EncodedForm> =
            known.into_iter().flat_map(|value| EncodedForm::of(value.as_ref())).collect();
        forms.sort();
        forms.dedup();
        // If one value is a prefix of another, the longer is tried first.
        forms.reverse();
        let mut rules: BTreeMap<Vec<u8>, Vec<RedactionRule>> = BTreeMap::new();
        let mut add = |text: &[u8], rule| rules.entry(text.to_ascii_lowercase()).or_default().push(rule);
        for (number, form) in forms.iter().enumerate() {
            form.anchors().iter().for_each(|anchor| add(anchor, RedactionRule::Known(number)));
        }
        add(PEM.as_bytes(), RedactionRule::PrivateKey);
        add(b"eyJ", RedactionRule::Jwt);
        for (number, token) in TOKENS.iter().enumerate() {
            add(token.begins.as_bytes(), RedactionRule::Token(number));
        }
        for shift in 0..3 {
            add(tokens::pem_in_base64(shift).as_bytes(), RedactionRule::PrivateKeyInBase64(shift));
            for (number, token) in TOKENS.iter().enumerate() {
                if let Some(text) = token.in_base64(shift) {
                    add(text.as_bytes(), RedactionRule::Base64(number, shift));
                }
            }
        }
        add(environment::BEGINS.as_bytes(), RedactionRule::Environment);
        HEADERS.iter().for_each(|name| add(name.as_bytes(), RedactionRule::Header(name.len())));
        NAMES.iter().for_each(|name| add(name.as_bytes(), RedactionRule::Assignment(name.len())));
        add(BEARER.as_bytes(), RedactionRule::Bearer);
        add(b"://", RedactionRule::Url);
        tokens::KEY_BODIES.iter().for_each(|begins| add(begins.as_bytes(), RedactionRule::KeyBody(begins)));
        names::COMMANDS
            .iter()
            .enumerate()
            .for_each(|(at, (name, _))| add(name.as_bytes(), RedactionRule::Command(at)));

        // A transition table is the fastest automaton, but its memory grows with the number of values.
        let kind = (rules.len() < TABLE).then_some(AhoCorasickKind::DFA);
        let automaton = AhoCorasick::builder()
            .kind(kind)
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .build(rules.keys())?;
        let beginnings = |text: &Vec<u8>| {
            (1..=text.len())
                .rev()
                .filter_map(|length| rules.get(&text[..length]))
                .flatten()
                .copied()
                .collect()
        };
        Ok(Self {
            automaton,
            by_pattern: rules.keys().map(beginnings).collect(),
            known: forms,
            longest: rules.keys().map(Vec::len).max().unwrap_or(1),
            texts: rules.into_keys().collect(),
        })
    }

    /// Rules with the patterns and without known values.
    pub fn of_patterns() -> Arc<Self> {
        /// The patterns are constants: an invalid set would fail every test.
        static PATTERNS: LazyLock<Arc<Rules>> =
            LazyLock::new(|| Arc::new(Rules::new([""; 0]).expect("the patterns fit an automaton")));
        Arc::clone(&PATTERNS)
    }

    /// Position, at least `from`, from which the end of `bytes` may be the beginning of a searched text; the length of
    /// `bytes` if no such position exists.
    pub(crate) fn unfinished(&self, bytes: &[u8], from: usize) -> usize {
        let first = (bytes.len() + 1).saturating_sub(self.longest).max(from);
        let begins = |at: &usize| {
            let end = bytes[*at..].to_ascii_lowercase();
            let next = self.texts.partition_point(|text| *text <= end);
            self.texts.get(next).is_some_and(|text| text.starts_with(&end))
        };
        (first..bytes.len()).find(begins).unwrap_or(bytes.len())
    }

    /// The next possible match from a position on, and its pattern.
    pub(crate) fn find(&self, bytes: &[u8], from: usize) -> Option<(usize, usize)> {
        let input = aho_corasick::Input::new(bytes).range(from..);
        self.automaton.find(input).map(|found| (found.start(), found.pattern().as_usize()))
    }

    /// Confirms a possible match.
    pub(crate) fn decide(
        &self,
        pattern: usize,
        window: &StreamWindow<'_>,
    ) -> Result<Option<ScanMatch>, Undecided> {
        for rule in &self.by_pattern[pattern] {
            let hit = match *rule {
                RedactionRule::Known(form) => self.known[form]
                    .at(window)?
                    .map(|length| Hit::new(SecretKind::KnownValue, 0, length, SecretRest::Nothing)),
                RedactionRule::PrivateKey => tokens::private_key(window)?,
                RedactionRule::Jwt => tokens::jwt(window)?,
                RedactionRule::Token(token) => TOKENS[token].at(window)?,
                RedactionRule::Base64(token, shift) => TOKENS[token].at_in_base64(shift, window)?,
                RedactionRule::PrivateKeyInBase64(shift) => tokens::private_key_in_base64(shift, window)?,
                RedactionRule::Environment => match environment::begins(window)? {
                    Some(length) => return Ok(Some(ScanMatch::Environment(length))),
                    None => None,
                },
                RedactionRule::Header(length) => names::header(window, length)?,
                RedactionRule::Assignment(length) => names::assignment(window, length)?,
                RedactionRule::Bearer => names::bearer(window)?,
                RedactionRule::Url => names::url(window)?,
                RedactionRule::KeyBody(begins) => tokens::key_body(window, begins)?,
                RedactionRule::Command(command) => names::command(window, command)?,
            };
            if let Some(mut hit) = hit {
                // A known value may be longer than the match of the rule: remove all of it.
                for form in &self.known {
                    if let Some(length) = form.at(&window.on(hit.keep))? {
                        hit.skip = hit.skip.max(length);
                    }
                }
                return Ok(Some(ScanMatch::Hit(hit)));
            }
        }
        Ok(None)
    }
}
