//! Cloud Run, and the pushes of Pub/Sub to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use pubsub_standin::{Endpoint, Message};
use serde_json::json;

use crate::{
    grants::Resource,
    iam::{Iam, PUBSUB, member},
    plan::{PROJECT, PlannedService},
};

/// Cloud Run: receives requests for services, checks their callers, and forwards them to the processes.
pub struct Front {
    pub iam: Arc<Iam>,
    pub ports: RwLock<BTreeMap<String, u16>>,
    /// Services that only Google's services of the project reach.
    pub internal: BTreeSet<String>,
    pub http: reqwest::Client,
}

/// A request to a service.
pub struct Invocation<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path with query.
    pub path: &'a str,
    /// Headers besides the token.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Front {
    /// Sends a request as `caller`. Returns status and body; 403 if the caller may not invoke the service.
    pub async fn invoke(&self, caller: &str, service: &str, request: Invocation<'_>) -> (u16, String) {
        // Pub/Sub and Cloud Scheduler of the project call with its own accounts. Cloud Run hides a service from all others.
        if self.internal.contains(service)
            && !caller.ends_with(&format!("@{PROJECT}.iam.gserviceaccount.com"))
        {
            return (404, format!("{service} is not reachable for {caller}: its ingress is internal"));
        }
        if let Err(denial) = self.iam.check(caller, "run.routes.invoke", &Resource::service(service)) {
            return (403, denial.to_string());
        }
        let port = self.ports.read().unwrap_or_else(PoisonError::into_inner).get(service).copied();
        let Some(port) = port else { return (404, format!("no service {service}")) };
        // Cloud Run replaces the signature (its page "Troubleshoot").
        let email = caller.split_once(':').map_or("", |(_, email)| email);
        let claims = URL_SAFE_NO_PAD.encode(json!({"email": email, "email_verified": true}).to_string());
        let token = format!(
            "Bearer {}.{claims}.SIGNATURE_REMOVED_BY_GOOGLE",
            URL_SAFE_NO_PAD.encode("{\"alg\":\"RS256\"}")
        );
        let url = format!("http://127.0.0.1:{port}{}", request.path);
        let method = request.method.parse().unwrap_or(reqwest::Method::GET);
        let mut sent = self.http.request(method, url).timeout(Duration::from_secs(50)).body(request.body);
        if !email.is_empty() {
            sent = sent.header("authorization", token);
        }
        for (name, value) in request.headers {
            sent = sent.header(name, value);
        }
        match sent.send().await {
            Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap_or_default()),
            Err(error) => (503, error.to_string()),
        }
    }
}

/// Pushes of a subscription.
pub struct Push {
    pub front: Arc<Front>,
    pub subscription: String,
    /// Address of the account in the tokens.
    pub account: String,
    pub audience: String,
    pub service: PlannedService,
}

#[async_trait::async_trait]
impl Endpoint for Push {
    async fn deliver(&self, message: &Message, attempt: u32) -> u16 {
        let token = self.front.iam.check(
            PUBSUB,
            "iam.serviceAccounts.getOpenIdToken",
            &Resource::account(&self.account),
        );
        if token.is_err() {
            return 0;
        }
        // Cloud Run rejects tokens for another audience.
        if self.audience != self.service.uri {
            return 401;
        }
        let body = json!({
            "message": {
                "attributes": message.attributes, "data": STANDARD.encode(&message.data), "messageId": message.message_id,
                "publishTime": "2026-11-24T00:00:00Z",
            },
            "subscription": self.subscription, "deliveryAttempt": attempt,
        });
        let headers = vec![("content-type", "application/json".to_owned())];
        let request = Invocation { method: "POST", path: "/", headers, body: body.to_string().into() };
        self.front.invoke(&member(&self.account), &self.service.name, request).await.0
    }
}
