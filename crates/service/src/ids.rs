//! Unique names: the only access to randomness.

/// A globally unique name.
#[must_use]
pub fn unique() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A secret of 244 random bits from the operating system, as 64 hex digits.
#[must_use]
pub fn secret() -> String {
    [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(|part| part.simple().to_string()).concat()
}
