use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration in Google's JSON format: seconds with at most nine decimals and an `s`, such as `300s` or
/// `1.5s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(std::time::Duration);

impl Duration {
    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(std::time::Duration::from_secs(seconds))
    }

    /// The duration as a type of the standard library.
    pub const fn get(self) -> std::time::Duration {
        self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_suffix('s')?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !plain(whole) || !plain(fraction) || fraction.len() > 9 {
            return None;
        }
        let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
        Some(Self(std::time::Duration::new(whole.parse().ok()?, nanos)))
    }
}

impl std::fmt::Display for Duration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.subsec_nanos() {
            0 => write!(f, "{}s", self.0.as_secs()),
            nanos => write!(f, "{}.{}s", self.0.as_secs(), format!("{nanos:09}").trim_end_matches('0')),
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "expected a duration in seconds such as \"300s\" or \"1.5s\", found {text:?}"
            ))
        })
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^[0-9]+(\.[0-9]{1,9})?s$",
            "description": "Duration in seconds with the suffix `s`, such as `300s` or `1.5s`."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_seconds_with_an_s() {
        for (text, millis) in
            [("0s", 0), ("300s", 300_000), ("1.5s", 1_500), ("0.001s", 1), ("86400s", 86_400_000)]
        {
            let duration = Duration::parse(text).unwrap();
            assert_eq!(duration.get().as_millis(), millis, "{text}");
            assert_eq!(duration.to_string(), text);
        }
        for wrong in [
            "",
            "s",
            "300",
            "1h",
            "-1s",
            "1.s",
            ".5s",
            "1e3s",
            "+1s",
            "1.0000000001s",
            " 1s",
            "99999999999999999999s",
        ] {
            assert_eq!(Duration::parse(wrong), None, "{wrong:?}");
        }
    }
}
