//! The gateway over a store in memory, with a real conductor behind a bus that can fail.
pub mod git_server;

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use conductor::{Conductor, WakeSettings};
use gateway::{Catalogue, Gateway, GatewaySetup, GitRefs, LocalAccess, Rates, WebhookSecrets};
use http_body_util::BodyExt;
use ledger::{Ledger, MemoryStore, Store};
use model::{Span, Timestamp};
use run_index::{RefreshIntervals, RunIndex};
use serde_json::Value;
use service::{
    AttributesReader, Bus, BusError, Clock, Disposition, Event, Handler, ManualClock,
    serve::{Service, with_routes},
};
use tower::ServiceExt;

pub const SECRET: &str = "a secret of sixteen letters";

/// Records events; passes facts to the conductor while the conductor exists.
#[derive(Default)]
pub struct RecordingBus {
    pub events: Mutex<Vec<Event>>,
    pub broken: AtomicBool,
    pub conductor: Mutex<Option<Arc<Conductor>>>,
}

#[async_trait::async_trait]
impl Bus for RecordingBus {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(BusError { id: event.id().to_owned(), why: "the connection is cut".to_owned() });
        }
        self.events.lock().unwrap().push(event.clone());
        let conductor = self.conductor.lock().unwrap().clone();
        if let Some(conductor) = conductor.filter(|_| event.ty().ends_with("requested.v1")) {
            assert_eq!(conductor.handle(&event).await, Disposition::Done);
        }
        Ok(())
    }
}

pub struct GatewayBed {
    pub gateway: Arc<Gateway>,
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    pub bus: Arc<RecordingBus>,
    pub folder: tempfile::TempDir,
    pub access: Arc<LocalAccess>,
    pub links: Arc<Mutex<Vec<String>>>,
    rates: Rates,
    secrets: WebhookSecrets,
}

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A workflow on an existing cluster of processes; `more` is YAML.
pub fn workflow(name: &str, more: &str) -> String {
    format!("name: {name}\ncluster: {{existing: {{system: {{processes: {{nodes: 1}}}}, name: c}}}}\n{more}")
}

impl GatewayBed {
    pub fn new(workflows: &[(&str, &str)]) -> Self {
        Self::with(workflows, "1000,1000")
    }

    pub fn with(workflows: &[(&str, &str)], rates: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, more) in workflows {
            fs::write(folder.path().join(format!("{name}.yaml")), workflow(name, more)).unwrap();
        }
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let clock = Arc::new(ManualClock::new(at("2026-11-20T12:00:00Z")));
        let bus = Arc::new(RecordingBus::default());
        let (rates, secrets): (Rates, WebhookSecrets) = (rates.parse().unwrap(), SECRET.parse().unwrap());
        let links: Arc<Mutex<Vec<String>>> = Arc::default();
        let published = Arc::clone(&links);
        let publish = move |link: &str| published.lock().unwrap().push(link.to_owned());
        let bed = Self {
            access: Arc::new(LocalAccess::new("alice", "127.0.0.1:8080", publish)),
            links,
            gateway: gateway(&store, &clock, &bus, folder.path().into(), (rates, secrets.clone())),
            store,
            clock,
            bus,
            folder,
            rates,
            secrets,
        };
        bed.conduct();
        bed
    }

    /// Another process with the same store.
    pub fn restart(&mut self) {
        let folder = self.folder.path().into();
        let settings = (self.rates, self.secrets.clone());
        self.gateway = gateway(&self.store, &self.clock, &self.bus, folder, settings);
    }

    /// Removes the webhook secrets, so webhooks are refused.
    pub fn without_secrets(mut self) -> Self {
        self.secrets = WebhookSecrets::default();
        self.restart();
        self
    }

    pub fn conduct(&self) {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let bus: Arc<dyn Bus> = self.bus.clone();
        let settings = WakeSettings { resend: Span::from_secs(30), refresh: Span::default() };
        let conductor = Conductor::new(ledger(&self.store), bus, clock, settings, None);
        *self.bus.conductor.lock().unwrap() = Some(Arc::new(conductor));
    }

    pub fn write(&self, name: &str, more: &str) {
        let path = self.folder.path().join(format!("{name}.yaml"));
        fs::write(&path, workflow(name, more)).unwrap();
        // Changes the files' modification time, so that the files are read again at any clock resolution.
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
        fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
    }

    /// The routes of `burnin up`.
    pub fn router(&self) -> Router {
        gateway::local_only(self.router_behind(None), Arc::clone(&self.access), &self.gateway)
    }

    /// The routes of the deployed service.
    pub fn router_behind(&self, authenticator: Option<Arc<dyn service::auth::Authenticator>>) -> Router {
        let service = Service {
            name: "gateway",
            version: "0",
            revision: None,
            handled_events: gateway::HANDLED_EVENTS.to_vec(),
            handler: self.gateway.clone(),
            dead_letters: Arc::new(service::StoredDeadLetters::new(self.store.clone(), self.clock.clone())),
            periodic_tasks: self.gateway.periodic_tasks(),
            authenticator,
            telemetry: None,
        };
        with_routes(service, self.gateway.routes())
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "127.0.0.1:1");
        }
        if !headers.iter().any(|(name, _)| ["authorization", "cookie"].contains(name)) {
            let header = self.access.header();
            let (name, value) = header.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response =
            self.router().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        let (status, _, body) = self.send("GET", path, &[], "").await;
        (status.as_u16(), serde_json::from_str(&body).unwrap_or_default())
    }

    pub async fn post(&self, path: &str, key: Option<&str>, body: Value) -> (u16, Value) {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        let (status, _, body) = self.send("POST", path, &headers, &body.to_string()).await;
        (status.as_u16(), serde_json::from_str(&body).unwrap_or_default())
    }

    /// Runs in the ledger, sorted.
    pub async fn runs(&self) -> Vec<String> {
        let runs = ledger(&self.store).runs().await.unwrap();
        runs.iter().map(ToString::to_string).collect()
    }

    pub async fn periodic_task(&self, name: &str) -> u16 {
        self.send("POST", &format!("/chores/{name}"), &[], "").await.0.as_u16()
    }

    /// Payloads of this type that were published.
    pub fn published(&self, event_type: &str) -> Vec<Value> {
        let published = self.bus.events.lock().unwrap();
        let of = published.iter().filter(|event| event.ty() == event_type);
        of.map(|event| events::payload(event).unwrap()).collect()
    }
}

fn gateway(
    store: &Arc<dyn Store>,
    clock: &Arc<ManualClock>,
    bus: &Arc<RecordingBus>,
    folder: PathBuf,
    (rates, secrets): (Rates, WebhookSecrets),
) -> Arc<Gateway> {
    let pace = RefreshIntervals { max_age: Span::default(), scan_interval: Span::default() };
    Gateway::new(GatewaySetup {
        ledger: ledger(store),
        store: store.clone(),
        run_index: Arc::new(RunIndex::new(ledger(store), store.clone(), clock.clone(), pace)),
        catalogue: Catalogue::folder(folder),
        bus: bus.clone(),
        clock: clock.clone(),
        rates,
        secrets,
        refs: Arc::new(GitRefs),
        warehouse: "nowhere".to_owned(),
    })
}

pub fn ledger(store: &Arc<dyn Store>) -> Ledger {
    static NONCES: AtomicUsize = AtomicUsize::new(0);
    Ledger::new(store.clone(), Arc::new(|| NONCES.fetch_add(1, Ordering::Relaxed).to_string()))
}
