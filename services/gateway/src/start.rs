//! From a wish to a run: once, whatever is repeated, lost or killed in between.

use std::{collections::BTreeMap, sync::Arc};

use events::{ClusterOffer, OfferedSystem};
use ledger::{Creation, Ledger, Store};
use model::{
    Attempt, ClusterSpec, EventKey, Fact, Image, ImageSpec, Kubernetes, Origin, RunId, RunRequested, Slurm,
    Trigger,
};
use serde::{Deserialize, Serialize};
use service::Outbox;
use sha2::{Digest, Sha256};
use triggers::Offer;
use workflow::{Override, Problems};

use crate::{Catalogue, catalogue::Entry};

/// Where requests are kept.
const REQUESTS: &str = "requests/";
/// Hints of requests that may not have been recorded.
const HINTS: &str = "requests/open/";

/// Somebody wants a run.
#[derive(Clone, Debug)]
pub struct Wish {
    /// What makes two of them the same wish, for ever.
    pub key: EventKey,
    /// The workflow's name.
    pub workflow: String,
    /// Fields to replace. Only those that the workflow names in `parameters`.
    pub set: BTreeMap<String, String>,
    /// An image that somebody else built, in place of the workflow's own. Only where the workflow names `image` in
    /// `parameters`, or the image in `on.build`.
    pub image: Option<Image>,
    /// A cluster that somebody offered, in place of the workflow's own, and who did. Only where the workflow wants it in
    /// `on.cluster`.
    pub cluster: Option<(String, ClusterOffer)>,
    /// What caused it.
    pub trigger: Trigger,
    /// Where its end is told, beside those whom the workflow names.
    pub origin: Option<Origin>,
}

/// What came of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The run.
    pub run: RunId,
    /// It was not asked for before.
    pub new: bool,
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such workflow.
    #[error("there is no workflow `{name}`; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The field may not be replaced.
    #[error("the workflow `{workflow}` does not let `{field}` be replaced; it lets: {allowed}")]
    Forbidden {
        /// The workflow.
        workflow: String,
        /// The field.
        field: String,
        /// Those that may be.
        allowed: String,
    },
    /// The workflow cannot be run as it was asked for.
    #[error("the workflow cannot be run as asked: {0}")]
    Invalid(Problems),
    /// The same key came with another wish before.
    #[error("this key came before with another request; it started {run}")]
    Reused {
        /// What came of the first.
        run: RunId,
    },
    /// It may work later.
    #[error("{0}")]
    Later(String),
}

impl Refused {
    pub(crate) fn later(error: impl std::error::Error) -> Self {
        Self::Later(service::worker::chain(&error))
    }

    /// No repetition helps.
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Later(_))
    }
}

/// What is kept of a wish.
#[derive(Debug, Deserialize, Serialize)]
struct Request {
    format: u32,
    key: EventKey,
    /// SHA-256 of what was asked for.
    asked: String,
    run: RunId,
    requested: RunRequested,
}

/// Starts runs.
pub struct Starter {
    ledger: Ledger,
    store: Arc<dyn Store>,
    catalogue: Arc<Catalogue>,
    outbox: Outbox,
}

impl Starter {
    /// Out of this catalogue.
    pub fn new(ledger: Ledger, store: Arc<dyn Store>, catalogue: Arc<Catalogue>, outbox: Outbox) -> Self {
        Self { ledger, store, catalogue, outbox }
    }

