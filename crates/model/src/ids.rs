//! Names of things. Every identifier has its own type, and each is safe in a file name, a label and a host name.

use std::{fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A text that is not the identifier it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: expected {expected}")]
pub struct InvalidId {
    /// What it should have been.
    pub what: &'static str,
    /// The text as given, shortened.
    pub text: String,
    /// The rule it breaks.
    pub expected: &'static str,
}

impl InvalidId {
    fn new(what: &'static str, text: &str, expected: &'static str) -> Self {
        Self { what, text: text.chars().take(80).collect(), expected }
    }
}

/// Serializes through `Display` and `FromStr`, so that no unchecked text becomes an identifier.
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

/// A run: lower-case letters, digits and `-`, at most 50 characters, so that a cluster can be named after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// The longest a run id may be; cluster names add an attempt and must stay below 63.
    pub const MAX_LEN: usize = 50;

    /// The text.
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
                "a letter, then letters, digits and `-`, all lower case, at most 50",
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

/// A step of a run, in the order in which a run goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Build the image.
    Image,
    /// Bring up the cluster.
    Cluster,
    /// Run the benchmark.
    Job,
    /// Bring its output into the bucket.
    Logs,
    /// Judge the measurements.
    Verdict,
    /// After a failed verdict, find the node it is due to.
    Locate,
    /// Load the measurements, with the verdict, into the warehouse.
    Results,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Self; 7] =
        [Self::Image, Self::Cluster, Self::Job, Self::Logs, Self::Verdict, Self::Locate, Self::Results];

    /// The word, as in ids and paths.
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
        // pad, so that a table of stages lines up
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

/// The how-manieth try of a stage, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The first try.
    pub const FIRST: Self = Self(1);

    /// The try after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a command asks of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Begin the stage: build, create, submit, collect, load or judge.
    Start,
    /// Look at the world and publish what is true.
    Observe,
    /// Stop what was begun.
    Cancel,
    /// Give the cluster back.
    Delete,
}

impl Verb {
    const ALL: [Self; 4] = [Self::Start, Self::Observe, Self::Cancel, Self::Delete];

    /// The word, as in ids.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Observe => "observe",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
        }
    }
}

/// `{run}.{stage}.{attempt}.{verb}`: the same wish always has the same id, so that a second sending is a duplicate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    /// The run it is for.
    pub run: RunId,
    /// The stage it is about.
    pub stage: Stage,
    /// The attempt it belongs to.
    pub attempt: Attempt,
    /// What is asked.
    pub verb: Verb,
}

impl CommandId {
    /// The same attempt, another wish.
    #[must_use]
    pub fn with_verb(&self, verb: Verb) -> Self {
        Self { verb, ..self.clone() }
    }

    /// `{run}-{stage}-{attempt}`: a name for what the command makes, legal as a label, a host name and a job name.
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
            attempt: Attempt(part()?.parse().map_err(|_| wrong())?),
            verb: {
                let verb = part()?;
                Verb::ALL.into_iter().find(|known| known.as_str() == verb).ok_or_else(wrong)?
            },
        };
        // `01` and `+1` parse as numbers; one wish must have one spelling.
        if parts.next().is_none() && id.to_string() == text { Ok(id) } else { Err(wrong()) }
    }
}

text_id!(CommandId, r"^[a-z][a-z0-9-]{0,49}\.[a-z]+\.[1-9][0-9]*\.[a-z]+$");

/// What makes two messages the same event: CloudEvents' `source` and `id`. Never the broker's message id, which changes
/// with every publication.
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
