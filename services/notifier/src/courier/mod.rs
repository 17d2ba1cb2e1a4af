//! Notices over HTTP.

mod github;
mod http;
mod signature;

use std::sync::Arc;

use kit::Clock;
use serde_json::json;

use crate::{
    notice::{Letter, Notice},
    port::{Courier, Reply},
    secrets::{Kind, Secrets},
};

pub use http::Api;
use http::Http;
pub use signature::sign;

/// What makes two deliveries the same, in whichever header a receiver looks.
const DELIVERY: [&str; 2] = ["idempotency-key", "x-burnin-delivery"];
/// When it was sent, in seconds since 1970, and what proves it.
const TIMESTAMP: &str = "x-burnin-timestamp";
const SIGNATURE: &str = "x-burnin-signature";

/// The outside world, by HTTP.
pub struct HttpCourier {
    http: Http,
    secrets: Secrets,
    github: Api,
    clock: Arc<dyn Clock>,
}

impl HttpCourier {
    /// With these secrets; GitHub is at `github`.
    pub fn new(secrets: Secrets, github: Api, clock: Arc<dyn Clock>) -> Self {
        Self { http: Http::default(), secrets, github, clock }
    }

    async fn slack(&self, webhook: &str, id: &str, text: &str) -> Result<Reply, String> {
        let url = self.secrets.find(webhook, Kind::Url)?;
        let request = self.http.post(http::address(webhook, &url)?)?;
        let request = DELIVERY.iter().fold(request, |request, header| request.header(*header, id));
        let sent = self.http.send(request.json(&json!({"text": text}))).await;
        Ok(sent.map_or_else(|later| later, |answer| answer.reply(self.clock.now())))
    }

    async fn webhook(&self, target: &str, id: &str, body: &str) -> Result<Reply, String> {
        let (url, keys) = (self.secrets.find(target, Kind::Url)?, self.secrets.find(target, Kind::Key)?);
        let timestamp = (self.clock.now().as_millis() / 1000).to_string();
        let request = self.http.post(http::address(target, &url)?)?;
        let request = DELIVERY.iter().fold(request, |request, header| request.header(*header, id));
        let request = request
            .header(TIMESTAMP, &timestamp)
            .header(SIGNATURE, sign(keys.reveal(), &timestamp, body.as_bytes()))
            .header("content-type", "application/json")
            .body(body.to_owned());
        let sent = self.http.send(request).await;
        Ok(sent.map_or_else(|later| later, |answer| answer.reply(self.clock.now())))
    }
}

#[async_trait::async_trait]
impl Courier for HttpCourier {
    async fn deliver(&self, notice: &Notice) -> Reply {
        let id = &notice.id;
        let said = match &notice.letter {
            Letter::Status(status) => self.status(status).await,
            Letter::Check(check) => self.check(id, check).await,
            Letter::Slack { webhook, text } => self.slack(webhook, id, text).await,
            Letter::Webhook { target, body } => self.webhook(target, id, body).await,
        };
        // A secret that is missing or makes no sense may be put right while the notice waits.
        said.unwrap_or_else(Reply::later)
    }
}
