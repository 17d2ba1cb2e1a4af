//! Exact amounts of money.

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Span;

/// An amount in millionths of any currency. Written as a decimal number: `98.32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(u64);

const MILLION: u64 = 1_000_000;

impl Money {
    /// An amount from its number of millionths.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The number of millionths of the amount.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Cost of `count` units over `span` at this price per hour, rounded up.
    #[must_use]
    pub fn for_hours_of(self, count: u32, span: Span) -> Self {
        let exact = u128::from(self.0) * u128::from(count) * span.0.as_millis();
        Self(u64::try_from(exact.div_ceil(3_600_000)).unwrap_or(u64::MAX))
    }

    /// Time for which this amount pays `count` units at `price` per hour; `None` if the units are free.
    #[must_use]
    pub fn pays_for(self, count: u32, price: Self) -> Option<Span> {
        let hourly = u128::from(price.0) * u128::from(count);
        let millis = (u128::from(self.0) * 3_600_000).checked_div(hourly)?;
        Some(Span::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
    }
}

impl std::ops::Add for Money {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::Sub for Money {
    type Output = Self;
    /// Saturates at zero.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), std::ops::Add::add)
    }
}

impl fmt::Display for Money {
    /// Prints at least two decimals, more if the amount needs them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.0 % MILLION);
        let kept = decimals.trim_end_matches('0').len().max(2);
        f.pad(&format!("{}.{}", self.0 / MILLION, &decimals[..kept]))
    }
}

impl FromStr for Money {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not an amount such as 98.32, with at most 6 decimals");
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || decimals.len() > 6 || !digits(whole) || !digits(decimals) {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let part: u64 = format!("{decimals:0<6}").parse().map_err(|_| wrong())?;
        whole.checked_mul(MILLION).and_then(|micros| micros.checked_add(part)).map(Self).ok_or_else(wrong)
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Number(number) => number.to_string().parse().map_err(de::Error::custom),
            serde_json::Value::String(text) => text.parse().map_err(de::Error::custom),
            _ => Err(de::Error::custom("expected an amount such as 98.32")),
        }
    }
}

impl JsonSchema for Money {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Money".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "an amount of money, with at most six decimals",
            "type": ["number", "string"],
            "minimum": 0,
            "pattern": "^[0-9]+([.][0-9]{1,6})?$",
        })
    }
}
