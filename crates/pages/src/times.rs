//! Times on pages: UTC in the page; the script adds the reader's time zone.

use model::{Span, Timestamp};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct DisplayTime {
    /// Time as RFC 3339, for `<time datetime>`.
    iso: String,
    /// Time in UTC with minute precision.
    utc: String,
    /// Age as text, such as `3 h ago`.
    age: String,
}

impl DisplayTime {
    /// `at` with its age at `now`.
    pub fn of(at: Timestamp, now: Timestamp) -> Self {
        Self { iso: at.to_string(), utc: minute(at), age: ago(now, at) }
    }
}

/// Date in UTC, such as `2026-11-20`.
pub fn date(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

fn minute(at: Timestamp) -> String {
    at.to_string().chars().take(16).collect::<String>().replace('T', " ")
}

fn ago(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.since(at).0.as_secs();
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "min"),
        3600..86_400 => (seconds / 3600, "h"),
        _ => (seconds / 86_400, "d"),
    };
    format!("{count} {unit} ago")
}

/// Elapsed time in whole seconds, in the form in which the script continues it: `5s`, `3m 05s`, `1h 02m 05s`.
pub fn clock(span: Span) -> String {
    let seconds = span.0.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m {:02}s", seconds / 3600, seconds % 3600 / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_whole_seconds() {
        let shown = [0, 59, 60, 185, 3725].map(|seconds| clock(Span::from_secs(seconds)));
        assert_eq!(shown, ["0s", "59s", "1m 00s", "3m 05s", "1h 02m 05s"]);
    }
}
