//! The one door to chance: names that nobody else makes.

/// A name that was never given before and never will be again.
#[must_use]
pub fn unique() -> String {
    uuid::Uuid::new_v4().to_string()
}
