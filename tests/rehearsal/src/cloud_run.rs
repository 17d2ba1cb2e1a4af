//! Simulates Cloud Run, and the pushes of Pub/Sub to Cloud Run.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use pubsub_standin::{PubsubMessage, PushEndpoint};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::{
    grants::Resource,
    iam::{Iam, PUBSUB, member},
    members,
    methods::permission,
    plan::PlannedService,
    tokens::GOOGLE,
};

/// Header of the token that `gcloud run services proxy` adds. Cloud Run verifies this token instead of the token in `Authorization`
/// (cloud.google.com/run/docs/authenticating/service-to-service).
pub const BY_PROXY: &str = "x-serverless-authorization";
/// Path that Google's front end answers itself. Start-up probes reach the container without the front end.
const RESERVED: &str = "/healthz";
/// Maximum wait of a request for an instance.
const QUEUE: Duration = Duration::from_secs(10);

/// Origin of a request, which decides whether it reaches a service with internal ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// Pub/Sub and Cloud Scheduler of the project.
    Project,
    Internet,
}

/// A service of Cloud Run.
#[derive(Clone)]
struct InvokedService {
    /// Whether the service has internal ingress: only Google's services of the project reach it.
    internal: bool,
    /// URL of the service, the audience of tokens.
    uri: String,
    /// Permits for concurrent requests of the instance.
    slots: Arc<Semaphore>,
    /// Maximum time of a request.
    timeout: Duration,
    /// Port of the service's process, once the process serves.
    port: Option<u16>,
}

/// Cloud Run: receives requests for services, checks their callers, and forwards them to the processes, one for each service.
pub struct CloudRun {
    pub iam: Arc<Iam>,
    targets: RwLock<BTreeMap<String, InvokedService>>,
    http: reqwest::Client,
}

pub struct Invocation<'a> {
    pub method: &'a str,
    /// Path with query.
    pub path: &'a str,
    /// Headers other than `Authorization`.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl CloudRun {
    pub fn new<'a>(iam: Arc<Iam>, services: impl Iterator<Item = &'a PlannedService>) -> Self {
        let target = |service: &PlannedService| InvokedService {
            internal: !service.reachable,
            uri: service.uri.clone(),
            slots: Arc::new(Semaphore::new(service.concurrency)),
            timeout: service.timeout,
            port: None,
        };
        let targets = services.map(|service| (service.name.clone(), target(service))).collect();
        Self { iam, targets: RwLock::new(targets), http: reqwest::Client::new() }
    }

    /// Forwards requests for a service to this local port.
    pub fn serves(&self, service: &str, port: u16) {
        if let Some(target) = self.targets.write().unwrap_or_else(PoisonError::into_inner).get_mut(service) {
            target.port = Some(port);
        }
    }

    /// Sends a request with a token in `Authorization`, or without one. Returns status and body: 401 if the token is refused, 403 if its account may not
    /// invoke the service, 504 after the timeout of the service, whose process continues.
    pub async fn invoke(
        &self,
        source: RequestOrigin,
        token: Option<&str>,
        service: &str,
        request: Invocation<'_>,
    ) -> (u16, String) {
        let Some(InvokedService { internal, uri, slots, timeout, port }) =
            self.targets.read().unwrap_or_else(PoisonError::into_inner).get(service).cloned()
        else {
            return (404, format!("no service {service}"));
        };
        if internal && source != RequestOrigin::Project {
            return (404, format!("{service} is not reachable from the Internet: its ingress is internal"));
        }
        if source == RequestOrigin::Internet && request.path.split('?').next() == Some(RESERVED) {
            return (404, format!("{RESERVED} is answered by Google's front end"));
        }
        let resource = Resource::service(service);
        let by_proxy = request.headers.iter().find(|(name, _)| *name == BY_PROXY);
        let by_proxy = by_proxy.and_then(|(_, value)| value.strip_prefix("Bearer ")).map(str::to_owned);
        let verified = by_proxy.as_deref().or(token);
        let caller = match verified.map(|token| GOOGLE.verify(token, &uri)).transpose() {
            Ok(email) => email.as_deref().map_or_else(|| members::EVERYONE.to_owned(), principal),
            Err(why) => {
                let denial = self.iam.refused("a caller", &format!("a valid token ({why})"), &resource);
                return (401, denial.to_string());
            }
        };
        if let Err(denial) = self.iam.check(&caller, permission("invoke-service"), &resource) {
            return (if verified.is_some() { 403 } else { 401 }, denial.to_string());
        }
        let Some(port) = port else { return (503, format!("{service} has no instance")) };
        let Ok(Ok(_slot)) = tokio::time::timeout(QUEUE, slots.acquire_owned()).await else {
            return (429, format!("all instances of {service} process their maximum number of requests"));
        };
        let url = format!("http://127.0.0.1:{port}{}", request.path);
        let method = request.method.parse().unwrap_or(reqwest::Method::GET);
        let mut sent = self.http.request(method, url).body(request.body);
        // Cloud Run replaces the signature of a token that it verified in `Authorization` (its page "Troubleshoot"). If it verified the
        // token of the proxy, it forwards `Authorization` unchanged.
        let without_signature = |token: &str| {
            let (claims, _) = token.rsplit_once('.').unwrap_or_default();
            format!("Bearer {claims}.SIGNATURE_REMOVED_BY_GOOGLE")
        };
        if let Some(token) = token {
            let forwarded =
                if by_proxy.is_some() { format!("Bearer {token}") } else { without_signature(token) };
            sent = sent.header("authorization", forwarded);
        }
        if let Some(token) = &by_proxy {
            sent = sent.header(BY_PROXY, without_signature(token));
        }
        for (name, value) in request.headers.into_iter().filter(|(name, _)| *name != BY_PROXY) {
            sent = sent.header(name, value);
        }
        // Cloud Run sends the container no signal when a request ends (its page "Configure request timeout").
        let sent = tokio::spawn(async move {
            match sent.send().await {
                Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap_or_default()),
                Err(error) => (503, error.to_string()),
            }
        });
        match tokio::time::timeout(timeout, sent).await {
            Ok(answered) => answered.unwrap_or_else(|error| (503, error.to_string())),
            Err(_) => (504, format!("{service} did not answer within {} s", timeout.as_secs_f64())),
        }
    }
}

