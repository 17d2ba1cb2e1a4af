//! Maps the API objects of a job to one state. Pure.
//!
//! The JobSet's status decides the end. The reason is in its pods, searched for the first cause: infrastructure losses, then
//! kills by the kernel or a limit, then the pod's termination message.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use model::{Class, Failure, JobEnd, Timestamp};
use serde_json::Value;

use crate::{
    Kubernetes,
    names::{CONTAINER, REPLICATED},
};

/// Objects of a job at one moment.
#[derive(Clone, Debug, Default)]
pub struct PodState {
    /// Current JobSet.
    pub jobset: Value,
    /// Every pod that was ever seen, in its last seen state.
    pub pods: Vec<Value>,
    /// Jobs of the JobSet.
    pub jobs: Vec<Value>,
    /// Kueue's Workload.
    pub workload: Option<Value>,
    /// Events, newest last.
    pub events: Vec<Value>,
}

/// State derived from all objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodFinding {
    /// Its pods run.
    Going,
    /// It waits; `code` gives the reason.
    Waiting {
        /// Reason code, see docs/ERRORS.md.
        code: &'static str,
        /// Message of the cluster.
        why: String,
    },
    /// It ran to its own end.
    Ended(JobEnd),
    /// Ended by the infrastructure.
    Lost {
        /// Reason code.
        code: String,
        /// Message.
        why: String,
    },
    /// It did not start or did not measure, for a known reason.
    Failed(Failure),
}

/// State of a job.
pub fn standing(known: &PodState, settings: &Kubernetes, now: Timestamp) -> PodFinding {
    match text(&known.jobset["status"]["terminalState"]) {
        "Completed" => return PodFinding::Ended(end(known, "COMPLETED", Some(0))),
        "Failed" => return failed(known),
        // Older versions have no such field: use the conditions.
        _ if holds(&known.jobset, "Completed").is_some() => {
            return PodFinding::Ended(end(known, "COMPLETED", Some(0)));
        }
        _ if holds(&known.jobset, "Failed").is_some() => return failed(known),
        _ => {}
    }
    if let Some(lost) = evicted(known) {
        return lost;
    }
    // The job fails only after its last pod has ended, and a pod on an unreachable node never ends.
    if let Some(lost) = disrupted(&known.pods) {
        return lost;
    }
    if twice(&known.pods) {
        let why = "its pods had started and were recreated".to_owned();
        return PodFinding::Lost { code: "RESTARTED".to_owned(), why };
    }
    let begun = known.pods.iter().filter(|pod| began(pod)).count();
    if begun >= settings.nodes as usize {
        return PodFinding::Going;
    }
    let waiting = waiting(known, settings);
    if let PodFinding::Waiting { code, why } = &waiting
        && let Some(created) = moment(&known.jobset["metadata"]["creationTimestamp"])
        && now.as_millis() - created.as_millis()
            > i64::try_from(settings.begin_within.0.as_millis()).unwrap_or(i64::MAX)
    {
        let code = if *code == "WAITING" { "ADMISSION_TIMEOUT" } else { code };
        let message =
            format!("{begun} of {} pods started within {}: {why}", settings.nodes, settings.begin_within);
        return PodFinding::Failed(Failure::new(Class::Infrastructure, code, message));
    }
    waiting
}

/// Kueue evicted the workload.
fn evicted(known: &PodState) -> Option<PodFinding> {
    let workload = known.workload.as_ref()?;
    let preempted = holds(workload, "Preempted");
    let evicted = preempted.or_else(|| holds(workload, "Evicted"))?;
    let why = text(&evicted["message"]).to_owned();
    let lost = |code: &str| PodFinding::Lost { code: code.to_owned(), why: why.clone() };
    Some(match text(&evicted["reason"]) {
        _ if preempted.is_some() => lost("PREEMPTED"),
        "Preempted" => lost("PREEMPTED"),
        "NodeFailures" => lost("NODE_LOST"),
        "PodsReadyTimeout" | "AdmissionCheck" => {
            let message = format!("Kueue evicted it: {why}");
            PodFinding::Failed(Failure::new(Class::Infrastructure, "ADMISSION_TIMEOUT", message))
        }
        _ => lost("EVICTED"),
    })
}

