//! Points in time and durations, as written in the ledger.

use std::{fmt, str::FromStr, time::Duration};

use chrono::{DateTime, SecondsFormat, Utc};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time, UTC, to the millisecond. Written as RFC 3339: `2026-11-20T02:00:00.118Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A point in time from its milliseconds since 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Span {
        Span(Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs()))
    }
}

impl std::ops::Add<Span> for Timestamp {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.0.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time.timestamp_millis())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::<Utc>::from_timestamp_millis(self.0) {
            Some(time) => f.write_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true)),
            // Reached only for times outside the calendar's range; the number is still useful to a reader.
            None => write!(f, "{} ms since 1970", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = chrono::ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(DateTime::parse_from_rfc3339(text)?.with_timezone(&Utc).into())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// A duration in human-readable form: `90s`, `10m`, `1h 30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

impl Span {
    /// A duration of this number of seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The duration in whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // humantime would print microseconds and nanoseconds, which are irrelevant here.
        let whole = Duration::from_millis(u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX));
        humantime::format_duration(whole).fmt(f)
    }
}

impl FromStr for Span {
    type Err = humantime::DurationError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_duration(text).map(Self)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "a duration such as 90s, 10m or 1h 30m",
            "pattern": r"^\s*(\d+\s*(ms|s|sec|secs|m|min|mins|h|hr|hrs|hour|hours|d|day|days)\s*)+$",
        })
    }
}
