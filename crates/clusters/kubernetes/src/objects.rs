//! API objects that a job reads. Kubernetes' own objects have the types of `k8s-openapi`; this module defines the fields that are
//! read from objects of JobSet and Kueue. Unknown fields are ignored, and every field may be absent.

use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ContainerStatus, Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use model::Timestamp;
use serde::Deserialize;

/// A JobSet (kubernetes-sigs/jobset, v0.9.1, `api/jobset/v1alpha2/jobset_types.go`: `JobSet`, `JobSetStatus`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobSet {
    /// Name, uid, annotations, deletion.
    pub metadata: ObjectMeta,
    pub status: JobSetStatus,
}

/// Observed state of a [`JobSet`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSetStatus {
    /// `Completed` or `Failed`; older versions have conditions only.
    pub terminal_state: Option<String>,
    /// Conditions, including `Completed` and `Failed`.
    pub conditions: Option<Vec<Condition>>,
}

/// Kueue's Workload (kubernetes-sigs/kueue, v0.14.4, `apis/kueue/v1beta1/workload_types.go`: `WorkloadStatus`; v1beta2 has the same
/// conditions).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KueueWorkload {
    /// Name and uid.
    pub metadata: ObjectMeta,
    pub status: WorkloadStatus,
}

/// Observed state of a [`KueueWorkload`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadStatus {
    /// Conditions, including `QuotaReserved`, `Evicted` and `Preempted`.
    pub conditions: Option<Vec<Condition>>,
}

/// Kueue's LocalQueue (kubernetes-sigs/kueue, v0.14.4, `apis/kueue/v1beta1/localqueue_types.go`; v1beta2 has the same fields).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LocalQueue {
    pub spec: LocalQueueSpec,
    pub status: LocalQueueStatus,
}

/// Configured state of a [`LocalQueue`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LocalQueueSpec {
    /// Whether the queue admits workloads: `None`, `Hold` or `HoldAndDrain`.
    pub stop_policy: Option<String>,
}

/// See [`LocalQueue`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LocalQueueStatus {
    /// Conditions, including `Active`.
    pub conditions: Option<Vec<Condition>>,
}

/// A condition of an object (kubernetes/apimachinery, `pkg/apis/meta/v1/types.go`: `Condition`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Machine-readable reason.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
}

pub trait Conditions {
    /// The condition of this type, with any status.
    fn condition(&self, kind: &str) -> Option<Condition>;

    /// The condition of this type if its status is `True`.
    fn holds(&self, kind: &str) -> Option<Condition> {
        self.condition(kind).filter(|condition| condition.status == "True")
    }
}

fn find(conditions: Option<&Vec<Condition>>, kind: &str) -> Option<Condition> {
    conditions?.iter().find(|condition| condition.kind == kind).cloned()
}

impl Conditions for JobSet {
    fn condition(&self, kind: &str) -> Option<Condition> {
        find(self.status.conditions.as_ref(), kind)
    }
}

impl Conditions for KueueWorkload {
    fn condition(&self, kind: &str) -> Option<Condition> {
        find(self.status.conditions.as_ref(), kind)
    }
}

impl Conditions for LocalQueue {
    fn condition(&self, kind: &str) -> Option<Condition> {
        find(self.status.conditions.as_ref(), kind)
    }
}

/// In `k8s-openapi` each kind has its own type of condition.
macro_rules! conditions {
    ($kind:ty) => {
        impl Conditions for $kind {
            fn condition(&self, kind: &str) -> Option<Condition> {
                let all = self.status.as_ref()?.conditions.as_ref()?;
                let found = all.iter().find(|condition| condition.type_ == kind)?;
                Some(Condition {
                    kind: found.type_.clone(),
                    status: found.status.clone(),
                    reason: text(found.reason.as_ref()).to_owned(),
                    message: text(found.message.as_ref()).to_owned(),
                })
            }
        }
    };
}
conditions!(Pod);
conditions!(Job);
conditions!(Node);

/// Container statuses of a pod, init containers first.
pub fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let own = status.and_then(|status| status.container_statuses.as_ref());
    init.into_iter().chain(own).flatten()
}

pub fn is_running(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.running.is_some())
}

pub fn is_terminated(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.terminated.is_some())
}

/// The text, or an empty one if it is absent.
pub fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

/// Converts an API time to a timestamp in milliseconds.
pub fn timestamp(time: Option<&Time>) -> Option<Timestamp> {
    Some(Timestamp::from_millis(time?.0.as_millisecond()))
}
