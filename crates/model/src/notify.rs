//! Notification targets of a run and the news they receive.

use std::{borrow::Cow, collections::BTreeSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap};
use serde_json::{Map, Value};

/// A notification target, `{KIND: SETTINGS}` in JSON. The notifier's operator configures addresses and secrets under the name given
/// here; a workflow never contains an address or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notify {
    /// The commit whose push started the run.
    Github(GithubNotify),
    /// A named channel. The crate `channels` defines the kinds.
    Channel(ChannelNotify),
}

/// A named channel, `{KIND: {FIELD: NAME, "on": [NEWS, ...]}}` in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelNotify {
    /// Name of the channel's kind, such as `slack`.
    pub kind: String,
    /// Settings field that contains the channel's name.
    pub field: String,
    /// Name under which the notifier's operator configures the channel.
    pub name: String,
    /// News to send; default: all.
    pub on: Vec<News>,
}

/// Reports on the commit whose push started the run; sent for every run that a push started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GithubNotify {
    /// Set a commit status: pending when the run is recorded, then its result.
    pub status: bool,
    /// Create a check run with the report. GitHub accepts check runs only from a GitHub App.
    pub check: bool,
}

impl Default for GithubNotify {
    fn default() -> Self {
        Self { status: true, check: false }
    }
}

/// A change in the health of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// First failed verdict since the last pass.
    Failed,
    /// First inconclusive verdict since the last pass.
    Inconclusive,
    /// First run since the last pass that did not complete, because of a failure outside the benchmark.
    Broken,
    /// Reminder: the reported state is unchanged after a day.
    StillFailing,
    /// A pass after a failed, inconclusive or broken run.
    Recovered,
}

impl News {
    /// All values, in the order of their declaration.
    pub const ALL: [Self; 5] =
        [Self::Failed, Self::Inconclusive, Self::Broken, Self::StillFailing, Self::Recovered];

    /// The spelling in a workflow file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Inconclusive => "inconclusive",
            Self::Broken => "broken",
            Self::StillFailing => "still-failing",
            Self::Recovered => "recovered",
        }
    }
}

/// Maximum length of a channel name, characters.
const LONGEST: usize = 40;

impl Notify {
    /// The channel; `None` for GitHub, which receives every run.
    pub const fn channel(&self) -> Option<&ChannelNotify> {
        match self {
            Self::Github(_) => None,
            Self::Channel(channel) => Some(channel),
        }
    }

    /// Invalid values of a list of targets, each as field and expectation.
    pub fn problems(list: &[Self]) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut names: BTreeSet<(&str, &str)> = BTreeSet::new();
        for (at, notify) in list.iter().enumerate() {
            let mut add = |field: &str, why: &str| problems.push((format!("[{at}].{field}"), why.to_owned()));
            let Some(ChannelNotify { kind, field, name, on }) = notify.channel() else {
                if let Self::Github(GithubNotify { status: false, check: false }) = notify {
                    add("github", "has no effect: set `status`, `check` or both");
                }
                if !names.insert(("github", "")) {
                    add("github", "is given twice; remove one entry");
                }
                continue;
            };
            let field = format!("{kind}.{field}");
            if !is_name(name) {
                let why = "expected a name: a letter, then lower-case letters, digits and `-`, at most 40 characters; not an address";
                add(&field, why);
            } else if !names.insert((kind, name)) {
                add(&field, &format!("`{name}` is given twice; remove one entry"));
            }
            if on.is_empty() || on.iter().collect::<BTreeSet<_>>().len() != on.len() {
                add(&format!("{kind}.on"), "expected at least one value, without repetition");
            }
        }
        problems
    }
}

impl ChannelNotify {
    /// Kind and name, in lower-case letters, digits and `-`: identifies the channel in a workflow.
    pub fn id(&self) -> String {
        format!("{}-{}", self.kind, self.name)
    }

    fn read(kind: String, settings: Value) -> Result<Self, String> {
        let Value::Object(mut fields) = settings else {
            return Err(format!("{kind}: expected an object with the channel's name"));
        };
        let on = match fields.remove("on") {
            Some(on) => Vec::<News>::deserialize(on).map_err(|error| format!("{kind}.on: {error}"))?,
            None => News::ALL.to_vec(),
        };
        let mut fields = fields.into_iter();
        match (fields.next(), fields.next()) {
            (Some((field, Value::String(name))), None) => Ok(Self { kind, field, name, on }),
            _ => Err(format!(
                "{kind}: expected one field with the channel's name, and optionally `on` with the news to send"
            )),
        }
    }
}

impl Serialize for Notify {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut target = serializer.serialize_map(Some(1))?;
        match self {
            Self::Github(github) => target.serialize_entry("github", github)?,
            Self::Channel(ChannelNotify { kind, field, name, on }) => {
                let mut settings = Map::new();
                settings.insert(field.clone(), Value::from(name.as_str()));
                settings.insert("on".to_owned(), on.iter().map(|news| news.as_str()).collect());
                target.serialize_entry(kind, &settings)?;
            }
        }
        target.end()
    }
}

impl<'de> Deserialize<'de> for Notify {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let target = Map::deserialize(deserializer)?;
        let mut kinds = target.into_iter();
        let (Some((kind, settings)), None) = (kinds.next(), kinds.next()) else {
            return Err(D::Error::custom("expected an object whose one field is the kind of target"));
        };
        if kind == "github" {
            return GithubNotify::deserialize(settings).map(Self::Github).map_err(D::Error::custom);
        }
        ChannelNotify::read(kind, settings).map(Self::Channel).map_err(D::Error::custom)
    }
}

impl JsonSchema for Notify {
    fn schema_name() -> Cow<'static, str> {
        "Notify".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A notification target: an object whose one field is its kind, `github` or a kind of channel.",
            "type": "object",
            "properties": {"github": generator.subschema_for::<GithubNotify>()},
            "minProperties": 1,
            "maxProperties": 1,
        })
    }
}

/// Whether the text is a valid name: names become part of file, variable and object names.
fn is_name(name: &str) -> bool {
    let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= LONGEST
        && name.bytes().all(legal)
}
