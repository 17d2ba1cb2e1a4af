//! Identifiers. Each has its own type and is safe in file names, labels and host names.

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A text that is not a valid identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: expected {expected}")]
pub struct InvalidId {
    /// Kind of identifier expected.
    pub what: &'static str,
    /// The rejected text, shortened.
    pub text: String,
    /// The rule it violates.
    pub expected: &'static str,
}

impl InvalidId {
    fn new(what: &'static str, text: &str, expected: &'static str) -> Self {
        Self { what, text: text.chars().take(80).collect(), expected }
    }
}

/// Serializes through `Display` and `FromStr`, so that unchecked text never becomes an identifier.
macro_rules! text_id {
    ($name:ident, $pattern:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern})
            }
        }
    };
}

/// A run id: lower-case letters, digits and `-`, at most 50 characters, so that cluster names can include it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// Maximum length of a run id; cluster names append an attempt and must stay below 63 characters.
    pub const MAX_LEN: usize = 50;

    /// The id as text, with lower-case letters, digits and `-` only.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let first = text.bytes().next().is_some_and(|c| c.is_ascii_lowercase());
        if first && text.len() <= Self::MAX_LEN && text.bytes().all(legal) && !text.ends_with('-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidId::new(
                "run id",
                text,
                "a lower-case letter, then lower-case letters, digits and `-`, at most 50 characters, not ending in `-`",
            ))
        }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_id!(RunId, "^[a-z][a-z0-9-]{0,49}$");

/// A stage of a run, in execution order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Build the image.
    Image,
    /// Provision the cluster.
    Cluster,
    /// Run the benchmark.
    Job,
    /// Copy the job's output to the bucket.
    Logs,
    /// Judge the measurements.
    Verdict,
    /// After a failed verdict, find the bad nodes.
    Locate,
    /// Load the measurements, with the verdict, into the warehouse.
    Results,
}

impl Stage {
    /// All stages, in order of execution.
    pub const ALL: [Self; 7] =
        [Self::Image, Self::Cluster, Self::Job, Self::Logs, Self::Verdict, Self::Locate, Self::Results];

    /// The step of a run: this stage of `check`.
    #[must_use]
    pub const fn of(self, check: CheckIndex) -> Step {
        Step { check, stage: self }
    }

    /// Whether each check has this stage, rather than the run as a whole.
    pub const fn is_of_check(self) -> bool {
        !matches!(self, Self::Image | Self::Cluster)
    }