/// Whether a pod was recreated after it had started: the benchmark may have run twice.
fn twice(pods: &[Value]) -> bool {
    pods.iter().any(|one| {
        let newer = |two: &&Value| {
            two["metadata"]["uid"] != one["metadata"]["uid"]
                && index(two) == index(one)
                && text(&two["metadata"]["creationTimestamp"]) >= text(&one["metadata"]["creationTimestamp"])
        };
        began(one) && pods.iter().find(newer).is_some()
    })
}

/// Why it has not started.
fn waiting(known: &PodState, settings: &Kubernetes) -> PodFinding {
    let input = |code: &str, message: String| PodFinding::Failed(Failure::new(Class::Input, code, message));
    let wait = |code, why: &str| PodFinding::Waiting { code, why: why.to_owned() };
    let mut unschedulable = None;
    for pod in &known.pods {
        let name = text(&pod["metadata"]["name"]);
        for container in containers(pod) {
            let (state, which) = (&container["state"]["waiting"], text(&container["name"]));
            let (reason, said) = (text(&state["reason"]), text(&state["message"]));
            let why = format!("pod {name}, container {which}: {reason}: {said}");
            match reason {
                "InvalidImageName" | "ErrImageNeverPull" => return input("IMAGE_PULL", why),
                "ImagePullBackOff" | "ErrImagePull" if forever(said) => return input("IMAGE_PULL", why),
                "ImagePullBackOff" | "ErrImagePull" | "RegistryUnavailable" => {
                    return wait("IMAGE_PULL", &why);
                }
                "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                    return input("CONTAINER", why);
                }
                _ => {}
            }
        }
        if let Some(scheduled) = condition(pod, "PodScheduled")
            && text(&scheduled["status"]) == "False"
            && text(&scheduled["reason"]) == "Unschedulable"
        {
            let said = text(&scheduled["message"]);
            // Kueue has assigned the node and does not know the pods' anti-affinity: this cannot resolve itself.
            if settings.topology.is_some() && said.contains("didn't match pod anti-affinity rules") {
                let why = format!(
                    "pod {name}: Kueue assigns it to a node with another pod of the job; with `topology`, request more \
                     than half of a node (cpu_millis, memory_mib, gpus_per_node): {said}"
                );
                return input("TOPOLOGY", why);
            }
            unschedulable = Some(format!("pod {name}: {said}"));
        }
    }
    if let Some(why) = unschedulable {
        return wait("UNSCHEDULABLE", &why);
    }
    if let Some(workload) = &known.workload
        && let Some(reserved) =
            condition(workload, "QuotaReserved").filter(|said| text(&said["status"]) == "False")
    {
        let (reason, why) = (text(&reserved["reason"]), text(&reserved["message"]));
        return match () {
            () if reason == "ExceedsMaxQuota" || why.contains("> maximum capacity") => {
                input("QUOTA", why.to_owned())
            }
            () if why.contains("no topology domains at level") => input("TOPOLOGY", why.to_owned()),
            () if reason == "TopologyPlacementFailed" || why.contains("topology") => wait("TOPOLOGY", why),
            () if why.contains("doesn't exist") || why.contains("not found") => {
                input("QUEUE", why.to_owned())
            }
            () if reason == "WaitingForQuota" || why.contains("insufficient") => wait("QUOTA", why),
            () => wait("WAITING", why),
        };
    }
    // The latest warning of any component that creates or feeds the pods.
    let warned = known.events.iter().rev().find(|event| text(&event["type"]) == "Warning");
    match warned {
        Some(event) if text(&event["message"]).contains("exceeded quota") => {
            wait("QUOTA", text(&event["message"]))
        }
        Some(event) => wait("WAITING", &format!("{}: {}", text(&event["reason"]), text(&event["message"]))),
        None if settings.queue.is_some() && known.workload.is_none() => {
            wait("WAITING", "Kueue has not processed it yet")
        }
        None => wait("WAITING", "its pods are being created"),
    }
}

