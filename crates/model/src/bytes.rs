//! Message and memory sizes in human-readable form.

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// A size in bytes, written as a number or in nccl-tests' notation: `8`, `64K`, `1G`, in powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.char_indices().last() {
            Some((at, 'K' | 'k')) => (&text[..at], 1u64 << 10),
            Some((at, 'M' | 'm')) => (&text[..at], 1 << 20),
            Some((at, 'G' | 'g')) => (&text[..at], 1 << 30),
            _ => (text, 1),
        };
        let number: u64 =
            digits.parse().map_err(|_| format!("`{text}` is not a size such as 8, 64K or 1G"))?;
        number.checked_mul(unit).map(Self).ok_or_else(|| format!("`{text}` exceeds 2^64 - 1 bytes"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1u64 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
        match units.into_iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => self.0.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        match (value.as_u64(), value.as_str()) {
            (Some(number), _) => Ok(Self(number)),
            (None, Some(text)) => text.parse().map_err(de::Error::custom),
            (None, None) => Err(de::Error::custom("expected a number of bytes, or a text such as 64K")),
        }
    }
}

impl ByteSize {
    /// Deserializes a size into a plain number of bytes.
    ///
    /// # Errors
    /// Returns an error if the size is invalid.
    pub fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        Self::deserialize(deserializer).map(|size| size.0)
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ByteSize".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "bytes: a number, or a text such as 64K, 16M or 1G in powers of 1024",
            "type": ["integer", "string"],
            "minimum": 0,
            "pattern": "^[0-9]+[KkMmGg]?$",
        })
    }
}
