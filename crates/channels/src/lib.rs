//! The kinds of notification channels, listed in [`KINDS`].
//!
//! A kind is a module of this crate: the field of a workflow that names a channel, the secrets that a delivery needs, the text of a notice,
//! and the request that carries it. All other code uses only [`KINDS`]: workflow files and their schema, `burnin plan`, and the notifier,
//! which decides, stores and sends. Pure: no clock, no network, no files.

mod payload;
mod signature;
mod slack;
mod text;
mod webhook;

use model::{ChannelNotify, GithubNotify, News, Notify};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

pub use minijinja::Error;
pub use payload::{Posted, RunOutcome, StageFailure};
pub use signature::sign;
pub use text::{FailureText, NoticeText};

/// Every kind. A new kind adds one line.
pub static KINDS: [&dyn ChannelKind; 2] = [&slack::Slack, &webhook::Webhook];

/// A kind of notification channel: its settings, texts and requests.
pub trait ChannelKind: Send + Sync {
    fn form(&self) -> ChannelForm;

    /// The content of a notice. It is stored, and every attempt sends the same bytes; it contains no address and no key.
    ///
    /// # Errors
    /// Returns an error if a template is invalid: a bug of this crate.
    fn content(&self, text: &NoticeText<'_>, payload: &Posted) -> Result<String, Error>;

    /// The content of a test message, which concerns no run.
    fn test_content(&self, id: &str, channel: &str, text: &str) -> String;

    /// The request that delivers a content. `keys`: the signing keys, one per line; empty for kinds without them. `timestamp`: seconds
    /// since 1970.
    fn request(&self, content: &str, keys: &str, timestamp: &str) -> ChannelRequest;
}

/// Name and settings of a kind.
#[derive(Clone, Copy, Debug)]
pub struct ChannelForm {
    /// Name of the kind in workflow files and stored notices.
    pub kind: &'static str,
    /// Name of the kind in messages.
    pub title: &'static str,
    /// The kind in one sentence, for schemas.
    pub description: &'static str,
    /// Settings field that contains the channel's name.
    pub field: &'static str,
    /// Secrets under the channel's name that a delivery needs.
    pub secrets: &'static [SecretOrigin],
}

/// A POST request without its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRequest {
    /// Exact body.
    pub body: String,
    pub headers: Vec<(&'static str, String)>,
}

/// Kind of a channel's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretOrigin {
    /// Address of the channel.
    Url,
    /// Signing keys.
    Key,
    Token,
}

impl SecretOrigin {
    /// Suffix of the secret's variable and file names, such as `url`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Key => "key",
            Self::Token => "token",
        }
    }
}

pub fn kind(name: &str) -> Option<&'static dyn ChannelKind> {
    KINDS.into_iter().find(|kind| kind.form().kind == name)
}

/// Error message for an unknown kind of channel.
pub fn unknown(name: &str) -> String {
    let known: Vec<_> = KINDS.iter().map(|kind| kind.form().kind).collect();
    format!("unknown kind of channel `{name}`; expected one of: {}", known.join(", "))
}

/// Checks a workflow's notification targets; returns each invalid value as field and expectation.
pub fn problems(list: &[Notify]) -> Vec<(String, String)> {
    let mut problems = Notify::problems(list);
    for (at, notify) in list.iter().enumerate() {
        let Notify::Channel(ChannelNotify { kind: name, field, .. }) = notify else { continue };
        match kind(name).map(|kind| kind.form().field) {
            None => problems.push((format!("[{at}].{name}"), unknown(name))),
            Some(expected) if expected != field => {
                problems.push((format!("[{at}].{name}.{field}"), format!("expected `{expected}`")));
            }
            Some(_) => {}
        }
    }
    problems
}

/// Schema of a workflow's list of targets.
pub fn schema(generator: &mut SchemaGenerator) -> Schema {
    let one = |name: &str, description: &str, settings: Value| {
        json!({
            "description": description,
            "type": "object",
            "properties": {name: settings},
            "additionalProperties": false,
            "required": [name],
        })
    };
    let github = generator.subschema_for::<GithubNotify>().to_value();
    let mut targets = vec![one("github", "The commit whose push started the run.", github)];
    let news = generator.subschema_for::<News>().to_value();
    for kind in KINDS {
        let ChannelForm { kind, description, field, .. } = kind.form();
        let settings = json!({
            "description": description,
            "type": "object",
            "properties": {
                field: {"description": "Name of the channel.", "type": "string"},
                "on": {
                    "description": "News to send; default: all.",
                    "type": "array",
                    "default": News::ALL.map(News::as_str),
                    "items": news,
                },
            },
            "additionalProperties": false,
            "required": [field],
        });
        targets.push(one(kind, description, settings));
    }
    let target = json!({
        "description": "A notification target. The notifier's operator configures addresses and secrets under the name given here; a workflow never contains an address or a key.",
        "oneOf": targets,
    });
    json_schema!({"type": "array", "items": target})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_distinct_names_and_an_address() {
        let mut names: Vec<_> = KINDS.iter().map(|kind| kind.form().kind).collect();
        names.extend(["github"]);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len() + 1);
        for kind in KINDS {
            let form = kind.form();
            assert!(form.secrets.contains(&SecretOrigin::Url), "{}", form.kind);
            assert_ne!(form.field, "on", "{}", form.kind);
        }
        assert!(kind("none").is_none());
    }

    #[test]
    fn a_wrong_field_and_an_unknown_kind_are_reported() {
        let list =
            json!([{"slack": {"target": "ops"}}, {"email": {"to": "me"}}, {"webhook": {"target": "pager"}}]);
        let list: Vec<Notify> = serde_json::from_value(list).unwrap();
        let found = problems(&list);
        let expected = [
            ("[0].slack.target", "expected `webhook`"),
            ("[1].email", "unknown kind of channel `email`; expected one of: slack, webhook"),
        ];
        assert_eq!(found, expected.map(|(field, why)| (field.to_owned(), why.to_owned())));
    }
}