/// IAM member whose grants apply to the account with this email address.
fn principal(email: &str) -> String {
    match email {
        members::OPERATOR_EMAIL => members::OPERATOR.to_owned(),
        email if email.ends_with(".gserviceaccount.com") => member(email),
        email => format!("user:{email}"),
    }
}

pub struct PushDelivery {
    pub cloud_run: Arc<CloudRun>,
    pub subscription: String,
    /// Address of the account in the tokens.
    pub account: String,
    pub audience: String,
    pub service: PlannedService,
    /// Path of the endpoint.
    pub path: String,
}

#[async_trait::async_trait]
impl PushEndpoint for PushDelivery {
    async fn deliver(&self, message: &PubsubMessage, attempt: Option<u32>) -> u16 {
        let token = self.cloud_run.iam.check(
            PUBSUB,
            permission("iamcredentials.projects.serviceAccounts.generateIdToken"),
            &Resource::account(&self.account),
        );
        if token.is_err() {
            return 0;
        }
        let token = GOOGLE.token(&self.account, &self.audience);
        let mut body = json!({
            "message": {
                "attributes": message.attributes, "data": STANDARD.encode(&message.data), "messageId": message.message_id,
                "publishTime": "2026-11-24T00:00:00Z",
            },
            "subscription": self.subscription,
        });
        if let Some(attempt) = attempt {
            body["deliveryAttempt"] = attempt.into();
        }
        let headers = vec![("content-type", "application/json".to_owned())];
        let request = Invocation { method: "POST", path: &self.path, headers, body: body.to_string().into() };
        self.cloud_run.invoke(RequestOrigin::Project, Some(&token), &self.service.name, request).await.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use axum::{Router, http::HeaderMap};

    use super::*;
    use crate::{grants::Grants, tokens};

    const URI: &str = "https://burnin-judge-abc.run.app";
    const PUSH: &str = "push@my-project.iam.gserviceaccount.com";

    fn service(name: &str, reachable: bool) -> PlannedService {
        PlannedService {
            name: name.to_owned(),
            program: name.to_owned(),
            account: format!("{name}@my-project.iam.gserviceaccount.com"),
            uri: URI.to_owned(),
            reachable,
            concurrency: 1,
            timeout: Duration::from_secs(50),
            environment: BTreeMap::new(),
            secrets: BTreeMap::new(),
        }
    }

    /// A `CloudRun` for a container that returns its `Authorization` header.
    async fn cloud_run() -> CloudRun {
        let iam = Iam::new(Grants::from_plan(&[]).unwrap());
        iam.grant_outside("service internal", "roles/run.invoker", &member(PUSH));
        iam.grant_outside("service public", "roles/run.invoker", members::EVERYONE);
        let services = [service("internal", false), service("public", true), service("private", true)];
        let cloud_run = CloudRun::new(Arc::new(iam), services.iter());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let echo = |headers: HeaderMap| async move {
            headers
                .get("authorization")
                .map_or_else(|| "no token".to_owned(), |value| value.to_str().unwrap().to_owned())
        };
        let router = Router::new().fallback(echo);
        tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        services.iter().for_each(|service| cloud_run.serves(&service.name, port));
        cloud_run
    }

    async fn status(
        cloud_run: &CloudRun,
        source: RequestOrigin,
        token: Option<&str>,
        service: &str,
    ) -> (u16, String) {
        let request = Invocation { method: "GET", path: "/", headers: Vec::new(), body: Vec::new() };
        cloud_run.invoke(source, token, service, request).await
    }

    #[tokio::test]
    async fn a_request_needs_a_valid_token_of_an_invoker() {
        let cloud_run = cloud_run().await;
        let token = GOOGLE.token(PUSH, URI);
        assert_eq!(status(&cloud_run, RequestOrigin::Project, Some(&token), "internal").await.0, 200);
        for (what, token) in tokens::refused(PUSH, URI) {
            assert_eq!(
                status(&cloud_run, RequestOrigin::Project, Some(&token), "internal").await.0,
                401,
                "{what}"
            );
        }
        assert_eq!(status(&cloud_run, RequestOrigin::Project, None, "internal").await.0, 401);
        let other = GOOGLE.token("other@my-project.iam.gserviceaccount.com", URI);
        assert_eq!(status(&cloud_run, RequestOrigin::Project, Some(&other), "internal").await.0, 403);
        assert_eq!(status(&cloud_run, RequestOrigin::Internet, Some(&token), "private").await.0, 403);
        assert_eq!(
            status(&cloud_run, RequestOrigin::Internet, None, "public").await,
            (200, "no token".to_owned())
        );
    }

    #[tokio::test]
    async fn ingress_is_checked_before_the_token() {
        let cloud_run = cloud_run().await;
        let token = GOOGLE.token(PUSH, URI);
        assert_eq!(status(&cloud_run, RequestOrigin::Internet, Some(&token), "internal").await.0, 404);
        assert_eq!(status(&cloud_run, RequestOrigin::Internet, None, "internal").await.0, 404);
    }

    #[tokio::test]
    async fn the_health_check_is_not_reachable_from_the_internet() {
        let cloud_run = cloud_run().await;
        let check = async |source, token: Option<&str>, service| {
            let request =
                Invocation { method: "GET", path: "/healthz", headers: Vec::new(), body: Vec::new() };
            cloud_run.invoke(source, token, service, request).await.0
        };
        assert_eq!(check(RequestOrigin::Internet, None, "public").await, 404);
        let token = GOOGLE.token(PUSH, URI);
        assert_eq!(check(RequestOrigin::Project, Some(&token), "internal").await, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_beyond_the_maximum_of_the_instances_is_refused() {
        let cloud_run = cloud_run().await;
        let slots = Arc::clone(&cloud_run.targets.read().unwrap()["public"].slots);
        let all = slots.acquire_owned().await.unwrap();
        assert_eq!(status(&cloud_run, RequestOrigin::Internet, None, "public").await.0, 429);
        drop(all);
    }

    #[tokio::test]
    async fn a_container_continues_after_the_timeout_of_its_request() {
        let iam = Iam::new(Grants::from_plan(&[]).unwrap());
        iam.grant_outside("service slow", "roles/run.invoker", members::EVERYONE);
        let slow = PlannedService { timeout: Duration::from_millis(50), ..service("slow", true) };
        let cloud_run = CloudRun::new(Arc::new(iam), std::iter::once(&slow));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        cloud_run.serves("slow", listener.local_addr().unwrap().port());
        let (ended, mut end) = tokio::sync::mpsc::channel(1);
        let handle = async move || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            ended.send(()).await.unwrap();
        };
        let router = Router::new().fallback(handle);
        tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        assert_eq!(status(&cloud_run, RequestOrigin::Internet, None, "slow").await.0, 504);
        assert!(end.try_recv().is_err(), "the container is still processing the request");
        end.recv().await.unwrap();
    }

    #[tokio::test]
    async fn the_container_receives_the_claims_without_the_signature() {
        let cloud_run = cloud_run().await;
        let token = GOOGLE.token(PUSH, URI);
        let (_, received) = status(&cloud_run, RequestOrigin::Project, Some(&token), "internal").await;
        let (claims, _) = token.rsplit_once('.').unwrap();
        assert_eq!(received, format!("Bearer {claims}.SIGNATURE_REMOVED_BY_GOOGLE"));
        assert!(GOOGLE.verify(received.trim_start_matches("Bearer "), URI).is_err());
    }
}
