//! Maps the API objects of a job to one state. Pure.
//!
//! The JobSet's status decides the end. The reason is derived from its pods. The first existing cause is used: an infrastructure loss, a
//! kill by the kernel or a limit, then the pod's termination message.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ContainerStateTerminated, Pod},
};
use model::{Class, Failure, JobEnd, Timestamp};

pub use crate::finding::{JobFinding, JobObjects};
use crate::{
    Kubernetes,
    names::{CONTAINER, REPLICATED},
    objects::{Conditions, JobSet, containers, is_running, is_terminated, text, timestamp},
    waiting::waiting,
};

/// Derives the state of a job from its objects.
pub fn derive(objects: &JobObjects, settings: &Kubernetes, now: Timestamp) -> JobFinding {
    match text(objects.jobset.status.terminal_state.as_ref()) {
        "Completed" => return JobFinding::Ended(end(objects, "COMPLETED", Some(0))),
        "Failed" => return failed(objects),
        // Older versions have no such field: use the conditions.
        _ if objects.jobset.holds("Completed").is_some() => {
            return JobFinding::Ended(end(objects, "COMPLETED", Some(0)));
        }
        _ if objects.jobset.holds("Failed").is_some() => return failed(objects),
        _ => {}
    }
    if let Some(lost) = evicted(objects) {
        return lost;
    }
    // The job fails only after its last pod has ended, and a pod on an unreachable node never ends.
    if let Some(lost) = disrupted(&objects.pods) {
        return lost;
    }
    if was_recreated(&objects.pods) {
        let why = "the job's pods had started and were recreated".to_owned();
        return JobFinding::Lost { code: "RESTARTED".to_owned(), why };
    }
    let begun = objects.pods.iter().filter(|pod| began(pod)).count();
    if begun >= settings.nodes as usize {
        return JobFinding::Active;
    }
    let waiting = waiting(objects, settings);
    if let JobFinding::Waiting { code, why } = &waiting
        && let Some(created) = timestamp(objects.jobset.metadata.creation_timestamp.as_ref())
        && now.as_millis() - created.as_millis()
            > i64::try_from(settings.begin_within.0.as_millis()).unwrap_or(i64::MAX)
    {
        let code = if *code == "WAITING" { "ADMISSION_TIMEOUT" } else { code };
        let message =
            format!("{begun} of {} pods started within {}: {why}", settings.nodes, settings.begin_within);
        return JobFinding::Failed(Failure::new(Class::Infrastructure, code, message));
    }
    waiting
}

/// Finding for a workload that Kueue evicted; `None` for any other workload.
fn evicted(objects: &JobObjects) -> Option<JobFinding> {
    let workload = objects.workload.as_ref()?;
    let preempted = workload.holds("Preempted");
    let was_preempted = preempted.is_some();
    let evicted = preempted.or_else(|| workload.holds("Evicted"))?;
    let why = evicted.message;
    let lost = |code: &str| JobFinding::Lost { code: code.to_owned(), why: why.clone() };
    Some(match evicted.reason.as_str() {
        _ if was_preempted => lost("PREEMPTED"),
        "Preempted" => lost("PREEMPTED"),
        "NodeFailures" => lost("NODE_LOST"),
        "PodsReadyTimeout" | "AdmissionCheck" => {
            let message = format!("Kueue evicted the job: {why}");
            JobFinding::Failed(Failure::new(Class::Infrastructure, "ADMISSION_TIMEOUT", message))
        }
        _ => lost("EVICTED"),
    })
}

/// Whether a pod was recreated after it had started: the benchmark may have run twice.
fn was_recreated(pods: &[Pod]) -> bool {
    pods.iter().any(|one| {
        let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let newer = |two: &Pod| {
            two.metadata.uid != one.metadata.uid && index(two) == index(one) && created(two) >= created(one)
        };
        began(one) && pods.iter().any(newer)
    })
}

/// Reasons in the status of a pod whose node was shut down, was lost, or does not accept the pod. `Terminated`: graceful node shutdown.
const NODE_LOST: [&str; 6] =
    ["NodeLost", "NodeShutdown", "Shutdown", "Terminated", "NodeAffinity", "UnexpectedAdmissionError"];

