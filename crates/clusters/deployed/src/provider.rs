//! Clusters deployed and destroyed by build steps: a deployment is a build, and so is a teardown.
//!
//! ```text
//! clusters/open/{name}           the request, written before the deployment starts; removed when no resource is left
//! clusters/{name}/given-back     released: no deployment may start
//! clusters/{name}/failed-{n}     teardown n failed: time and reason
//! clusters/{name}/gone           confirmation that no resource is left
//! clusters/{name}/state/         files of the steps
//! ```
//!
//! Kept parts have separate objects: see [`kept`].
//!
//! All objects are in the artefact bucket, so that any process with access to the bucket can destroy the cluster. A failed teardown is
//! repeated with growing delays until one reports that no resource is left.

use std::{collections::BTreeMap, sync::Arc};

use build_service::{BuildKey, BuildPhase, Builds};
use cluster_api::{
    ClusterKind, ClusterListing, ClusterProvider, ClusterStatus, LeaseRequest, ListedCluster, SettingsForm,
};
use ledger::{ArtefactError, Artefacts, Creation, Store};
use model::{
    BuildSpec, Class, Cluster, ClusterAccess, CommandId, DEPLOYED, Deleted, Failure, Image, Span, Timestamp,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use service::{Clock, PortError};
use tokio::io::AsyncReadExt;
use tracing::{info, warn};

use crate::{
    Deployed, DeployedCluster, Destroyed,
    kept::{self, KEEP, KeptPart, KeptParts},
};

/// Timeout of a teardown, after which it is restarted.
const LONGEST_TEARDOWN: Span = Span::from_secs(2 * 3600);
/// Delay after the first failed teardown; doubled after each further failure.
const FIRST_PAUSE: Span = Span::from_secs(30);
const LONGEST_PAUSE: Span = Span::from_secs(1800);

const OPEN: &str = "clusters/open/";

/// Clusters deployed and destroyed by builds.
pub struct DeployedClusters {
    kinds: &'static [&'static dyn ClusterKind],
    builds: Arc<dyn Builds>,
    store: Arc<dyn Store>,
    artefacts: Artefacts,
    clock: Arc<dyn Clock>,
}

/// The request, recorded before the deployment starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DeployRequest {
    command: String,
    expires_at: Timestamp,
    deployed: Deployed,
    /// Kept parts that the deployment uses: the name of each part, and the cluster that created it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    uses: BTreeMap<String, String>,
    /// The kept parts to release; `None` if the request is for a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<KeptParts>,
}

impl DeployRequest {
    /// Parts that this cluster creates and keeps for later runs.
    fn keeps(&self) -> impl Iterator<Item = (&String, Span)> {
        let created = self.deployed.keep.iter().filter(|(part, _)| !self.uses.contains_key(*part));
        created.filter(|_| self.kept.is_none()).map(|(part, span)| (part, *span))
    }
}

/// Record of a failed teardown, with its time and reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ReleaseFailure {
    at: Timestamp,
    why: String,
}

