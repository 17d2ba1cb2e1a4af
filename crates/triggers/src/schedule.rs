//! Triggers for recurring times in a time zone.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use model::{Span, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schedule on which a workflow is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnSchedule {
    /// Minute, hour, day of the month, month, day of the week, in cron syntax.
    pub cron: String,
    /// Time zone by its name in the time zone database: `Europe/Zurich`. A time skipped by a clock change
    /// occurs directly after the change; a repeated time occurs once, the first time.
    #[serde(default = "utc")]
    pub zone: String,
    /// Maximum delay at which a missed time still starts a run; later it is only reported.
    #[serde(default = "a_few_hours")]
    pub window: Span,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn a_few_hours() -> Span {
    Span::from_secs(4 * 3600)
}

/// Parts of a schedule: name, range, and a valid value.
const PARTS: [(&str, &str, &str); 5] = [
    ("minute", "0 to 59, a list, a range or a step", "30"),
    ("hour", "0 to 23, a list, a range or a step", "2"),
    ("day of the month", "1 to 31, a list, a range or a step", "*"),
    ("month", "1 to 12 or JAN to DEC, a list, a range or a step", "*"),
    ("day of the week", "0 to 7 (0 and 7 are Sunday) or SUN to SAT, a list, a range or a step", "*"),
];

/// Suggests the most similar name of a time zone, or describes valid names, as the end of a sentence.
fn similar_zone(wrong: &str) -> String {
    const UNKNOWN: &str = "; write a name of the IANA time zone database, such as `Europe/Zurich`";
    let plain = |text: &str| text.to_lowercase().replace([' ', '-'], "_");
    let wrong = plain(wrong);
    if wrong.len() > 64 {
        return UNKNOWN.to_owned();
    }
    let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let distance = |name: &str| {
        let city = name.rsplit('/').next().unwrap_or(name);
        strsim::damerau_levenshtein(&plain(name), &wrong)
            .min(strsim::damerau_levenshtein(&plain(city), &wrong))
    };
    match names.map(|name| (distance(name), name)).min() {
        Some((distance, name)) if distance <= wrong.len() / 4 => format!("; did you mean `{name}`?"),
        _ => UNKNOWN.to_owned(),
    }
}

/// A parsed schedule.
#[derive(Clone, Debug)]
pub struct Zoned {
    cron: Cron,
    zone: Tz,
}

impl OnSchedule {
    /// Parses the schedule.
    ///
    /// # Errors
    /// Returns an error, with the field and the expectation, if a field is invalid.
    pub fn read(&self) -> Result<Zoned, (&'static str, String)> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let expected = "expected minute, hour, day of the month, month, day of the week";
        // Names such as @daily are rejected because they do not state the minute, so that many workflows would start
        // in the same minute.
        if self.cron.split_whitespace().count() != 5 {
            return Err(("cron", format!("{expected}, found `{}`", self.cron)));
        }
        let cron = parser.parse(&self.cron);
        let cron = cron.map_err(|_| {
            ("cron", self.wrong_part(&parser).unwrap_or_else(|| format!("{expected}, found `{}`", self.cron)))
        })?;
        let zone = self.zone.parse();
        let zone = zone.map_err(|_| {
            ("zone", format!("the time zone `{}` does not exist{}", self.zone, similar_zone(&self.zone)))
        })?;
        Ok(Zoned { cron, zone })
    }

    /// The first part that is invalid on its own, with its range.
    fn wrong_part(&self, parser: &CronParser) -> Option<String> {
        let given: Vec<_> = self.cron.split_whitespace().collect();
        PARTS.iter().enumerate().find_map(|(at, (name, range, example))| {
            let mut alone = ["*"; PARTS.len()];
            alone[at] = given.get(at)?;
            parser.parse(&alone.join(" ")).is_err().then(|| {
                let mut right = given.clone();
                right[at] = example;
                format!(
                    "the {name}, `{}`, is not {range}; write for example `{}`",
                    given[at],
                    right.join(" ")
                )
            })
        })
    }

    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        match self.read() {
            Err(problem @ ("cron", _)) => {
                // The time zone is checked even if the cron text is invalid.
                let zone = Self { cron: "0 0 * * *".to_owned(), ..self.clone() }.read().err();
                [problem].into_iter().chain(zone).collect()
            }
            Err(problem) => vec![problem],
            Ok(zoned) if zoned.next(Timestamp::from_millis(0)).is_none() => {
                vec![("cron", format!("`{}` never occurs", self.cron))]
            }
            Ok(_) => Vec::new(),
        }
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        (&self.cron, &self.zone) == (&other.cron, &other.zone)
    }
}

impl Zoned {
    /// The first time after `after`; `None` beyond the calendar's range.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = DateTime::<Utc>::from_timestamp_millis(after.as_millis())?.with_timezone(&self.zone);
        let mut from = after;
        // If the clock is set back, the search may return the time at which it starts.
        for _ in 0..3 {
            let next = self.cron.find_next_occurrence(&from, false).ok()?;
            if next > after {
                return Some(next.with_timezone(&Utc).into());
            }
            from += chrono::Duration::hours(1);
        }
        None
    }

    /// Times after `after` and up to `until`: the last `most` of them, oldest first.
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