/// Image pull errors that a retry cannot fix.
fn forever(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    [
        "not found",
        "manifest unknown",
        "unauthorized",
        "denied",
        "forbidden",
        "invalid reference",
        "no match for platform",
    ]
    .iter()
    .any(|sign| said.contains(sign))
}

/// A pod that was deleted with or from its node, and the reason.
fn disrupted(pods: &[Value]) -> Option<PodFinding> {
    let lost = |code: &str, why: String| PodFinding::Lost { code: code.to_owned(), why };
    for pod in pods {
        let (name, node) = (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]));
        let status = &pod["status"];
        let disrupted = condition(pod, "DisruptionTarget").filter(|said| text(&said["status"]) == "True");
        let on = format!("pod {name} on node {node}");
        if let Some(said) = disrupted {
            let why = format!("{on}: {}", text(&said["message"]));
            return Some(match text(&said["reason"]) {
                "PreemptionByScheduler" => lost("PREEMPTED", why),
                "DeletionByTaintManager" | "DeletionByPodGC" => lost("NODE_LOST", why),
                _ => lost("EVICTED", why),
            });
        }
        match text(&status["reason"]) {
            "Evicted" | "Preempting" => {
                return Some(lost("EVICTED", format!("{on}: {}", text(&status["message"]))));
            }
            "NodeLost"
            | "NodeShutdown"
            | "Shutdown"
            | "Terminated"
            | "NodeAffinity"
            | "UnexpectedAdmissionError" => {
                let why = format!("{on}: {}: {}", text(&status["reason"]), text(&status["message"]));
                return Some(lost("NODE_LOST", why));
            }
            _ => {}
        }
    }
    None
}

/// Whether this pod's node is unreachable or deleted.
pub fn node_lost(pod: &Value) -> bool {
    matches!(disrupted(std::slice::from_ref(pod)), Some(PodFinding::Lost { code, .. }) if code == "NODE_LOST")
}