    /// The spelling in ids and paths.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Cluster => "cluster",
            Self::Job => "job",
            Self::Logs => "logs",
            Self::Verdict => "verdict",
            Self::Locate => "locate",
            Self::Results => "results",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` applies the width, so that the columns of a table of stages align
        f.pad(self.as_str())
    }
}

impl FromStr for Stage {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let known = Self::ALL.into_iter().find(|stage| stage.as_str() == text);
        known.ok_or_else(|| {
            InvalidId::new("stage", text, "image, cluster, job, logs, verdict, locate or results")
        })
    }
}

/// Position of a check in its run, starting at 0. The image and cluster stages belong to the first check.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct CheckIndex(pub u16);

impl CheckIndex {
    /// The first check; the only check of a workflow with a single benchmark.
    pub const FIRST: Self = Self(0);

    /// Whether this is the first check of the run. A single benchmark is its workflow's first check.
    pub const fn is_first(&self) -> bool {
        self.0 == 0
    }

    /// The position as an index of a list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A stage of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Check of the stage; the first check for the image and cluster stages.
    pub check: CheckIndex,
    /// Stage of that check.
    pub stage: Stage,
}

impl Step {
    /// Order of execution: image and cluster, then each check up to its search for bad nodes, then all loads, which need no
    /// cluster.
    fn order(self) -> (u8, CheckIndex, Stage) {
        let phase = match self.stage {
            Stage::Image | Stage::Cluster => 0,
            Stage::Job | Stage::Logs | Stage::Verdict | Stage::Locate => 1,
            Stage::Results => 2,
        };
        (phase, self.check, self.stage)
    }
}

impl From<Stage> for Step {
    /// The stage of the first check.
    fn from(stage: Stage) -> Self {
        stage.of(CheckIndex::FIRST)
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Step {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl fmt::Display for Step {
    /// `job`, and for later checks `job.2`, counted from 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.check {
            CheckIndex::FIRST => self.stage.fmt(f),
            CheckIndex(check) => f.pad(&format!("{}.{}", self.stage, u32::from(check) + 1)),
        }
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Attempt of a stage: the check, and the number of the attempt, starting at 1.
///
/// In text and JSON an attempt of the first check is its number, `1`; an attempt of a later check names the check, counted from
/// 1: `c2a1`. Ledgers and objects of runs with a single benchmark therefore keep their spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// Check of the stage.
    pub check: CheckIndex,
    /// Number of the attempt, starting at 1.
    pub number: u32,
}

impl Attempt {
    /// The first attempt of the first check.
    pub const FIRST: Self = Self::new(1);

    /// An attempt of the first check.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self { check: CheckIndex::FIRST, number }
    }

    /// Attempt 1 of a stage of this check.
    #[must_use]
    pub const fn first_of(check: CheckIndex) -> Self {
        Self { check, number: 1 }
    }

    /// The next attempt of the same check.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { check: self.check, number: self.number.saturating_add(1) }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.check {
            CheckIndex::FIRST => self.number.fmt(f),
            CheckIndex(check) => write!(f, "c{}a{}", u32::from(check) + 1, self.number),
        }
    }
}

impl FromStr for Attempt {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let parsed = || {
            let Some(later) = text.strip_prefix('c') else { return Some(Self::new(text.parse().ok()?)) };
            let (check, number) = later.split_once('a')?;
            let check = CheckIndex(check.parse::<u16>().ok()?.checked_sub(1)?);
            Some(Self { check, number: number.parse().ok()? })
        };
        // `01` and `+1` parse as numbers; an attempt must have one spelling.
        let attempt = parsed().filter(|attempt| attempt.to_string() == text);
        attempt.ok_or_else(|| {
            InvalidId::new("attempt", text, "an attempt such as `1`, or `c2a1` for the second check")
        })
    }
}

impl Serialize for Attempt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.check {
            CheckIndex::FIRST => serializer.serialize_u32(self.number),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Attempt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Spelling {
            Number(u32),
            Text(String),
        }
        match Spelling::deserialize(deserializer)? {
            Spelling::Number(number) => Ok(Self::new(number)),
            Spelling::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Attempt {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Attempt".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Attempt number of a stage, starting at 1; for the second and later checks with the check's number: `c2a1`.",
            "anyOf": [
                {"type": "integer", "format": "uint32", "minimum": 0},
                {"type": "string", "pattern": "^c[1-9][0-9]*a[1-9][0-9]*$"},
            ],
        })
    }
}

/// Operation that a command requests from a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Start the stage: build, create, submit, collect, load or judge.
    Start,
    /// Check the external state and publish it as a fact.
    Observe,
    /// Stop the started operation.
    Cancel,
    /// Release the cluster.
    Delete,
}

impl Verb {
    const ALL: [Self; 4] = [Self::Start, Self::Observe, Self::Cancel, Self::Delete];

    /// The spelling in ids.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Observe => "observe",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
        }
    }
}

/// `{run}.{stage}.{attempt}.{verb}`: the same operation always has the same id, so that a resent command is a
/// duplicate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    /// Run that the command belongs to.
    pub run: RunId,
    /// Stage that the command starts, polls or stops.
    pub stage: Stage,
    /// Attempt of the stage, with its check.
    pub attempt: Attempt,
    /// Requested operation.
    pub verb: Verb,
}

impl CommandId {
    /// The id of the same attempt with another verb.
    #[must_use]
    pub fn with_verb(&self, verb: Verb) -> Self {
        Self { verb, ..self.clone() }
    }

    /// `{run}-{stage}-{attempt}`: name of the resource that the command creates, valid as a label, host name
    /// and job name.
    pub fn resource_name(&self) -> String {
        format!("{}-{}-{}", self.run, self.stage, self.attempt)
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.{}", self.run, self.stage, self.attempt, self.verb.as_str())
    }
}

impl FromStr for CommandId {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId::new("command id", text, "{run}.{stage}.{attempt}.{verb}");
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or_else(wrong);
        let id = Self {
            run: part()?.parse()?,
            stage: part()?.parse()?,
            attempt: part()?.parse().map_err(|_| wrong())?,
            verb: {
                let verb = part()?;
                Verb::ALL.into_iter().find(|known| known.as_str() == verb).ok_or_else(wrong)?
            },
        };
        // `01` and `+1` parse as numbers; an id must have one spelling.
        if parts.next().is_none() && id.to_string() == text { Ok(id) } else { Err(wrong()) }
    }
}

text_id!(CommandId, r"^[a-z][a-z0-9-]{0,49}\.[a-z]+\.(c[1-9][0-9]*a)?[1-9][0-9]*\.[a-z]+$");

/// Identity of an event: CloudEvents' `source` and `id`. Never the broker's message id, which changes with
/// every publication.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct EventKey {
    /// CloudEvents `source`.
    pub source: String,
    /// CloudEvents `id`.
    pub id: String,
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.source, self.id)
    }
}
