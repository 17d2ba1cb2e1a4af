//! Decisions of the controller of jobs. Pure.

use serde_json::Value;

/// Label with a pod's index in its job.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Condition and reason of an ended job; `None` while the job needs pods. As in Kubernetes (`pkg/controller/job/job_controller.go`,
/// `syncJob`), a job with a result gets no further pods, also while its remaining pods are being deleted.
pub fn result(spec: &Value, pods: &[&Value]) -> Option<(&'static str, &'static str)> {
    let completions = spec["completions"].as_u64().unwrap_or(1);
    let count = |phase: &str| pods.iter().filter(|pod| in_phase(pod, phase)).count() as u64;
    let (succeeded, failed) = (count("Succeeded"), count("Failed"));
    let has_success_policy = spec["successPolicy"].is_object();
    let complete = match has_success_policy {
        true => pods.iter().any(|pod| index(pod) == "0" && in_phase(pod, "Succeeded")),
        false => succeeded == completions,
    };
    // A met success policy is final: pods that are ended afterwards are ignored (`SuccessCriteriaMet`).
    if complete && has_success_policy {
        return Some(("Complete", "SuccessPolicy"));
    }
    if complete && failed == 0 {
        return Some(("Complete", "CompletionsReached"));
    }
    match spec["backoffLimitPerIndex"].is_u64() {
        // With a limit for each index, a failed index does not end the other indexes.
        true => (failed > 0 && failed + succeeded >= completions).then_some(("Failed", "FailedIndexes")),
        false => (failed > 0).then_some(("Failed", "BackoffLimitExceeded")),
    }
}

/// Indexes of a job without a pod.
pub fn missing_indexes(spec: &Value, pods: &[&Value]) -> Vec<u64> {
    let all = 0..spec["completions"].as_u64().unwrap_or(1);
    all.filter(|number| pods.iter().all(|pod| index(pod) != number.to_string())).collect()
}

pub fn index(pod: &Value) -> &str {
    pod["metadata"]["labels"][INDEX].as_str().unwrap_or_default()
}

pub fn in_phase(pod: &Value, phase: &str) -> bool {
    pod["status"]["phase"] == phase
}