    /// Starts a run, or finds the one that this wish started before.
    ///
    /// # Errors
    /// [`Refused`], and nothing was started; after [`Refused::Later`] it may have been: wish again.
    pub async fn start(&self, wish: &Wish) -> Result<Started, Refused> {
        let (name, asked) = (object(&wish.key, &wish.workflow), wish.digest());
        if let Some(before) = self.request(&name).await? {
            return self.again(before, &asked).await;
        }
        let entry = self.entry(wish).await?;
        let set: Vec<_> = wish.set.iter().map(|(field, value)| (field.clone(), value.clone())).collect();
        let set: Vec<_> = set.into_iter().map(|(field, value)| Override { field, value }).collect();
        let existing =
            wish.cluster.as_ref().map(|(_, offer)| serde_json::to_value(offer).unwrap_or_default());
        let resolved = entry.resolve(&set, existing).await.map_err(|mut problems| {
            for problem in problems.0.iter_mut().filter(|_| wish.cluster.is_some()) {
                if problem.file == "--set" {
                    "the offer".clone_into(&mut problem.file);
                }
            }
            Refused::Invalid(problems)
        })?;
        if let Some((source, offer)) = &wish.cluster {
            self.allowed(&entry, source, offer).await?;
        }
        let mut workflow = resolved.workflow;
        for archive in resolved.archives {
            self.store.create(&archive.object, archive.bytes).await.map_err(Refused::later)?;
        }
        if let Some(image) = &wish.image {
            workflow.image = Some(ImageSpec::Prebuilt(image.clone()));
        }
        let run = run_id(&wish.key, &workflow.name).map_err(Refused::later)?;
        let (trigger, origin) = (wish.trigger.clone(), wish.origin.clone());
        let requested = RunRequested { workflow, trigger, origin };
        let request = Request { format: 1, key: wish.key.clone(), asked: asked.clone(), run, requested };
        let body = serde_json::to_vec(&request).map_err(Refused::later)?;
        // The hint first: a hint without a request is removed, a request without a hint would be forgotten.
        let hint = format!("{HINTS}{}", request.run);
        self.store.create(&hint, name.clone().into()).await.map_err(Refused::later)?;
        match self.store.create(&name, body.into()).await.map_err(Refused::later)? {
            Creation::Created => {
                self.publish(&request).await?;
                Ok(Started { run: request.run, new: true })
            }
            // Somebody was faster, or an answer got lost: what lies there counts.
            Creation::Exists => match self.request(&name).await? {
                Some(before) => self.again(before, &asked).await,
                None => Err(Refused::Later(format!("{name} is there and cannot be read"))),
            },
        }
    }

    /// Publishes requests again that no conductor recorded yet.
    ///
    /// # Errors
    /// What may pass.
    pub async fn recover(&self) -> Result<(), Refused> {
        for hint in self.store.list(HINTS).await.map_err(Refused::later)? {
            let run = hint.strip_prefix(HINTS).and_then(|run| run.parse::<RunId>().ok());
            let recorded = match &run {
                Some(run) => !self.ledger.since(run, 0).await.map_err(Refused::later)?.is_empty(),
                None => true,
            };
            if !recorded {
                let name = self.store.read(&hint).await.map_err(Refused::later)?.unwrap_or_default();
                let name = String::from_utf8_lossy(&name).into_owned();
                if let Some(request) = self.request(&name).await? {
                    self.publish(&request).await?;
                    continue;
                }
                // Whoever left the hint may be about to create the request. A later look finds one or the other.
                continue;
            }
            self.store.remove(&hint).await.map_err(Refused::later)?;
        }
        Ok(())
    }

    async fn again(&self, before: Request, asked: &str) -> Result<Started, Refused> {
        if before.asked != asked {
            return Err(Refused::Reused { run: before.run });
        }
        if self.ledger.since(&before.run, 0).await.map_err(Refused::later)?.is_empty() {
            self.publish(&before).await?;
        }
        Ok(Started { run: before.run, new: false })
    }

    async fn request(&self, name: &str) -> Result<Option<Request>, Refused> {
        let Some(body) = self.store.read(name).await.map_err(Refused::later)? else { return Ok(None) };
        serde_json::from_slice(&body).map(Some).map_err(Refused::later)
    }

    async fn publish(&self, request: &Request) -> Result<(), Refused> {
        let fact = Fact::RunRequested(Box::new(request.requested.clone()));
        self.outbox.tell_run(request.run.clone(), Attempt::FIRST, fact).await.map_err(Refused::later)
    }