/// Finding for a pod that an eviction, a preemption or the loss of its node ended.
fn disrupted(pods: &[Pod]) -> Option<JobFinding> {
    let lost = |code: &str, why: String| JobFinding::Lost { code: code.to_owned(), why };
    for pod in pods {
        let name = text(pod.metadata.name.as_ref());
        let node = node(pod).unwrap_or_default();
        let on = format!("pod {name} on node {node}");
        let (reason, message) = status(pod);
        if let Some(condition) = pod.holds("DisruptionTarget") {
            let why = format!("{on}: {}", condition.message);
            return Some(match condition.reason.as_str() {
                // The kubelet sets the same reason for a node shutdown, low resources and the preemption for a critical pod
                // (kubernetes.io/docs/concepts/workloads/pods/disruptions, pod disruption conditions); the status distinguishes them.
                "TerminationByKubelet" if NODE_LOST.contains(&reason) => lost("NODE_LOST", why),
                "PreemptionByScheduler" => lost("PREEMPTED", why),
                "DeletionByTaintManager" | "DeletionByPodGC" => lost("NODE_LOST", why),
                _ => lost("EVICTED", why),
            });
        }
        match reason {
            "Evicted" | "Preempting" => return Some(lost("EVICTED", format!("{on}: {message}"))),
            _ if NODE_LOST.contains(&reason) => {
                return Some(lost("NODE_LOST", format!("{on}: {reason}: {message}")));
            }
            _ => {}
        }
    }
    None
}

/// Whether this pod's node is unreachable or deleted.
pub fn node_lost(pod: &Pod) -> bool {
    matches!(disrupted(std::slice::from_ref(pod)), Some(JobFinding::Lost { code, .. }) if code == "NODE_LOST")
}

/// Reason why a JobSet failed.
fn failed(objects: &JobObjects) -> JobFinding {
    if let Some(lost) = disrupted(&objects.pods) {
        return lost;
    }
    let lost = |code: &str, why: String| JobFinding::Lost { code: code.to_owned(), why };
    let ended: Vec<_> =
        objects.pods.iter().flat_map(|pod| terminated(pod).map(move |state| (pod, state))).collect();
    if ended.iter().any(|(_, state)| text(state.reason.as_ref()) == "OOMKilled") {
        return JobFinding::Ended(end(objects, "OUT_OF_MEMORY", Some(137)));
    }
    let late_job =
        |job: &Job| job.condition("Failed").is_some_and(|condition| condition.reason == "DeadlineExceeded");
    let late_pod = |pod: &Pod| status(pod).0 == "DeadlineExceeded";
    if objects.jobs.iter().any(late_job) || objects.pods.iter().any(late_pod) {
        return JobFinding::Ended(end(objects, "TIMEOUT", None));
    }
    for (pod, state) in &ended {
        let output = text(state.message.as_ref());
        if state.exit_code != 0
            && let Some((class, code, line)) = known_failure(output)
        {
            let message = format!("pod {}: {line}", text(pod.metadata.name.as_ref()));
            return JobFinding::Failed(Failure::new(class, code, message));
        }
    }
    // The first failure is closest to the cause: later failures are its consequences, or pods that were ended with
    // the job.
    let first = ended.iter().filter(|(_, state)| state.exit_code != 0).min_by_key(|(_, state)| {
        (matches!(state.exit_code, 137 | 143), state.finished_at.as_ref().map(|time| time.0))
    });
    match first {
        Some((_, state)) => JobFinding::Ended(end(objects, "FAILED", Some(state.exit_code))),
        None => {
            let condition = objects.jobset.condition("Failed");
            let unknown = || "no pod is left; the reason is unknown".to_owned();
            lost("NO_END", condition.map_or_else(unknown, |condition| condition.message))
        }
    }
}

