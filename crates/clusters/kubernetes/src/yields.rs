//! Jobs that yield to other jobs: pods of a priority class below all others, which the scheduler places on free nodes only.

use k8s_openapi::api::scheduling::v1::PriorityClass;
use model::{Class, Failure};
use service::PortError;

use crate::{api::NamespacedCluster, objects::text};

/// Priority of pods without a class if no class is the default (Kubernetes 1.33, `pkg/apis/scheduling/types.go`,
/// `DefaultPriorityWhenNoDefaultClassExists`).
const DEFAULT: i32 = 0;

/// Checks that pods of the class `name` yield to all others.
///
/// # Errors
/// Returns a permanent error if they do not yield, or an error if the API request fails.
pub async fn check(cluster: &NamespacedCluster, name: &str) -> Result<(), PortError> {
    let classes = cluster.priority_classes().await?;
    problem(&classes, name).map_or(Ok(()), |why| {
        Err(PortError::Permanent(Failure::new(
            Class::Input,
            "PRIORITY_CLASS",
            format!("pod_priority_class: {why}"),
        )))
    })
}

/// Reason why pods of the class `name` would not yield to all others. Pure.
fn problem(classes: &[PriorityClass], name: &str) -> Option<String> {
    let named = |class: &&PriorityClass| text(class.metadata.name.as_ref()) == name;
    let Some(own) = classes.iter().find(named) else {
        return Some(format!("no PriorityClass {name} exists; workflows/idle-kubernetes.yaml shows one"));
    };
    // The capacity of pods with an even lower class, such as those that reserve nodes, is not idle, so the class must not preempt.
    if own.preemption_policy.as_deref() != Some("Never") {
        return Some(format!(
            "PriorityClass {name} may preempt other pods; create it with preemptionPolicy: Never"
        ));
    }
    let default =
        classes.iter().find(|class| class.global_default == Some(true)).map_or(DEFAULT, |class| class.value);
    let lowest =
        classes.iter().filter(|class| !named(class)).map(|class| class.value).min().unwrap_or(default);
    (own.value >= default.min(lowest)).then(|| {
        format!(
            "PriorityClass {name} has the value {}, which is not below all others and the default ({}), so some pods do not preempt its pods",
            own.value,
            default.min(lowest)
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(name: &str, value: i32, more: Value) -> PriorityClass {
        let mut class = json!({"metadata": {"name": name}, "value": value});
        class.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        serde_json::from_value(class).unwrap()
    }

    #[test]
    fn pods_yield_only_if_their_class_is_below_all_others_and_preempts_none() {
        let never = || json!({"preemptionPolicy": "Never"});
        let system = || class("system-node-critical", 2_000_001_000, json!({}));
        let idle = |value| class("idle", value, never());
        assert_eq!(problem(&[system(), idle(-1000)], "idle"), None);
        for (classes, expected) in [
            (vec![system()], "no PriorityClass idle exists"),
            (vec![system(), class("idle", -1000, json!({}))], "preemptionPolicy: Never"),
            (vec![system(), idle(0)], "has the value 0, which is not below all others and the default (0)"),
            (vec![idle(-5), class("users", -10, json!({"globalDefault": true}))], "not below"),
            (vec![idle(-5), class("pause", -10, json!({}))], "not below"),
        ] {
            let found = problem(&classes, "idle").unwrap_or_default();
            assert!(found.contains(expected), "{found}");
        }
    }
}