impl DeployedClusters {
    /// `kinds`: kinds of clusters that the steps may provision. `builds` runs the steps; their files are in `store`.
    pub fn new(
        kinds: &'static [&'static dyn ClusterKind],
        builds: Arc<dyn Builds>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let artefacts = Artefacts::new(Arc::clone(&store));
        Self { kinds, builds, store, artefacts, clock }
    }

    /// Whether a cluster of this name was requested.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn was_requested(&self, name: &str) -> Result<bool, PortError> {
        Ok(self.has(&(OPEN.to_owned() + name)).await? || self.has(&note_path(name, "gone")).await?)
    }

    async fn has(&self, object: &str) -> Result<bool, PortError> {
        self.store.read(object).await.map(|found| found.is_some()).map_err(PortError::transient)
    }

    async fn get<T: DeserializeOwned>(&self, object: &str) -> Result<Option<T>, PortError> {
        self.artefacts.get(object).await.map_err(PortError::from)
    }

    async fn create_note<T: Serialize + Sync>(
        &self,
        object: &str,
        content: &T,
    ) -> Result<Creation, PortError> {
        Ok(self.store.create_json(object, content).await?)
    }

    /// The build, with the substitutions that Burnin sets and the build's config declares.
    fn with_own_substitutions(
        &self,
        name: &str,
        request: &DeployRequest,
        command: &CommandId,
        build: &BuildSpec,
    ) -> BuildSpec {
        // For kept parts, the steps receive the name and state folder of the cluster that created the parts.
        let name = request.kept.as_ref().map_or(name, |kept| &kept.cluster);
        let state = self.store.locate(&note_path(name, "state"));
        let mut all = BTreeMap::from([
            ("_CLUSTER".to_owned(), name.to_owned()),
            ("_RUN".to_owned(), command.run.to_string()),
            ("_EXPIRES".to_owned(), request.expires_at.as_millis().div_euclid(1000).to_string()),
            ("_STATE".to_owned(), state),
        ]);
        all.extend(request.uses.iter().map(|(part, cluster)| (kept::substitution(part), cluster.clone())));
        all.retain(|name, _| build.config["substitutions"].get(name).is_some());
        let mut build = build.clone();
        build.substitutions.extend(all);
        build
    }

    /// Parts kept for later clusters that the new cluster can use: name of the part, and the existing cluster with a lease on it until after
    /// `expires_at`.
    async fn usable_parts(
        &self,
        deployed: &Deployed,
        expires_at: Timestamp,
    ) -> Result<BTreeMap<String, String>, PortError> {
        let key = kept::key(&deployed.deploy);
        let mut uses = BTreeMap::new();
        for part in deployed.keep.keys() {
            let objects =
                self.store.list(&kept::object(&key, part, "")).await.map_err(PortError::transient)?;
            let mut longest: Option<KeptPart> = None;
            for object in objects {
                let Some(found) = self.get::<KeptPart>(&object).await? else { continue };
                let released = self.has(&note_path(&kept::name_of(&found.cluster), "given-back")).await?;
                let lives = !released && found.expires_at > expires_at;
                if lives && longest.as_ref().is_none_or(|longest| found.expires_at > longest.expires_at) {
                    longest = Some(found);
                }
            }
            uses.extend(longest.map(|found| (part.clone(), found.cluster)));
        }
        Ok(uses)
    }

    /// An existing cluster that uses the kept parts of this name, if any.
    async fn user_of(&self, name: &str) -> Result<Option<String>, PortError> {
        for object in self.store.list(OPEN).await? {
            let Some(user) = object.strip_prefix(OPEN) else { continue };
            let Ok(Some((request, _))) = self.stored_request(user).await else { continue };
            let uses = request.uses.values().any(|cluster| kept::name_of(cluster) == name);
            if uses && request.kept.is_none() && !self.has(&note_path(user, "gone")).await? {
                return Ok(Some(user.to_owned()));
            }
        }
        Ok(None)
    }

    /// Records the parts that a teardown has kept: first as a separate cluster, which the sweeper releases, then for
    /// later runs.
    async fn leave_parts(&self, name: &str, original: &DeployRequest) -> Result<Vec<String>, PortError> {
        let longest = original.keeps().map(|(_, span)| span).max();
        let Some(longest) = longest else { return Ok(Vec::new()) };
        let (key, now) = (kept::key(&original.deployed.deploy), self.clock.now());
        let request = DeployRequest {
            expires_at: now + longest,
            kept: Some(KeptParts { cluster: name.to_owned() }),
            ..original.clone()
        };
        let open = OPEN.to_owned() + &kept::name_of(name);
        // After a crash, the request of the earlier attempt determines the lease, so that no part is used beyond its recorded lease.
        let until = match self.create_note(&open, &request).await? {
            Creation::Created => request.expires_at,
            Creation::Exists => match self.get::<DeployRequest>(&open).await? {
                Some(earlier) => earlier.expires_at,
                // The sweeper has already released the parts.
                None => return Ok(Vec::new()),
            },
        };
        let mut left = Vec::new();
        for (part, span) in original.keeps() {
            let content = KeptPart { cluster: name.to_owned(), expires_at: until.min(now + span) };
            self.create_note(&kept::object(&key, part, name), &content).await?;
            left.push(format!("{part} until {}", content.expires_at));
        }
        Ok(left)
    }

    async fn deployment_status(
        &self,
        name: &str,
        deployed: &Deployed,
        image: &Image,
    ) -> Result<ClusterStatus, PortError> {
        let made = match self.read_build_file::<DeployedCluster>(image, "cluster.json").await? {
            Ok(made) => made,
            Err(why) => return Ok(ClusterStatus::Broken(format!("the deployment's {why}"))),
        };
        // Steps may succeed although a playbook failed: do not benchmark a partial cluster.
        if let Some(problem) = self.ansible_failure(image).await? {
            return Ok(ClusterStatus::Broken(problem));
        }
        let kind = deployed.system.kind();
        let Some(kind) = self.kinds.iter().find(|known| known.form().kind == kind && known.can_be_deployed())
        else {
            return Ok(ClusterStatus::Broken(format!(
                "a cluster of kind {kind} cannot be deployed by steps"
            )));
        };
        Ok(ready(name, self.kinds, kind.form(), deployed, made)
            .unwrap_or_else(|why| ClusterStatus::Broken(format!("cluster.json: {why}"))))
    }

    /// Failures in Ansible's events: host, task and reason. The `.jsonl` files of the steps contain these events, as written by the
    /// callback `ansible.posix.jsonl`.
    async fn ansible_failure(&self, image: &Image) -> Result<Option<String>, PortError> {
        for file in image.files.iter().filter(|file| file.name.ends_with(".jsonl")) {
            let object = image.reference.clone() + &file.name;
            let Some(mut events) = self.store.open(&object).await.map_err(PortError::transient)? else {
                return Ok(Some(format!("the deployment's {} is not in the bucket", file.name)));
            };
            let (mut reader, mut piece) = (ansible_events::EventReader::default(), vec![0; 64 << 10]);
            loop {
                match events.read(&mut piece).await.map_err(PortError::transient)? {
                    0 => break,
                    length => reader.take(&piece[..length]),
                }
            }
            let findings = reader.findings();
            if !findings.is_success() {
                return Ok(Some(format!("{}: {}", file.name, findings.problems().join("; "))));
            }
        }
        Ok(None)
    }

    /// Reads a file of a build. The inner error is permanent: the file is missing or invalid.
    async fn read_build_file<T: DeserializeOwned>(
        &self,
        image: &Image,
        file: &str,
    ) -> Result<Result<T, String>, PortError> {
        if !image.files.iter().any(|left| left.name == file) {
            return Ok(Err(format!("steps did not write {file}")));
        }
        match self.artefacts.get(&(image.reference.clone() + file)).await {
            Ok(Some(found)) => Ok(Ok(found)),
            Ok(None) => Ok(Err(format!("{file} is not in the bucket"))),
            Err(ArtefactError::Store(error)) => Err(PortError::transient(error)),
            Err(ArtefactError::Damaged { why, .. }) => Ok(Err(format!("{file} cannot be read: {why}"))),
        }
    }

    /// Numbers of the failed teardowns, and the record of the last failure.
    async fn failed(&self, name: &str) -> Result<(u32, Option<ReleaseFailure>), PortError> {
        let prefix = note_path(name, "failed-");
        let noted = self.store.list(&prefix).await.map_err(PortError::transient)?;
        let numbers = noted.iter().filter_map(|object| object.strip_prefix(&prefix)?.parse::<u32>().ok());
        match numbers.max() {
            None => Ok((0, None)),
            Some(last) => Ok((last, self.get(&format!("{prefix}{last}")).await?)),
        }
    }

    /// Advances the teardown by one step. `keep`: names of the parts that the teardown does not delete.
    async fn destroy(
        &self,
        name: &str,
        request: &DeployRequest,
        command: &CommandId,
        keep: &str,
    ) -> Result<Destroyed, PortError> {
        let (last, failed) = self.failed(name).await?;
        let word = if request.kept.is_some() { "release" } else { "destroy" };
        let key = BuildKey::numbered(command, word, last + 1);
        let going = |what: &str| Err(PortError::Transient(format!("{name}: {what}")));
        match self.builds.poll(&key).await? {
            Some(BuildPhase::Running) => going("its teardown is running"),
            Some(BuildPhase::Built(image)) => {
                match self.read_build_file::<Destroyed>(&image, "gone.json").await? {
                    Ok(destroyed) if destroyed.left.is_empty() => Ok(destroyed),
                    Ok(Destroyed { left, .. }) => {
                        self.record_failed_teardown(
                            name,
                            last + 1,
                            format!("still existing: {}", left.join(", ")),
                        )
                        .await
                    }
                    Err(why) => {
                        self.record_failed_teardown(name, last + 1, format!("the teardown's {why}")).await
                    }
                }
            }
            Some(BuildPhase::Failed(failure)) => {
                self.record_failed_teardown(name, last + 1, failure.message).await
            }
            None => {
                if let Some(failed) = failed {
                    let pause = FIRST_PAUSE.0 * 2_u32.saturating_pow((last - 1).min(16));
                    let next = failed.at + Span(pause.min(LONGEST_PAUSE.0));
                    if self.clock.now() < next {
                        return going(&format!(
                            "{} (failed teardowns: {last}; next attempt at {next})",
                            failed.why
                        ));
                    }
                }
                let mut build =
                    self.with_own_substitutions(name, request, command, &request.deployed.destroy);
                if !keep.is_empty() {
                    build.substitutions.insert(KEEP.to_owned(), keep.to_owned());
                }
                let handle = self.builds.start(&key, &build, LONGEST_TEARDOWN).await?;
                info!(cluster = name, handle, "teardown started");
                going("teardown started")
            }
        }
    }

    async fn record_failed_teardown(
        &self,
        name: &str,
        number: u32,
        why: String,
    ) -> Result<Destroyed, PortError> {
        warn!(cluster = name, number, "teardown failed: {why}");
        let failed = ReleaseFailure { at: self.clock.now(), why: why.clone() };
        self.create_note(&note_path(name, &format!("failed-{number}")), &failed).await?;
        Err(PortError::Transient(format!("{name}: {why}")))
    }

    async fn stored_request(&self, name: &str) -> Result<Option<(DeployRequest, CommandId)>, PortError> {
        let Some(request) = self.get::<DeployRequest>(&(OPEN.to_owned() + name)).await? else {
            return Ok(None);
        };
        let command = request.command.parse().map_err(PortError::transient)?;
        Ok(Some((request, command)))
    }

    fn deletion(&self, name: &str, evidence: String) -> Deleted {
        Deleted { name: name.to_owned(), evidence, confirmed_at: self.clock.now() }
    }
}

