//! Moments that come again, on the clock of a place.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use model::{Span, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A night of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnSchedule {
    /// Minute, hour, day of the month, month, day of the week, as cron has them.
    pub cron: String,
    /// Whose clock it is, by its name in the time zone database: `Europe/Zurich`. A time that the clock jumps over comes
    /// when it has jumped; one that it shows twice comes once, the first time.
    #[serde(default = "utc")]
    pub zone: String,
    /// How late a moment that was missed may still start a run; later it is only reported.
    #[serde(default = "a_few_hours")]
    pub window: Span,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn a_few_hours() -> Span {
    Span::from_secs(4 * 3600)
}

/// A schedule that was read.
#[derive(Clone, Debug)]
pub struct Zoned {
    cron: Cron,
    zone: Tz,
}

impl OnSchedule {
    /// The schedule, ready to be asked.
    ///
    /// # Errors
    /// The field that is wrong, and what was expected.
    pub fn read(&self) -> Result<Zoned, (&'static str, String)> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let expected = "expected minute, hour, day of the month, month, day of the week";
        // A name such as @daily hides the minute, at which everybody else starts as well.
        if self.cron.split_whitespace().count() != 5 {
            return Err(("cron", format!("{expected}, found `{}`", self.cron)));
        }
        let cron = parser.parse(&self.cron);
        let cron = cron.map_err(|error| ("cron", format!("{expected}, found `{}`: {error}", self.cron)))?;
        let zone = self.zone.parse();
        let zone = zone.map_err(|_| ("zone", format!("there is no time zone `{}`", self.zone)))?;
        Ok(Zoned { cron, zone })
    }

    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        match self.read() {
            Err(problem) => vec![problem],
            Ok(zoned) if zoned.next(Timestamp::from_millis(0)).is_none() => {
                vec![("cron", format!("`{}` never comes", self.cron))]
            }
            Ok(_) => Vec::new(),
        }
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        (&self.cron, &self.zone) == (&other.cron, &other.zone)
    }
}

impl Zoned {
    /// The first moment after `after`; none when there is none in the calendar.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = DateTime::<Utc>::from_timestamp_millis(after.as_millis())?.with_timezone(&self.zone);
        let mut from = after;
        // Where the clock is set back, the search may come to the moment it began at.
        for _ in 0..3 {
            let next = self.cron.find_next_occurrence(&from, false).ok()?;
            if next > after {
                return Some(next.with_timezone(&Utc).into());
            }
            from += chrono::Duration::hours(1);
        }
        None
    }

    /// Moments after `after` and up to `until`, the last `most` of them, oldest first.
    pub fn between(&self, after: Timestamp, until: Timestamp, most: usize) -> Vec<Timestamp> {
        let mut moments = std::collections::VecDeque::new();
        let mut at = after;
        while let Some(next) = self.next(at).filter(|next| *next <= until) {
            if moments.len() == most {
                moments.pop_front();
            }
            moments.push_back(next);
            at = next;
        }
        moments.into()
    }
}
