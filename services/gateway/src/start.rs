//! Starts a run for a request: once, even after repetitions, lost messages and crashes.

use std::{collections::BTreeMap, sync::Arc};

use events::ClusterOffer;
use ledger::{Creation, Ledger, Store};
use model::{
    Attempt, ClusterSpec, EventKey, Fact, Image, ImageSpec, Origin, Push, RunId, RunRequested,
    SourceRepository, System, Trigger,
};
use serde::{Deserialize, Serialize};
use service::Publisher;
use sha2::{Digest, Sha256};
use triggers::{OfferedCluster, OnPush, Triggers};
use workflow::{FileProblems, Override};

use crate::{Catalogue, catalogue::CatalogueEntry};

/// Prefix of stored requests.
const REQUESTS: &str = "requests/";
/// Prefix of hints: requests that may not be recorded yet.
const HINTS: &str = "requests/open/";

#[derive(Clone, Debug)]
pub struct StartRequest {
    /// Idempotency key: requests with the same key start one run, regardless of the time between them.
    pub key: EventKey,
    pub workflow: String,
    /// Overridden fields; only fields that the workflow lists in `parameters` are allowed.
    pub set: BTreeMap<String, String>,
    /// An externally built image, in place of the workflow's own image. Allowed only if the workflow lists `image` in `parameters`,
    /// or names the image in `on.build`.
    pub image: Option<Image>,
    /// An offered cluster and its source, in place of the workflow's own cluster. Allowed only if the workflow accepts the cluster
    /// in `on.cluster`.
    pub cluster: Option<(String, ClusterOffer)>,
    /// Cause, recorded with the run.
    pub trigger: Trigger,
    /// Receiver of the result, in addition to the channels of the workflow.
    pub origin: Option<Origin>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOutcome {
    /// Id of the new or existing run.
    pub run: RunId,
    /// Whether this request created the run.
    pub new: bool,
}

/// Reason why no run was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("no workflow `{name}`; available: {known}")]
    Unknown {
        name: String,
        /// Available workflows.
        known: String,
    },
    /// The field must not be overridden.
    #[error("workflow `{workflow}` does not allow overriding `{field}`; allowed: {allowed}")]
    Forbidden {
        workflow: String,
        field: String,
        /// Fields that may be overridden.
        allowed: String,
    },
    /// The workflow is invalid with these settings.
    #[error("the workflow cannot run with these settings: {0}")]
    Invalid(FileProblems),
    /// The key was used before for another request.
    #[error(
        "this key was used before for another request, which started {run}; a new request needs a new key"
    )]
    Reused {
        /// Run of the first request.
        run: RunId,
    },
    /// Transient error; retry later.
    #[error("{0}")]
    Transient(String),
}

impl StartError {
    pub(crate) fn transient(error: impl std::error::Error) -> Self {
        Self::Transient(service::worker::chain(&error))
    }

    /// Whether a retry cannot succeed.
    pub const fn is_permanent(&self) -> bool {
        !matches!(self, Self::Transient(_))
    }
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredRequest {
    format: u32,
    key: EventKey,
    /// SHA-256 of the request.
    asked: String,
    run: RunId,
    requested: RunRequested,
}

pub struct Starter {
    ledger: Ledger,
    store: Arc<dyn Store>,
    catalogue: Arc<Catalogue>,
    publisher: Publisher,
}

impl Starter {
    /// `catalogue`: available workflows.
    pub fn new(
        ledger: Ledger,
        store: Arc<dyn Store>,
        catalogue: Arc<Catalogue>,
        publisher: Publisher,
    ) -> Self {
        Self { ledger, store, catalogue, publisher }
    }