fn note_path(name: &str, what: &str) -> String {
    format!("clusters/{name}/{what}")
}

/// The cluster for jobs: settings of the workflow, completed by the deployment.
fn ready(
    name: &str,
    kinds: &[&dyn ClusterKind],
    form: SettingsForm,
    deployed: &Deployed,
    made: DeployedCluster,
) -> Result<ClusterStatus, String> {
    let DeployedCluster { mut nodes, settings } = made;
    let mut completed = deployed.system.settings().clone();
    for (kind, overrides) in settings {
        if !kinds.iter().any(|known| known.form().kind == kind) {
            return Err(format!("unknown field `{kind}`"));
        }
        let overrides =
            overrides.as_object().ok_or_else(|| format!("{kind}: expected an object, found {overrides}"))?;
        if kind != form.kind && !overrides.is_empty() {
            return Err(format!("{kind}: the workflow's cluster is of kind {}", form.kind));
        }
        for (setting, value) in overrides {
            completed[setting] = value.clone();
        }
    }
    let settings = (form.complete)(&completed).map_err(|problems| first_problem(form.kind, problems))?;
    let layout = (form.layout)(&settings)
        .ok_or_else(|| format!("{}: the settings do not determine the number of nodes", form.kind))?;
    if nodes.len() != layout.nodes as usize {
        return Err(format!("expected {} nodes, found {}", layout.nodes, nodes.len()));
    }
    if let Some(node) = nodes.iter().find(|node| node.slots != layout.ranks_per_node) {
        let (name, slots, ranks) = (&node.name, node.slots, layout.ranks_per_node);
        return Err(format!("node {name} has {slots} slots, but jobs have {ranks} ranks per node"));
    }
    for node in &mut nodes {
        node.gpus = node.gpus.or(layout.gpus_per_node);
    }
    let access = ClusterAccess::new(form.kind, settings);
    Ok(ClusterStatus::Ready(Cluster { name: name.to_owned(), nodes, access }))
}