    async fn entry(&self, wish: &Wish) -> Result<Entry, Refused> {
        let list = |mut names: Vec<String>| {
            names.sort();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let mut read = self.catalogue.read().await.map_err(Refused::later)?;
        let Some(entry) = read.workflows.remove(&wish.workflow) else {
            let known = list(read.workflows.into_keys().collect());
            return Err(Refused::Unknown { name: wish.workflow.clone(), known });
        };
        let allowed = &entry.offered.parameters;
        let built = |image: &Image| {
            let of =
                |name: &String| image.reference.strip_prefix(name).is_some_and(|rest| rest.starts_with('@'));
            entry.offered.on.build.iter().any(|on| on.image.as_ref().is_some_and(of))
        };
        let image = "image".to_owned();
        let fed = wish.image.as_ref().filter(|image| !built(image)).map(|_| &image);
        let cluster = "cluster".to_owned();
        let wanted = |(source, offer): &(String, ClusterOffer)| {
            let offer = Offer { source, system: offer.kind(), name: &offer.name };
            entry.offered.on.cluster.iter().any(|on| on.wants(offer))
        };
        let fed = fed.into_iter().chain(wish.cluster.as_ref().filter(|it| !wanted(it)).map(|_| &cluster));
        match wish.set.keys().chain(fed).find(|field| !allowed.contains(field)) {
            Some(field) => Err(Refused::Forbidden {
                workflow: wish.workflow.clone(),
                field: field.clone(),
                allowed: list(allowed.clone()),
            }),
            None => Ok(entry),
        }
    }
}

impl Starter {
    /// An offer chooses the size of the job. Settings that decide which programs run or where files lie need the workflow's
    /// permission.
    async fn allowed(&self, entry: &Entry, source: &str, offer: &ClusterOffer) -> Result<(), Refused> {
        let kind = offer.kind();
        let settings = |system: &serde_json::Value| system.get(kind).cloned();
        let offered =
            serde_json::to_value(&offer.system).ok().as_ref().and_then(settings).unwrap_or_default();
        let own =
            entry.resolve(&[], None).await.ok().and_then(|resolved| match resolved.workflow.cluster? {
                ClusterSpec::Existing { system, .. } => {
                    serde_json::to_value(system).ok().as_ref().and_then(settings)
                }
                ClusterSpec::Rent(_) => None,
            });
        let usual = usual(&offer.system);
        let known = Offer { source, system: kind, name: &offer.name };
        let wanting = entry.offered.on.cluster.iter().filter(|on| on.wants(known));
        let refusals = wanting.map(|on| on.refuses(&offered, own.as_ref(), &usual));
        // One trigger that allows all of it is enough.
        let Some(refused) = refusals.min_by_key(Vec::len).filter(|refused| !refused.is_empty()) else {
            return Ok(());
        };
        let problem = |(field, message): (String, String)| workflow::Problem {
            file: "the offer".to_owned(),
            position: None,
            field: format!("cluster.existing.system.{kind}.{field}"),
            message,
        };
        Err(Refused::Invalid(Problems(refused.into_iter().map(problem).collect())))
    }
}

/// Default settings of a cluster of this kind.
fn usual(system: &OfferedSystem) -> serde_json::Value {
    let least = serde_json::json!({"nodes": 1, "shared_folder": ""});
    let least = match system {
        OfferedSystem::Slurm(_) => {
            serde_json::from_value(least).map(|slurm: Slurm| serde_json::to_value(slurm))
        }
        OfferedSystem::Kubernetes(_) => serde_json::from_value(serde_json::json!({"nodes": 1}))
            .map(|kubernetes: Kubernetes| serde_json::to_value(kubernetes)),
    };
    least.ok().and_then(Result::ok).unwrap_or_default()
}

impl Wish {
    fn digest(&self) -> String {
        // Maps are sorted and structs have their order, so equal wishes have equal bytes. Who asked is no part of it.
        let asked = (&self.workflow, &self.set, &self.image);
        let asked = match &self.cluster {
            None => serde_json::to_vec(&asked),
            Some(offered) => serde_json::to_vec(&(asked, offered)),
        };
        hex(&Sha256::digest(asked.unwrap_or_default()))
    }
}

/// One push may start several workflows, so the workflow is a part of the key; but a caller's key is used once.
fn object(key: &EventKey, workflow: &str) -> String {
    let scope = if key.source.starts_with(CALLERS) { "" } else { workflow };
    let digest = hex(&digest(&[&key.source, &key.id, scope]));
    format!("{REQUESTS}{}.json", digest.get(..32).unwrap_or(&digest))
}

/// Sources of keys that callers choose.
pub(crate) const CALLERS: &str = "//burnin/callers/";

fn run_id(key: &EventKey, workflow: &str) -> Result<RunId, model::InvalidId> {
    let digest = hex(&digest(&[&key.source, &key.id, workflow]));
    format!("{}-{}", workflow.trim_end_matches('-'), digest.get(..12).unwrap_or(&digest)).parse()
}

/// Of parts that no other parts have.
pub(crate) fn digest(parts: &[&str]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().to_vec()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