    /// Starts a run, or returns the one that an earlier request with this key started.
    ///
    /// # Errors
    /// Returns an error if no run was started. After [`StartError::Transient`] the outcome is unknown: retry with the
    /// same key.
    pub async fn start(&self, request: &StartRequest) -> Result<StartOutcome, StartError> {
        let (name, digest) = (object(&request.key, &request.workflow), request.digest());
        if let Some(before) = self.request(&name).await? {
            return self.handle_repeated_request(before, &digest).await;
        }
        let entry = self.entry(request).await?;
        let set: Vec<_> = request.set.iter().map(|(field, value)| (field.clone(), value.clone())).collect();
        let set: Vec<_> = set.into_iter().map(|(field, value)| Override { field, value }).collect();
        let existing =
            request.cluster.as_ref().map(|(_, offer)| serde_json::to_value(offer).unwrap_or_default());
        let resolved = entry.resolve(&set, existing).await.map_err(|mut problems| {
            for problem in problems.0.iter_mut().filter(|_| request.cluster.is_some()) {
                if problem.file == "--set" {
                    "the offer".clone_into(&mut problem.file);
                }
            }
            StartError::Invalid(problems)
        })?;
        if let Some((source, offer)) = &request.cluster {
            self.allowed(&entry, source, offer).await?;
        }
        let mut workflow = resolved.workflow;
        for archive in resolved.archives {
            self.store.create(&archive.object, archive.bytes).await.map_err(StartError::transient)?;
        }
        if let (Some(Origin::Push(push)), Some(ImageSpec::Build(build))) =
            (&request.origin, &mut workflow.image)
            && build.repository.as_ref().is_some_and(|source| pushed_to(&entry.offered.on, push, source))
        {
            build.set_revision(&push.commit);
        }
        if let Some(image) = &request.image {
            workflow.image = Some(ImageSpec::Prebuilt(image.clone()));
        }
        let run = run_id(&request.key, &workflow.name).map_err(StartError::transient)?;
        let (trigger, origin) = (request.trigger.clone(), request.origin.clone());
        let requested = RunRequested { workflow, trigger, origin };
        let stored =
            StoredRequest { format: 1, key: request.key.clone(), asked: digest.clone(), run, requested };
        // Write the hint first: a hint without a request is removed, a request without a hint would be lost.
        let hint = format!("{HINTS}{}", stored.run);
        self.store.create(&hint, name.clone().into()).await.map_err(StartError::transient)?;
        match self.store.create_json(&name, &stored).await.map_err(StartError::transient)? {
            Creation::Created => {
                self.publish(&stored).await?;
                Ok(StartOutcome { run: stored.run, new: true })
            }
            // A concurrent request was faster, or an earlier response was lost: the stored request applies.
            Creation::Exists => match self.request(&name).await? {
                Some(before) => self.handle_repeated_request(before, &digest).await,
                None => Err(StartError::Transient(format!("{name} exists but cannot be read back; retry"))),
            },
        }
    }

    /// Publishes requests that the conductor has not recorded yet.
    ///
    /// # Errors
    /// Returns an error if a request or the bus failed temporarily.
    pub async fn recover(&self) -> Result<(), StartError> {
        for hint in self.store.list(HINTS).await.map_err(StartError::transient)? {
            let run = hint.strip_prefix(HINTS).and_then(|run| run.parse::<RunId>().ok());
            let recorded = match &run {
                Some(run) => self.ledger.exists(run).await.map_err(StartError::transient)?,
                None => true,
            };
            if !recorded {
                let name = self.store.read(&hint).await.map_err(StartError::transient)?.unwrap_or_default();
                let name = String::from_utf8_lossy(&name).into_owned();
                // No stored request: the process that wrote the hint is about to store the request, or ended before. The hint stays,
                // because a repeated request has the same name.
                if let Some(request) = self.request(&name).await? {
                    self.publish(&request).await?;
                }
                continue;
            }
            self.store.remove(&hint).await.map_err(StartError::transient)?;
        }
        Ok(())
    }

    async fn handle_repeated_request(
        &self,
        before: StoredRequest,
        digest: &str,
    ) -> Result<StartOutcome, StartError> {
        if before.asked != digest {
            return Err(StartError::Reused { run: before.run });
        }
        if !self.ledger.exists(&before.run).await.map_err(StartError::transient)? {
            self.publish(&before).await?;
        }
        Ok(StartOutcome { run: before.run, new: false })
    }

    async fn request(&self, name: &str) -> Result<Option<StoredRequest>, StartError> {
        let Some(body) = self.store.read(name).await.map_err(StartError::transient)? else { return Ok(None) };
        serde_json::from_slice(&body).map(Some).map_err(StartError::transient)
    }

    async fn publish(&self, request: &StoredRequest) -> Result<(), StartError> {
        let fact = Fact::RunRequested(Box::new(request.requested.clone()));
        self.publisher
            .publish_run_fact(request.run.clone(), Attempt::FIRST, fact)
            .await
            .map_err(StartError::transient)
    }