/// Why a JobSet failed.
fn failed(known: &PodState) -> PodFinding {
    if let Some(lost) = disrupted(&known.pods) {
        return lost;
    }
    let lost = |code: &str, why: String| PodFinding::Lost { code: code.to_owned(), why };
    let ended: Vec<_> =
        known.pods.iter().flat_map(|pod| terminated(pod).map(move |state| (pod, state))).collect();
    if ended.iter().any(|(_, state)| text(&state["reason"]) == "OOMKilled") {
        return PodFinding::Ended(end(known, "OUT_OF_MEMORY", Some(137)));
    }
    let late = |object: &Value| {
        condition(object, "Failed").is_some_and(|said| text(&said["reason"]) == "DeadlineExceeded")
            || text(&object["status"]["reason"]) == "DeadlineExceeded"
    };
    if known.jobs.iter().chain(&known.pods).any(late) {
        return PodFinding::Ended(end(known, "TIMEOUT", None));
    }
    for (pod, state) in &ended {
        let said = text(&state["message"]);
        if state["exitCode"] != 0
            && let Some((class, code, line)) = named(said)
        {
            let message = format!("pod {}: {line}", text(&pod["metadata"]["name"]));
            return PodFinding::Failed(Failure::new(class, code, message));
        }
    }
    // The first failure is closest to the cause: the other pods failed because of it, or were ended with it.
    let first = ended
        .iter()
        .filter(|(_, state)| state["exitCode"].as_i64().is_some_and(|code| code != 0))
        .min_by_key(|(_, state)| {
            (matches!(state["exitCode"].as_i64(), Some(137 | 143)), text(&state["finishedAt"]).to_owned())
        });
    match first {
        Some((_, state)) => {
            let code = state["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
            PodFinding::Ended(end(known, "FAILED", code))
        }
        None => {
            let said = holds(&known.jobset, "Failed").or_else(|| condition(&known.jobset, "Failed"));
            let why = said.map_or("no pod is left; the reason is unknown", |said| text(&said["message"]));
            lost("NO_END", why.to_owned())
        }
    }
}

/// Known meaning of a pod's termination message: class, code and line.
pub fn named(said: &str) -> Option<(Class, &'static str, String)> {
    const OURS: [(&str, Class); 3] = [
        ("DNS_NOT_READY", Class::Infrastructure),
        ("SSH_REFUSED", Class::Infrastructure),
        ("UNFIT", Class::Input),
    ];
    // Messages of the C library, NCCL, its plugins and ssh. The first match counts.
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
    let first = said.lines().next().unwrap_or_default();
    for (code, class) in OURS {
        if first.split_whitespace().next() == Some(code) {
            return Some((class, code, first.to_owned()));
        }
    }
    THEIRS.into_iter().find_map(|(sign, code, class)| {
        let line = said.lines().find(|line| line.contains(sign))?;
        Some((class, code, line.trim().chars().take(500).collect()))
    })
}

/// Whether the JobSet has ended for good.
pub fn over(jobset: &Value) -> bool {
    !text(&jobset["status"]["terminalState"]).is_empty()
        || ["Completed", "Failed"].iter().any(|state| holds(jobset, state).is_some())
}

fn end(known: &PodState, state: &str, exit_code: Option<i32>) -> JobEnd {
    let all = || known.pods.iter().flat_map(terminated);
    let signal = exit_code.filter(|code| (129..160).contains(code)).map(|code| code - 128);
    JobEnd {
        state: state.to_owned(),
        exit_code,
        signal,
        started_at: all().filter_map(|state| moment(&state["startedAt"])).min(),
        ended_at: all().filter_map(|state| moment(&state["finishedAt"])).max(),
    }
}

/// Terminated states of the measured and the init containers of a pod.
fn terminated(pod: &Value) -> impl Iterator<Item = &Value> {
    containers(pod).map(|container| &container["state"]["terminated"]).filter(|state| state.is_object())
}

/// Container statuses of a pod, init containers first.
pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(|list| pod["status"][list].as_array())
        .flatten()
}

/// Index of a pod in its job.
pub fn index(pod: &Value) -> u32 {
    let labels = &pod["metadata"]["labels"];
    let replicated = text(&labels["jobset.sigs.k8s.io/replicatedjob-name"]);
    // With named nodes each node has its own replicated job.
    let number = replicated.strip_prefix(REPLICATED).filter(|number| !number.is_empty());
    let number = number.unwrap_or(text(&labels["batch.kubernetes.io/job-completion-index"]));
    number.parse().unwrap_or(0)
}

/// Nodes that the pods were assigned to, sorted by name.
pub fn nodes(pods: &[Value]) -> Vec<String> {
    let on: BTreeSet<_> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    on.into_iter().map(str::to_owned).collect()
}

/// Whether the measured container has started.
pub fn began(pod: &Value) -> bool {
    containers(pod).any(|container| {
        let state = &container["state"];
        let ours = pod["status"]["initContainerStatuses"].as_array().is_none_or(Vec::is_empty)
            || text(&container["name"]) == CONTAINER;
        ours && (state["running"].is_object() || state["terminated"].is_object())
    })
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| text(&condition["type"]) == kind)
}

fn holds<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    condition(object, kind).filter(|condition| text(&condition["status"]) == "True")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Parses a timestamp of the API.
pub fn moment(value: &Value) -> Option<Timestamp> {
    let moment: DateTime<Utc> = text(value).parse().ok()?;
    Some(moment.into())
}
