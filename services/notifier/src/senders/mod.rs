//! Delivers notices over HTTP.

mod github;
mod http;

use std::sync::Arc;

use channels::{ChannelKind, ChannelRequest, SecretOrigin};
use model::{ChannelNotify, Notify};
use service::Clock;

use crate::{
    notice::{Notice, OutgoingMessage},
    port::{Reply, Sender},
    secrets::{SecretText, Secrets, needed},
};

pub use http::GithubApi;
use http::{Http, HttpReply};

/// Headers with the notice id, for deduplication by the receiver.
const DELIVERY: [&str; 2] = ["idempotency-key", "x-burnin-delivery"];
const TEST: &str =
    "Test message of `burnin notify test`: this channel receives notices of Burnin. It concerns no run.";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestResult {
    /// The receiver accepted the message, with this HTTP status.
    Delivered(String),
    /// The receiver refused the message or did not respond.
    Failed(String),
    /// The address or key is missing or invalid.
    Lacks(String),
}

pub struct HttpSender {
    http: Http,
    secrets: Secrets,
    github: GithubApi,
    clock: Arc<dyn Clock>,
}

impl HttpSender {
    /// Uses these secrets; `github` is the base URL of GitHub's API.
    pub fn new(secrets: Secrets, github: GithubApi, clock: Arc<dyn Clock>) -> Self {
        Self { http: Http::default(), secrets, github, clock }
    }

    /// Sends a test message to a channel of a workflow. Stores no notice.
    pub async fn test(&self, target: &Notify) -> TestResult {
        let id = format!("test-{}", service::ids::unique());
        if let Some(missing) = self.secrets.missing_setting(target) {
            return TestResult::Lacks(missing);
        }
        let address = |name: &str| http::address(name, &self.secrets.find(name, SecretOrigin::Url)?);
        if let Some(Err(wrong)) = target.channel().map(|channel| address(&channel.name)) {
            return TestResult::Lacks(wrong);
        }
        let sent = match target {
            Notify::Github(_) => Err("GitHub has no channel to test: it receives commit statuses".to_owned()),
            Notify::Channel(ChannelNotify { kind, name, .. }) => match channels::kind(kind) {
                Some(known) => self.post(known, name, &id, &known.test_content(&id, name, TEST)).await,
                None => Err(channels::unknown(kind)),
            },
        };
        match sent {
            Ok(Err(Reply::Delivered)) => TestResult::Delivered("success".to_owned()),
            Err(why) | Ok(Err(Reply::Transient { why, .. } | Reply::Permanent { why })) => {
                TestResult::Failed(why)
            }
            Ok(Ok(answer)) => match answer.reply(self.clock.now()) {
                Reply::Delivered => TestResult::Delivered(answer.status.to_string()),
                Reply::Transient { why, .. } | Reply::Permanent { why } => TestResult::Failed(why),
            },
        }
    }

    /// Posts the rendered content of a notice to a channel.
    async fn post(
        &self,
        kind: &dyn ChannelKind,
        channel: &str,
        id: &str,
        content: &str,
    ) -> Result<Result<HttpReply, Reply>, String> {
        let url = self.secrets.find(channel, SecretOrigin::Url)?;
        let keys = match kind.form().secrets.contains(&SecretOrigin::Key) {
            true => Some(self.secrets.find(channel, SecretOrigin::Key)?),
            false => None,
        };
        let timestamp = (self.clock.now().as_millis() / 1000).to_string();
        let ChannelRequest { body, headers } =
            kind.request(content, keys.as_ref().map_or("", SecretText::reveal), &timestamp);
        let mut request = self.http.post(http::address(channel, &url)?)?;
        for (name, value) in DELIVERY.map(|name| (name, id.to_owned())).into_iter().chain(headers) {
            request = request.header(name, value);
        }
        Ok(self.http.send(request.header("content-type", "application/json").body(body)).await)
    }
}

#[async_trait::async_trait]
impl Sender for HttpSender {
    async fn deliver(&self, notice: &Notice) -> Reply {
        let id = &notice.id;
        let replied = |sent: Result<HttpReply, Reply>| {
            sent.map_or_else(|later| later, |answer| answer.reply(self.clock.now()))
        };
        let result = match &notice.letter {
            OutgoingMessage::Status(status) => self.status(status).await,
            OutgoingMessage::Check(check) => self.check(id, check).await,
            OutgoingMessage::Channel { kind, name, content } => match channels::kind(kind) {
                Some(known) => self.post(known, name, id, content).await.map(replied),
                None => Ok(Reply::permanent(channels::unknown(kind))),
            },
        };
        // A missing or invalid secret may be corrected while the notice waits.
        result.unwrap_or_else(Reply::transient)
    }

    fn missing_setting(&self, notice: &Notice) -> Option<String> {
        let missing = |name: &str, kinds: &[SecretOrigin]| {
            kinds.iter().find_map(|kind| self.secrets.find(name, *kind).err())
        };
        match &notice.letter {
            OutgoingMessage::Status(_) | OutgoingMessage::Check(_) => {
                missing("github", &[SecretOrigin::Token])
            }
            OutgoingMessage::Channel { kind, name, .. } => missing(name, needed(kind)),
        }
    }
}