/// Text of the first problem, with the name of its field.
fn first_problem(kind: &str, problems: Vec<(String, String)>) -> String {
    match problems.into_iter().next() {
        Some((field, problem)) if field.is_empty() => format!("{kind}: {problem}"),
        Some((field, problem)) => format!("{kind}.{field}: {problem}"),
        None => format!("{kind}: invalid settings"),
    }
}

fn already_released(name: &str) -> PortError {
    let why = format!("{name} was released; names are not reused");
    PortError::Permanent(Failure::new(Class::Cancelled, "GIVEN_BACK", why))
}

#[async_trait::async_trait]
impl ClusterProvider for DeployedClusters {
    async fn create(&self, order: &LeaseRequest) -> Result<String, PortError> {
        let refused = |why: String| PortError::Permanent(Failure::new(Class::Input, "NOT_FOR_RENT", why));
        if order.system.kind() != DEPLOYED {
            let kind = order.system.kind();
            return Err(refused(format!(
                "a cluster of kind {kind} is not deployed by steps; write `cluster.rent.deployed`, or `cluster.existing` for {kind}"
            )));
        }
        let deployed: Deployed =
            order.system.read().map_err(|error| refused(format!("cluster.rent.deployed: {error}")))?;
        let name = &order.name;
        let (mark, open) = (note_path(name, "given-back"), OPEN.to_owned() + name);
        if self.has(&mark).await? {
            return Err(already_released(name));
        }
        // A repeated command uses the same parts as the first.
        let request = match self.get(&open).await? {
            Some(request) => request,
            None => DeployRequest {
                command: order.id.to_string(),
                expires_at: order.expires_at,
                uses: self.usable_parts(&deployed, order.expires_at).await?,
                deployed: deployed.clone(),
                kept: None,
            },
        };
        self.create_note(&open, &request).await?;
        // A deletion writes its mark before it reads the request, and a deployment writes the request before it reads
        // the mark. Therefore the deletion finds the request, or the deployment finds the mark.
        if self.has(&mark).await? {
            return Err(already_released(name));
        }
        let build = self.with_own_substitutions(name, &request, &order.id, &deployed.deploy);
        let life = order.expires_at.since(self.clock.now());
        self.builds.start(&BuildKey::of(&order.id), &build, life).await
    }