    async fn entry(&self, request: &StartRequest) -> Result<CatalogueEntry, StartError> {
        let list = |mut names: Vec<String>| {
            names.sort();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let mut read = self.catalogue.read().await.map_err(StartError::transient)?;
        let Some(entry) = read.workflows.remove(&request.workflow) else {
            let known = list(read.workflows.into_keys().collect());
            return Err(StartError::Unknown { name: request.workflow.clone(), known });
        };
        let allowed = &entry.offered.parameters;
        let built = |image: &Image| {
            let of =
                |name: &String| image.reference.strip_prefix(name).is_some_and(|rest| rest.starts_with('@'));
            entry.offered.on.build.iter().any(|on| on.image.as_ref().is_some_and(of))
        };
        let image = "image".to_owned();
        let fed = request.image.as_ref().filter(|image| !built(image)).map(|_| &image);
        let cluster = "cluster".to_owned();
        let wanted = |(source, offer): &(String, ClusterOffer)| {
            let offer = OfferedCluster { source, system: offer.kind(), name: &offer.name };
            entry.offered.on.cluster.iter().any(|on| on.wants(offer))
        };
        let fed = fed.into_iter().chain(request.cluster.as_ref().filter(|it| !wanted(it)).map(|_| &cluster));
        match request.set.keys().chain(fed).find(|field| !allowed.contains(field)) {
            Some(field) => Err(StartError::Forbidden {
                workflow: request.workflow.clone(),
                field: field.clone(),
                allowed: list(allowed.clone()),
            }),
            None => Ok(entry),
        }
    }
}

impl Starter {
    /// Checks the settings of an offered cluster. The offer sets the job size; settings that decide which programs run or where
    /// files are need the workflow's permission.
    async fn allowed(
        &self,
        entry: &CatalogueEntry,
        source: &str,
        offer: &ClusterOffer,
    ) -> Result<(), StartError> {
        let kind = offer.kind();
        let own =
            entry.resolve(&[], None).await.ok().and_then(|resolved| match resolved.workflow.cluster? {
                ClusterSpec::Existing { system, .. } if system.kind() == kind => Some(system),
                ClusterSpec::Existing { .. } | ClusterSpec::Provisioned(_) => None,
            });
        let own = own.as_ref().map(System::settings);
        let usual = clusters::kind(kind).map(|kind| (kind.form().defaults)()).unwrap_or_default();
        let known = OfferedCluster { source, system: kind, name: &offer.name };
        let wanting = entry.offered.on.cluster.iter().filter(|on| on.wants(known));
        let refusals = wanting.map(|on| on.refuses(offer.system.settings(), own, &usual));
        // One trigger that allows all settings is enough.
        let Some(refused) = refusals.min_by_key(Vec::len).filter(|refused| !refused.is_empty()) else {
            return Ok(());
        };
        let problem = |(field, message): (String, String)| workflow::FileProblem {
            file: "the offer".to_owned(),
            field: format!("cluster.existing.system.{kind}.{field}"),
            message,
            ..workflow::FileProblem::default()
        };
        Err(StartError::Invalid(FileProblems(refused.into_iter().map(problem).collect())))
    }
}

impl StartRequest {
    fn digest(&self) -> String {
        // Maps are sorted and struct fields ordered, so equal requests have equal bytes. The caller is not part of the
        // bytes.
        let request = (&self.workflow, &self.set, &self.image);
        let request = match &self.cluster {
            None => serde_json::to_vec(&request),
            Some(offered) => serde_json::to_vec(&(request, offered)),
        };
        hex::encode(Sha256::digest(request.unwrap_or_default()))
    }
}

/// Name of the object that stores a request. A push may start several workflows, so the name depends on the workflow too; a caller's key
/// starts only one workflow.
fn object(key: &EventKey, workflow: &str) -> String {
    let scope = if key.source.starts_with(CALLERS) { "" } else { workflow };
    let digest = hex::encode(digest(&[&key.source, &key.id, scope]));
    format!("{REQUESTS}{}.json", digest.get(..32).unwrap_or(&digest))
}

/// Source of keys chosen by callers.
pub(crate) const CALLERS: &str = "//burnin/callers/";

fn run_id(key: &EventKey, workflow: &str) -> Result<RunId, model::InvalidId> {
    let digest = hex::encode(digest(&[&key.source, &key.id, workflow]));
    format!("{}-{}", workflow.trim_end_matches('-'), digest.get(..12).unwrap_or(&digest)).parse()
}

/// Whether a push belongs to the source repository of a build: both have the same `owner/name`, or the trigger for the pushed
/// repository has the address of the source.
fn pushed_to(on: &Triggers, push: &Push, source: &SourceRepository) -> bool {
    let same_url = |on: &OnPush| on.concerns(&push.repository) && on.url.as_ref() == Some(&source.url);
    source.is_named(&push.repository) || on.push.iter().any(same_url)
}

/// Digest of the parts. Each part is hashed with its length, so different lists have different bytes.
pub(crate) fn digest(parts: &[&str]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().to_vec()
}
