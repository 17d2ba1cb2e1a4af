//! What the controller of jobs decides.

use kubernetes_standin::job::{INDEX, missing_indexes, result};
use serde_json::{Value, json};

fn pod(index: u64, phase: &str) -> Value {
    json!({"metadata": {"labels": {INDEX: index.to_string()}}, "status": {"phase": phase}})
}

#[test]
fn a_failed_job_creates_no_pod_for_a_deleted_one() {
    let spec = json!({"completions": 2, "backoffLimit": 0});
    let (failed, running) = (pod(0, "Failed"), pod(1, "Running"));
    assert_eq!(result(&spec, &[&failed, &running]), Some(("Failed", "BackoffLimitExceeded")));
    assert_eq!(result(&spec, &[&failed]), Some(("Failed", "BackoffLimitExceeded")));
    assert_eq!((result(&spec, &[&running]), missing_indexes(&spec, &[&running])), (None, vec![0]));
}

#[test]
fn with_a_limit_per_index_the_other_indexes_still_run() {
    let spec = json!({"completions": 2, "backoffLimitPerIndex": 0});
    let (failed, succeeded) = (pod(0, "Failed"), pod(1, "Succeeded"));
    assert_eq!((result(&spec, &[&failed]), missing_indexes(&spec, &[&failed])), (None, vec![1]));
    assert_eq!(result(&spec, &[&failed, &succeeded]), Some(("Failed", "FailedIndexes")));
}

#[test]
fn a_met_success_policy_is_final() {
    let spec = json!({"completions": 2, "successPolicy": {}});
    let (first, ended) = (pod(0, "Succeeded"), pod(1, "Failed"));
    assert_eq!(result(&spec, &[&first]), Some(("Complete", "SuccessPolicy")));
    assert_eq!(result(&spec, &[&first, &ended]), Some(("Complete", "SuccessPolicy")));
}