    async fn poll(&self, name: &str) -> Result<ClusterStatus, PortError> {
        if self.has(&note_path(name, "given-back")).await? {
            return Ok(ClusterStatus::Absent);
        }
        let Some((request, command)) = self.stored_request(name).await? else {
            return Ok(ClusterStatus::Absent);
        };
        match self.builds.poll(&BuildKey::of(&command)).await? {
            None => Ok(ClusterStatus::Absent),
            Some(BuildPhase::Running) => Ok(ClusterStatus::Starting),
            Some(BuildPhase::Built(image)) => self.deployment_status(name, &request.deployed, &image).await,
            Some(BuildPhase::Failed(failure)) => Ok(ClusterStatus::Broken(failure.message)),
        }
    }

    async fn delete(&self, name: &str) -> Result<Deleted, PortError> {
        // Recorded first, so that no later run uses the parts.
        self.create_note(&note_path(name, "given-back"), &self.clock.now()).await?;
        if let Some(user) = self.user_of(name).await? {
            let why = format!(
                "cluster {user} uses these parts; later runs cannot use them; release them again after it is deleted"
            );
            return Err(PortError::Transient(why));
        }
        let open = OPEN.to_owned() + name;
        let deleted = match self.get::<Deleted>(&note_path(name, "gone")).await? {
            Some(deleted) => deleted,
            None => {
                let Some((request, command)) = self.stored_request(name).await? else {
                    return Ok(self.deletion(name, "no cluster of this name was ever requested".to_owned()));
                };
                let deployment = BuildKey::of(&command);
                // A running deployment would recreate the resources that the teardown deletes.
                if matches!(self.builds.poll(&deployment).await?, None | Some(BuildPhase::Running)) {
                    self.builds.cancel(&deployment).await?;
                    if matches!(self.builds.poll(&deployment).await?, None | Some(BuildPhase::Running)) {
                        return Err(PortError::Transient(format!("{name}: its deployment is being stopped")));
                    }
                }
                // A failed deployment may have created incomplete parts: the teardown deletes them too.
                let is_whole = matches!(self.builds.poll(&deployment).await?, Some(BuildPhase::Built(_)));
                let keep: Vec<_> =
                    request.keeps().filter(|_| is_whole).map(|(part, _)| part.as_str()).collect();
                let Destroyed { mut evidence, .. } =
                    self.destroy(name, &request, &command, &keep.join(",")).await?;
                if !keep.is_empty() {
                    let left = self.leave_parts(name, &request).await?;
                    if !left.is_empty() {
                        evidence += &format!("; kept: {}", left.join(", "));
                    }
                }
                let deleted = self.deletion(name, evidence);
                self.create_note(&note_path(name, "gone"), &deleted).await?;
                deleted
            }
        };
        self.store.remove(&open).await.map_err(PortError::transient)?;
        Ok(deleted)
    }

    async fn list(&self) -> Result<ClusterListing, PortError> {
        let open = self.store.list(OPEN).await.map_err(PortError::transient)?;
        let mut clusters = Vec::new();
        for name in open.iter().filter_map(|object| object.strip_prefix(OPEN)) {
            if self.has(&note_path(name, "gone")).await? {
                continue;
            }
            let (run, expires_at) = match self.stored_request(name).await {
                Ok(Some((request, command))) => (command.run.to_string(), Some(request.expires_at)),
                Ok(None) => continue,
                // A cluster may exist although its request is unreadable: list it without labels, so that an operator
                // checks it.
                Err(PortError::Permanent(_)) => (String::new(), None),
                Err(passing) => return Err(passing),
            };
            clusters.push(ListedCluster { name: name.to_owned(), run, expires_at });
        }
        Ok(ClusterListing { at: self.clock.now(), clusters })
    }
}
