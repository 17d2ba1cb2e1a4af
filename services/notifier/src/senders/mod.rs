//! Delivers notices over HTTP.

mod github;
mod http;
mod signature;

use std::sync::Arc;

use model::Notify;
use serde_json::json;
use service::Clock;

use crate::{
    notice::{Notice, OutgoingMessage},
    port::{Reply, Sender},
    secrets::{SecretOrigin, Secrets},
};

pub use http::GithubApi;
use http::{Http, HttpReply};
pub use signature::sign;

/// Headers with the notice id, for deduplication by the receiver.
const DELIVERY: [&str; 2] = ["idempotency-key", "x-burnin-delivery"];
/// Header with the send time, seconds since 1970, which the signature covers.
const TIMESTAMP: &str = "x-burnin-timestamp";
const SIGNATURE: &str = "x-burnin-signature";

/// Text of a test message.
const TEST: &str =
    "Test message of `burnin notify test`: this channel receives notices of Burnin. It concerns no run.";

/// Result of a test message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestResult {
    /// Accepted, with this HTTP status.
    Delivered(String),
    /// Refused, or no response.
    Failed(String),
    /// The address or key is missing or invalid.
    Lacks(String),
}

/// Sender over HTTP.
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

    /// Sends a test message to a channel of a workflow. Stores nothing.
    pub async fn test(&self, wish: &Notify) -> TestResult {
        let id = format!("test-{}", service::ids::unique());
        if let Some(lacks) = self.secrets.lacks(wish) {
            return TestResult::Lacks(lacks);
        }
        let address = |name: &str| http::address(name, &self.secrets.find(name, SecretOrigin::Url)?);
        if let Some(Err(wrong)) = wish.channel().map(|(_, name, _)| address(name)) {
            return TestResult::Lacks(wrong);
        }
        let sent = match wish {
            Notify::Github(_) => Err("GitHub has no channel to test: it receives commit statuses".to_owned()),
            Notify::Slack(slack) => self.slack(&slack.webhook, &id, TEST).await,
            Notify::Webhook(webhook) => {
                let body = json!({"schema": "burnin/notice-test/v1", "id": id, "target": webhook.target, "text": TEST});
                self.webhook(&webhook.target, &id, &body.to_string()).await
            }
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

    async fn slack(&self, webhook: &str, id: &str, text: &str) -> Result<Result<HttpReply, Reply>, String> {
        let url = self.secrets.find(webhook, SecretOrigin::Url)?;
        let request = self.http.post(http::address(webhook, &url)?)?;
        let request = DELIVERY.iter().fold(request, |request, header| request.header(*header, id));
        Ok(self.http.send(request.json(&json!({"text": text}))).await)
    }

    async fn webhook(&self, target: &str, id: &str, body: &str) -> Result<Result<HttpReply, Reply>, String> {
        let (url, keys) =
            (self.secrets.find(target, SecretOrigin::Url)?, self.secrets.find(target, SecretOrigin::Key)?);
        let timestamp = (self.clock.now().as_millis() / 1000).to_string();
        let request = self.http.post(http::address(target, &url)?)?;
        let request = DELIVERY.iter().fold(request, |request, header| request.header(*header, id));
        let request = request
            .header(TIMESTAMP, &timestamp)
            .header(SIGNATURE, sign(keys.reveal(), &timestamp, body.as_bytes()))
            .header("content-type", "application/json")
            .body(body.to_owned());
        Ok(self.http.send(request).await)
    }
}

#[async_trait::async_trait]
impl Sender for HttpSender {
    async fn deliver(&self, notice: &Notice) -> Reply {
        let id = &notice.id;
        let replied = |sent: Result<HttpReply, Reply>| {
            sent.map_or_else(|later| later, |answer| answer.reply(self.clock.now()))
        };
        let said = match &notice.letter {
            OutgoingMessage::Status(status) => self.status(status).await,
            OutgoingMessage::Check(check) => self.check(id, check).await,
            OutgoingMessage::Slack { webhook, text } => self.slack(webhook, id, text).await.map(replied),
            OutgoingMessage::Webhook { target, body } => self.webhook(target, id, body).await.map(replied),
        };
        // A missing or invalid secret may be corrected while the notice waits.
        said.unwrap_or_else(Reply::transient)
    }

    fn lacks(&self, notice: &Notice) -> Option<String> {
        let name = |name: &String, kinds: &[SecretOrigin]| {
            kinds.iter().find_map(|kind| self.secrets.find(name, *kind).err())
        };
        match &notice.letter {
            OutgoingMessage::Status(_) | OutgoingMessage::Check(_) => {
                name(&"github".to_owned(), &[SecretOrigin::Token])
            }
            OutgoingMessage::Slack { webhook, .. } => name(webhook, &[SecretOrigin::Url]),
            OutgoingMessage::Webhook { target, .. } => name(target, &[SecretOrigin::Url, SecretOrigin::Key]),
        }
    }
}
