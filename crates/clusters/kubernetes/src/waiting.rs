//! Reasons why a job has not started. Pure.

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use model::{Class, Failure};

use crate::{
    Kubernetes,
    finding::{JobFinding, JobObjects},
    objects::{Condition, Conditions, KueueWorkload, containers, text},
};

/// The reason, from the component that is closest to the cause: a container, the scheduler, Kueue, then the newest warning.
pub fn waiting(objects: &JobObjects, settings: &Kubernetes) -> JobFinding {
    for pod in &objects.pods {
        if let Some(found) = containers(pod).find_map(|container| stuck(pod, container)) {
            return found;
        }
        if let Some(found) =
            unschedulable(pod).and_then(|condition| never_schedulable(pod, &condition, settings))
        {
            return found;
        }
    }
    let scheduler = || {
        objects.pods.iter().rev().find_map(|pod| {
            let condition = unschedulable(pod)?;
            Some(wait("UNSCHEDULABLE", format!("pod {}: {}", name(pod), condition.message)))
        })
    };
    let kueue = || objects.workload.as_ref().and_then(not_admitted);
    let warning =
        || objects.events.iter().rev().find(|event| text(event.type_.as_ref()) == "Warning").map(warned);
    scheduler().or_else(kueue).or_else(warning).unwrap_or_else(|| {
        match (&settings.queue, &objects.workload) {
            (Some(_), None) => wait("WAITING", "Kueue has not processed the JobSet yet".to_owned()),
            _ => wait("WAITING", "the job's pods are being created".to_owned()),
        }
    })
}

fn input(code: &str, message: String) -> JobFinding {
    JobFinding::Failed(Failure::new(Class::Input, code, message))
}

const fn wait(code: &'static str, why: String) -> JobFinding {
    JobFinding::Waiting { code, why }
}

fn name(pod: &Pod) -> &str {
    text(pod.metadata.name.as_ref())
}

/// Reason why the kubelet cannot start a container; `None` if no reason is known.
fn stuck(pod: &Pod, container: &ContainerStatus) -> Option<JobFinding> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let (reason, message) = (text(waiting.reason.as_ref()), text(waiting.message.as_ref()));
    let why = format!("pod {}, container {}: {reason}: {message}", name(pod), container.name);
    match reason {
        "InvalidImageName" | "ErrImageNeverPull" => Some(input("IMAGE_PULL", why)),
        "ImagePullBackOff" | "ErrImagePull" if permanent(message) => Some(input("IMAGE_PULL", why)),
        "ImagePullBackOff" | "ErrImagePull" | "RegistryUnavailable" => Some(wait("IMAGE_PULL", why)),
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            Some(input("CONTAINER", why))
        }
        _ => None,
    }
}

/// Whether a retry cannot fix this image pull error.
fn permanent(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
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
    .any(|sign| message.contains(sign))
}

/// The scheduler's report on an unschedulable pod.
fn unschedulable(pod: &Pod) -> Option<Condition> {
    pod.condition("PodScheduled")
        .filter(|condition| condition.status == "False" && condition.reason == "Unschedulable")
}

/// Kueue has assigned the node without regard to the pods' anti-affinity, so waiting cannot resolve this.
fn never_schedulable(pod: &Pod, condition: &Condition, settings: &Kubernetes) -> Option<JobFinding> {
    let conflict =
        settings.topology.is_some() && condition.message.contains("didn't match pod anti-affinity rules");
    conflict.then(|| {
        let why = format!(
            "pod {}: Kueue assigns it to a node with another pod of the job; with `topology`, request more \
             than half of a node (cpu_millis, memory_mib, gpus_per_node): {}",
            name(pod),
            condition.message
        );
        input("TOPOLOGY", why)
    })
}

/// Reason why Kueue has not reserved quota.
fn not_admitted(workload: &KueueWorkload) -> Option<JobFinding> {
    let Condition { reason, message: why, .. } =
        workload.condition("QuotaReserved").filter(|condition| condition.status == "False")?;
    let contains = |sign: &str| why.contains(sign);
    Some(if reason == "ExceedsMaxQuota" || contains("> maximum capacity") {
        input("QUOTA", why)
    } else if contains("no topology domains at level") {
        input("TOPOLOGY", why)
    } else if reason == "TopologyPlacementFailed" || contains("topology") {
        wait("TOPOLOGY", why)
    } else if contains("doesn't exist") || contains("not found") {
        input("QUEUE", why)
    } else if reason == "WaitingForQuota" || contains("insufficient") {
        wait("QUOTA", why)
    } else {
        wait("WAITING", why)
    })
}

/// Finding for a warning event of the job's objects.
fn warned(event: &Event) -> JobFinding {
    let (reason, message) = (text(event.reason.as_ref()), text(event.message.as_ref()));
    // The job controller repeats the request, and the API server rejects the same pod every time (Kubernetes 1.32,
    // `pkg/controller/controller_utils.go`, `FailedCreatePodReason`; apimachinery, `pkg/api/errors/errors.go`, `NewInvalid`).
    if reason == "FailedCreate" && message.contains(" is invalid: ") {
        return input("POD_INVALID", message.to_owned());
    }
    match message.contains("exceeded quota") {
        true => wait("QUOTA", message.to_owned()),
        false => wait("WAITING", format!("{reason}: {message}")),
    }
}
