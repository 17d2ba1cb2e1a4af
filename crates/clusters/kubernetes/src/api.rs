//! The requests to the Kubernetes API that a job needs. Objects are read again for every decision, never cached.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Node, Pod, Secret},
    scheduling::v1::PriorityClass,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy,
    },
};
use model::{Class, Drained, Failure};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use service::PortError;

use crate::{
    Kubernetes,
    apiserver::{port_error, typed, with_timeout},
    client,
    lookup::{self, KUEUE},
    manifest, names,
    objects::{JobSet, KueueWorkload, text},
};

/// Annotation with the reason why a node was drained.
const DRAINED: &str = "burnin.dev/drained";

/// Error of a failed request to read or change a node. `code`: failure code if access is denied.
fn cordon_refused(error: &kube::Error, code: &str) -> PortError {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            let why = format!(
                "the configured access has no permission to cordon nodes; grant it the cluster roles burnin-nodes and \
                 burnin-drain of workflows/a4-gke-testbed/rbac.yaml: {}",
                status.message
            );
            PortError::Permanent(Failure::new(Class::Input, code, why))
        }
        error => port_error(error, "Node"),
    }
}

/// Clients by endpoint. Reusing a client avoids a new connection and a new token for each request.
#[derive(Default)]
pub struct ClientCache(Mutex<HashMap<String, CachedClient>>);

#[derive(Clone)]
struct CachedClient {
    client: Client,
    kueue: KueueVersion,
}

/// The version in which the API server serves Kueue; empty before the first query.
type KueueVersion = Arc<Mutex<Option<&'static str>>>;

impl ClientCache {
    /// The API client for these settings.
    ///
    /// # Errors
    /// Returns an error if no credentials for the cluster exist.
    pub async fn of(&self, settings: &Kubernetes) -> Result<NamespacedCluster, PortError> {
        let key = serde_json::to_string(&settings.access).map_err(PortError::transient)?;
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let CachedClient { client, kueue } = match known {
            Some(known) => known,
            None => {
                let client = client(&settings.access).await?;
                let made = CachedClient { client, kueue: KueueVersion::default() };
                self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
                made
            }
        };
        Ok(NamespacedCluster { client, kueue, namespace: settings.namespace.clone() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// The object was created.
    New,
    /// The name exists. After a lost response this process may have created it: read the object.
    Exists,
}

#[derive(Clone)]
pub struct NamespacedCluster {
    client: Client,
    kueue: KueueVersion,
    namespace: String,
}

impl NamespacedCluster {
    fn objects(&self, group: &str, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    fn jobsets(&self) -> Api<DynamicObject> {
        self.objects("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    }

    /// API of the pods, for watches and logs.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Reads a JobSet.
    ///
    /// # Errors
    /// Returns an error if the API request fails or is forbidden.
    pub async fn jobset(&self, name: &str) -> Result<Option<JobSet>, PortError> {
        match with_timeout(self.jobsets().get_opt(name)).await? {
            Ok(found) => found.as_ref().map(typed).transpose(),
            Err(error) => Err(port_error(&error, "JobSet")),
        }
    }

    /// The priority classes of the cluster.
    ///
    /// # Errors
    /// Returns an error if the API request fails: [`PortError::Permanent`] if it is forbidden.
    pub async fn priority_classes(&self) -> Result<Vec<PriorityClass>, PortError> {
        let classes: Api<PriorityClass> = Api::all(self.client.clone());
        match with_timeout(classes.list(&ListParams::default())).await? {
            Ok(found) => Ok(found.items),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let why = format!(
                    "the configured access has no permission to list priority classes, which `yields` requires; grant it the cluster role \
                     burnin-yields of workflows/a4-gke-testbed/rbac.yaml: {}",
                    status.message
                );
                Err(PortError::Permanent(Failure::new(Class::Input, "PERMISSION_DENIED", why)))
            }
            Err(error) => Err(port_error(&error, "PriorityClass")),
        }
    }

    /// Creates a JobSet unless the name exists.
    ///
    /// # Errors
    /// Returns an error if the API request fails. After [`PortError::Transient`] the JobSet may exist: read it.
    pub async fn create_jobset(&self, jobset: &manifest::JobSetManifest) -> Result<CreateOutcome, PortError> {
        create(&self.jobsets(), jobset, "JobSet").await
    }

    /// Creates a secret unless the name exists.
    ///
    /// # Errors
    /// Returns an error if the API request fails. After [`PortError::Transient`] the secret may exist.
    pub async fn create_secret(&self, secret: &Secret) -> Result<CreateOutcome, PortError> {
        create(&Api::<Secret>::namespaced(self.client.clone(), &self.namespace), secret, "Secret").await
    }

    /// Deletes the JobSet with this uid and everything that it owns.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn delete_jobset(&self, name: &str, uid: &str) -> Result<(), PortError> {
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        match with_timeout(self.jobsets().delete(name, &parameters)).await? {
            Ok(_) => Ok(()),
            // The JobSet is deleted already, or the name belongs to another JobSet.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(port_error(&error, "JobSet")),
        }
    }

    /// Returns a pod; `None` if it is absent.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn pod(&self, name: &str) -> Result<Option<Pod>, PortError> {
        with_timeout(self.pods().get_opt(name)).await?.map_err(|error| port_error(&error, "Pod"))
    }

    /// The pods of a JobSet.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn pods_of(&self, jobset: &str) -> Result<Vec<Pod>, PortError> {
        self.list(&self.pods(), &of_jobset(jobset), "Pod").await
    }

    /// The jobs of a JobSet.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn jobs_of(&self, jobset: &str) -> Result<Vec<Job>, PortError> {
        let jobs = Api::namespaced(self.client.clone(), &self.namespace);
        self.list(&jobs, &of_jobset(jobset), "Job").await
    }

    /// Kueue's Workload of the JobSet with this uid; `None` without Kueue.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn workload_of(&self, uid: &str) -> Result<Option<KueueWorkload>, PortError> {
        let known = *self.kueue.lock().unwrap_or_else(PoisonError::into_inner);
        let version = match known {
            Some(version) => Some(version),
            None => lookup::kueue(&self.client).await?,
        };
        let Some(version) = version else { return Ok(None) };
        let workloads = self.objects(KUEUE, version, "Workload", "workloads");
        let label = ListParams::default().labels(&format!("kueue.x-k8s.io/job-uid={uid}"));
        let found = with_timeout(workloads.list(&label)).await?;
        // After an upgrade the API server may not serve the cached version: discard the version, so that the next
        // call queries it again.
        let gone = matches!(&found, Err(kube::Error::Api(status)) if status.code == 404);
        *self.kueue.lock().unwrap_or_else(PoisonError::into_inner) = (!gone).then_some(version);
        match found {
            Ok(found) => found.items.first().map(typed).transpose(),
            Err(_) if gone => Ok(None),
            Err(error) => Err(port_error(&error, "Workload")),
        }
    }