/// Known meaning of a pod's termination message: class, code and line.
pub fn known_failure(output: &str) -> Option<(Class, &'static str, String)> {
    const OURS: [(&str, Class); 3] = [
        ("DNS_NOT_READY", Class::Infrastructure),
        ("SSH_REFUSED", Class::Infrastructure),
        ("UNFIT", Class::Input),
    ];
    // Messages of the C library, NCCL, its plugins and ssh. The first match is used.
    const THEIRS: [(&str, &str, Class); 10] = [
        ("GLIBC_", "GLIBC_MISMATCH", Class::Input),
        ("network gIB not found", "GIB_MISSING", Class::Input),
        ("the network plugin is not in the pod", "GIB_MISSING", Class::Input),
        ("Failed to initialize any NET plugin", "GIB_MISSING", Class::Input),
        ("NET/gIB : No device found", "RDMA_MISSING", Class::Input),
        ("NET/IB : No device found", "RDMA_MISSING", Class::Input),
        ("Could not resolve hostname", "DNS_NOT_READY", Class::Infrastructure),
        ("Connection refused", "SSH_REFUSED", Class::Infrastructure),
        ("Permission denied (publickey", "SSH_REFUSED", Class::Infrastructure),
        ("Host key verification failed", "SSH_REFUSED", Class::Infrastructure),
    ];
    let first = output.lines().next().unwrap_or_default();
    for (code, class) in OURS {
        if first.split_whitespace().next() == Some(code) {
            return Some((class, code, first.to_owned()));
        }
    }
    THEIRS.into_iter().find_map(|(sign, code, class)| {
        let line = output.lines().find(|line| line.contains(sign))?;
        Some((class, code, line.trim().chars().take(500).collect()))
    })
}

/// Whether the JobSet has ended permanently.
pub fn has_ended(jobset: &JobSet) -> bool {
    !text(jobset.status.terminal_state.as_ref()).is_empty()
        || ["Completed", "Failed"].iter().any(|state| jobset.holds(state).is_some())
}

fn end(objects: &JobObjects, state: &str, exit_code: Option<i32>) -> JobEnd {
    let all = || objects.pods.iter().flat_map(terminated);
    let signal = exit_code.filter(|code| (129..160).contains(code)).map(|code| code - 128);
    JobEnd {
        state: state.to_owned(),
        exit_code,
        signal,
        started_at: all().filter_map(|state| timestamp(state.started_at.as_ref())).min(),
        ended_at: all().filter_map(|state| timestamp(state.finished_at.as_ref())).max(),
        nodes: Vec::new(),
    }
}

/// Terminated states of the measured and the init containers of a pod.
fn terminated(pod: &Pod) -> impl Iterator<Item = &ContainerStateTerminated> {
    containers(pod).filter_map(|container| container.state.as_ref()?.terminated.as_ref())
}

/// Node that a pod was assigned to.
fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Reason and message of a pod's status.
fn status(pod: &Pod) -> (&str, &str) {
    let Some(status) = &pod.status else { return ("", "") };
    (text(status.reason.as_ref()), text(status.message.as_ref()))
}

pub fn index(pod: &Pod) -> u32 {
    let label = |key| text(pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)));
    let replicated = label("jobset.sigs.k8s.io/replicatedjob-name");
    // With named nodes each node has its own replicated job.
    let number = replicated.strip_prefix(REPLICATED).filter(|number| !number.is_empty());
    let number = number.unwrap_or(label("batch.kubernetes.io/job-completion-index"));
    number.parse().unwrap_or(0)
}

/// Nodes that the pods were assigned to, sorted by name.
pub fn nodes(pods: &[Pod]) -> Vec<String> {
    let on: BTreeSet<_> = pods.iter().filter_map(node).collect();
    on.into_iter().map(str::to_owned).collect()
}

/// Whether the measured container has started.
pub fn began(pod: &Pod) -> bool {
    let init = pod.status.as_ref().and_then(|status| status.init_container_statuses.as_ref());
    let alone = init.is_none_or(Vec::is_empty);
    containers(pod).any(|container| {
        (alone || container.name == CONTAINER) && (is_running(container) || is_terminated(container))
    })
}
