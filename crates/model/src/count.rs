//! Counts with a singular or plural noun, for messages.

/// `1 node`, `2 nodes`: for nouns with a plural in `s`.
#[must_use]
pub fn count(number: impl Into<u64>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        many => format!("{many} {noun}s"),
    }
}