    /// Events of the JobSet, its jobs and their pods, newest last. If a pod cannot be created, its job has the event.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn events_of(&self, jobset: &str) -> Result<Vec<Event>, PortError> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut found = Vec::new();
        for kind in ["JobSet", "Job", "Pod"] {
            // A JobSet's events are selected by its name; the names of jobs and pods are not known here.
            let fields = match kind {
                "JobSet" => format!("involvedObject.kind={kind},involvedObject.name={jobset}"),
                _ => format!("involvedObject.kind={kind},type=Warning"),
            };
            match with_timeout(events.list(&ListParams::default().fields(&fields))).await? {
                Ok(list) => {
                    found.extend(list.items.into_iter().filter(|event| {
                        let name = text(event.involved_object.name.as_ref());
                        name == jobset || name.starts_with(&format!("{jobset}-"))
                    }));
                }
                // Events explain a state and do not decide it: continue without them.
                Err(kube::Error::Api(status)) if status.code == 403 => {}
                Err(error) => return Err(port_error(&error, "Event")),
            }
        }
        found.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
        Ok(found)
    }

    /// Cordons a node and records the reason as its annotation: running pods may finish, no new pod starts. Idempotent.
    ///
    /// # Errors
    /// Returns an error if the API request fails: [`PortError::Permanent`] if the node is cordoned for another
    /// reason, is absent, or cordoning is forbidden.
    pub async fn cordon(&self, node: &str, reason: &str) -> Result<(), PortError> {
        let left = |why: String| PortError::Permanent(Failure::new(Class::Input, "NOT_DRAINED", why));
        let (metadata, cordoned) = self.node(node, "NOT_DRAINED").await?;
        if cordoned {
            return match metadata.annotations.unwrap_or_default().get(DRAINED) {
                Some(because) if because == reason => Ok(()),
                Some(because) => Err(left(format!("already drained: {because}"))),
                None => Err(left("already cordoned, without a reason".to_owned())),
            };
        }
        let patch = json!({
            "metadata": {"resourceVersion": metadata.resource_version, "annotations": {DRAINED: reason}},
            "spec": {"unschedulable": true},
        });
        self.patch_node(node, &patch, "NOT_DRAINED").await
    }

    /// Uncordons a node and deletes the recorded reason. Idempotent.
    ///
    /// # Errors
    /// Returns an error if the API request fails: [`PortError::Permanent`] if Burnin did not cordon the node, it is absent, or the change
    /// is forbidden.
    pub async fn uncordon(&self, node: &str) -> Result<(), PortError> {
        let left = |why: String| PortError::Permanent(Failure::new(Class::Input, "NOT_RETURNED", why));
        let (metadata, cordoned) = self.node(node, "NOT_RETURNED").await?;
        if !cordoned {
            return Ok(());
        }
        match metadata.annotations.unwrap_or_default().get(DRAINED) {
            Some(because) if Drained::is_ours(because) => {}
            Some(because) => {
                return Err(left(format!(
                    "{node} is cordoned for another reason: {because}; once this is resolved, uncordon it with `kubectl uncordon {node}`"
                )));
            }
            None => {
                return Err(left(format!(
                    "{node} is cordoned, without a reason; uncordon it with `kubectl uncordon {node}`"
                )));
            }
        }
        let patch = json!({
            "metadata": {"resourceVersion": metadata.resource_version, "annotations": {DRAINED: null}},
            "spec": {"unschedulable": null},
        });
        self.patch_node(node, &patch, "NOT_RETURNED").await
    }

    /// Metadata of a node, and whether it is cordoned. `code`: failure code if access is denied.
    async fn node(&self, node: &str, code: &str) -> Result<(ObjectMeta, bool), PortError> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        // Lists nodes, because the role for counting nodes grants no `get`.
        let which = ListParams::default().fields(&format!("metadata.name={node}"));
        let found = with_timeout(nodes.list(&which)).await?.map_err(|error| cordon_refused(&error, code))?;
        let Some(Node { metadata, spec, .. }) = found.items.into_iter().next() else {
            let why = format!("node {node} does not exist");
            return Err(PortError::Permanent(Failure::new(Class::Input, code, why)));
        };
        Ok((metadata, spec.and_then(|spec| spec.unschedulable) == Some(true)))
    }

    /// Patches a node. The patch contains the resource version that was read: after a concurrent change it fails, and the retry reads the
    /// node again.
    async fn patch_node(&self, node: &str, patch: &Value, code: &str) -> Result<(), PortError> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patched = with_timeout(nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch))).await?;
        patched.map(drop).map_err(|error| cordon_refused(&error, code))
    }

    /// Remaining objects of a job, as `kind/name`.
    ///
    /// # Errors
    /// Returns an error if the API request fails.
    pub async fn left_of(&self, jobset: &str) -> Result<Vec<String>, PortError> {
        let mut left = Vec::new();
        let ours = ListParams::default().labels(&format!("{}={jobset}", names::LABEL));
        let kinds = [
            ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", &ours),
            ("batch", "v1", "Job", "jobs", &of_jobset(jobset)),
            ("", "v1", "Pod", "pods", &of_jobset(jobset)),
            ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", &of_jobset(jobset)),
        ];
        for (group, version, kind, plural, which) in kinds {
            for object in self.list(&self.objects(group, version, kind, plural), which, kind).await? {
                let name = text(object.metadata.name.as_ref());
                left.push(format!("{}/{name}", kind.to_lowercase()));
            }
        }
        // Delete the secret by its name: the permission to list secrets would include reading all of them.
        for (kind, plural, name) in
            [("Service", "services", jobset.to_owned()), ("Secret", "secrets", format!("{jobset}-ssh"))]
        {
            match with_timeout(self.objects("", "v1", kind, plural).get_opt(&name)).await? {
                Ok(Some(found))
                    if found
                        .metadata
                        .owner_references
                        .iter()
                        .flatten()
                        .next()
                        .is_some_and(|owner| owner.kind == "JobSet") =>
                {
                    left.push(format!("{}/{name}", kind.to_lowercase()));
                }
                Ok(_) => {}
                Err(error) => return Err(port_error(&error, kind)),
            }
        }
        Ok(left)
    }

    async fn list<K>(&self, api: &Api<K>, which: &ListParams, kind: &str) -> Result<Vec<K>, PortError>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        match with_timeout(api.list(which)).await? {
            Ok(found) => Ok(found.items),
            Err(error) => Err(port_error(&error, kind)),
        }
    }
}

fn of_jobset(jobset: &str) -> ListParams {
    ListParams::default().labels(&format!("jobset.sigs.k8s.io/jobset-name={jobset}"))
}

async fn create<K>(api: &Api<K>, object: &impl Serialize, kind: &str) -> Result<CreateOutcome, PortError>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug + Resource,
{
    let object = serde_json::to_value(object).map_err(PortError::transient)?;
    let object: K = serde_json::from_value(object).map_err(PortError::transient)?;
    let parameters = PostParams { field_manager: Some("burnin".to_owned()), ..PostParams::default() };
    match with_timeout(api.create(&parameters, &object)).await? {
        Ok(_) => Ok(CreateOutcome::New),
        Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
            Ok(CreateOutcome::Exists)
        }
        Err(error) => Err(port_error(&error, kind)),
    }
}
