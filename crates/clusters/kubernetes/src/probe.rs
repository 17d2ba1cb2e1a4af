//! Checks an existing Kubernetes cluster: access, required APIs, and enough nodes.

use std::collections::BTreeMap;

use cluster_api::ClusterStatus;
use k8s_openapi::api::core::v1::Node;
use model::{Class, Failure};
use service::PortError;

use crate::{
    ApiAccess, Kubernetes,
    apiserver::HOSTNAME,
    client, lookup,
    objects::{Conditions, LocalQueue, text},
    ready, ready_on_any_nodes,
    rights::{self, JOBS, QUEUES},
    settings::UNSCHEDULABLE,
};

/// Checks everything that a job needs from the cluster.
///
/// # Errors
/// Returns an error with the requirement's code if a requirement is not met, or an error if the API request fails.
pub async fn probe(name: &str, settings: &Kubernetes) -> Result<ClusterStatus, PortError> {
    let client = match client(&settings.access).await {
        // In-cluster credentials exist only in the agent's pod.
        Err(PortError::Permanent(_)) if settings.access == ApiAccess::InCluster => {
            return Ok(ready_on_any_nodes(name, settings));
        }
        client => client?,
    };
    let missing = |class, code: &str, why: String| {
        PortError::Permanent(Failure::new(class, code, format!("cluster {name}: {why}")))
    };
    let namespace = &settings.namespace;
    if !lookup::served(&client, "jobset.x-k8s.io/v1alpha2", "jobsets").await? {
        let why = "JobSet (jobset.x-k8s.io/v1alpha2) is not installed; install JobSet".to_owned();
        return Err(missing(Class::Input, "NOT_INSTALLED", why));
    }
    let kueue = match &settings.queue {
        Some(_) => lookup::kueue(&client).await?,
        None => None,
    };
    if settings.queue.is_some() && kueue.is_none() {
        let versions = lookup::KUEUE_VERSIONS.join(" or ");
        let why = format!(
            "queue: Kueue (kueue.x-k8s.io/{versions}) is not installed; install Kueue, or remove `queue`"
        );
        return Err(missing(Class::Input, "NOT_INSTALLED", why));
    }
    let mut denied = rights::missing(&client, namespace, &JOBS).await?;
    if settings.queue.is_some() {
        denied.extend(rights::missing(&client, namespace, &QUEUES).await?);
    }
    if !denied.is_empty() {
        let why = format!(
            "the configured account lacks permissions in namespace {namespace}: {}; \
             grant them, for example with the role in workflows/a4-gke-testbed/rbac.yaml",
            denied.join(", ")
        );
        return Err(missing(Class::Input, "PERMISSION_DENIED", why));
    }
    if let (Some(queue), Some(version)) = (&settings.queue, kueue) {
        let found = lookup::queue(&client, version, namespace, queue).await?;
        if let Some(why) = closed(queue, namespace, found.as_ref()) {
            return Err(missing(Class::Input, "QUEUE", why));
        }
    }
    if settings.autoscaled {
        return Ok(ready_on_any_nodes(name, settings));
    }
    let mut count = Count::default();
    let seen = lookup::nodes(&client, |node| count.add(node, settings)).await?;
    if !seen {
        tracing::warn!(
            cluster = name,
            "nodes are not counted: no permission to list nodes; grant `list` on nodes to count them"
        );
        return Ok(ready_on_any_nodes(name, settings));
    }
    let requested = usize::try_from(settings.nodes).unwrap_or(usize::MAX);
    if count.fit.len() < requested {
        return Err(missing(Class::Infrastructure, "UNSCHEDULABLE", count.settings_text(settings)));
    }
    Ok(if count.fit.len() == requested {
        ready(name, settings, count.fit)
    } else {
        ready_on_any_nodes(name, settings)
    })
}

/// Reason why this queue admits no jobs.
fn closed(queue: &str, namespace: &str, found: Option<&LocalQueue>) -> Option<String> {
    let Some(found) = found else {
        return Some(format!(
            "queue: no LocalQueue {queue} in namespace {namespace}; create it, or correct `queue`"
        ));
    };
    if let Some(policy) = found.spec.stop_policy.as_ref().filter(|policy| *policy != "None") {
        return Some(format!("queue: LocalQueue {queue} is stopped ({policy}); set its stopPolicy to None"));
    }
    let active = found.condition("Active")?;
    (active.status != "True").then(|| {
        let why = if active.message.is_empty() { "without a reason" } else { &active.message };
        format!("queue: LocalQueue {queue} admits no jobs: {why}")
    })
}

/// Nodes that can run a pod of the job, and the reasons why others cannot.
#[derive(Default)]
struct Count {
    fit: Vec<String>,
    /// For each reason the number of unfit nodes, and the name of one such node for the message.
    unfit: BTreeMap<String, (usize, String)>,
}

impl Count {
    fn add(&mut self, node: &Node, settings: &Kubernetes) {
        let name = text(node.metadata.name.as_ref()).to_owned();
        match unfit(node, settings) {
            None => self.fit.push(name),
            Some(why) => self.unfit.entry(why).or_insert((0, name)).0 += 1,
        }
    }

    fn settings_text(&self, settings: &Kubernetes) -> String {
        let mut text = format!("nodes: {} requested, {} can run a pod", settings.nodes, self.fit.len());
        for (why, (count, one)) in &self.unfit {
            text += &match count {
                1 => format!("; {one} {why}"),
                _ => format!("; {one} and {} more: {why}", count - 1),
            };
        }
        if self.unfit.is_empty() {
            text += "; the cluster has no other nodes";
        }
        text + "; repair or add nodes, request less, or set `autoscaled: true` if pending pods add nodes"
    }
}

/// Reason why this node cannot run a pod of the job.
fn unfit(node: &Node, settings: &Kubernetes) -> Option<String> {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let hostname = label(HOSTNAME);
    if !settings.only_nodes.is_empty() && !settings.only_nodes.iter().any(|named| hostname == Some(named)) {
        return Some("is not in `only_nodes`".to_owned());
    }
    for (key, value) in &settings.node_selector {
        if label(key) != Some(value) {
            return Some(format!("does not have the label {key}={value} (node_selector)"));
        }
    }
    if node.holds("Ready").is_none() {
        return Some("is not Ready".to_owned());
    }
    let spec = node.spec.as_ref();
    let tolerates_cordon = settings.tolerate.iter().any(|tolerated| tolerated == UNSCHEDULABLE);
    if spec.and_then(|spec| spec.unschedulable) == Some(true) && !tolerates_cordon {
        return Some("is cordoned".to_owned());
    }
    for taint in spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten() {
        let key = &taint.key;
        let hard = ["NoSchedule", "NoExecute"].contains(&taint.effect.as_str());
        // GKE adds this toleration to pods that request GPUs, and Kueue adds the tolerations of its flavor.
        let others = (settings.gpus_per_node.is_some() && key == "nvidia.com/gpu")
            || (settings.queue.is_some() && !key.starts_with("node.kubernetes.io/"));
        if hard && !others && !settings.tolerate.iter().any(|tolerated| tolerated == key) {
            return Some(format!("has the taint {key}, which `tolerate` does not name"));
        }
    }
    let required = [
        ("nvidia.com/gpu", settings.gpus_per_node.map(|gpus| u128::from(gpus) * 1000), "gpus_per_node"),
        ("cpu", settings.cpu_millis.map(u128::from), "cpu_millis"),
        ("memory", settings.memory_mib.map(|mib| u128::from(mib) * (1000 << 20)), "memory_mib"),
    ];
    required.into_iter().find_map(|(resource, required, field)| {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let has = allocatable.and_then(|all| all.get(resource)).map_or("0", |quantity| &quantity.0);
        (millis(has)? < required?).then(|| format!("has {has} of {resource}, less than {field} requires"))
    })
}

/// A Kubernetes quantity in thousandths; `None` if it is invalid.
fn millis(quantity: &str) -> Option<u128> {
    const UNITS: [(&str, u128); 13] = [
        ("Ki", 1000 << 10),
        ("Mi", 1000 << 20),
        ("Gi", 1000 << 30),
        ("Ti", 1000 << 40),
        ("Pi", 1000 << 50),
        ("m", 1),
        ("k", 1_000_000),
        ("M", 1_000_000_000),
        ("G", 1_000_000_000_000),
        ("T", 1_000_000_000_000_000),
        ("P", 1_000_000_000_000_000_000),
        ("E", 1_000_000_000_000_000_000_000),
        ("", 1000),
    ];
    UNITS.into_iter().find_map(|(unit, size)| {
        let number: u128 = quantity.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(size)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings(more: Value) -> Kubernetes {
        let mut all = json!({"nodes": 2});
        all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        serde_json::from_value(all).unwrap()
    }

    fn node(more: Value) -> Node {
        let mut node = json!({"metadata": {"name": "n1", "labels": {"kind": "b200", "kubernetes.io/hostname": "n1"}}, "spec": {}, "status": {
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "1930m", "memory": "8040048Ki", "nvidia.com/gpu": "8"}}});
        for (field, value) in more.as_object().unwrap() {
            node[field] = value.clone();
        }
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn an_unfit_node_is_reported_with_its_reason() {
        let tainted =
            |key: &str, effect: &str| node(json!({"spec": {"taints": [{"key": key, "effect": effect}]}}));
        let cordoned = || {
            let taint = json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"});
            node(json!({"spec": {"unschedulable": true, "taints": [taint]}}))
        };
        let all = [
            (node(json!({})), json!({}), ""),
            (node(json!({})), json!({"node_selector": {"kind": "b200"}, "gpus_per_node": 8}), ""),
            (node(json!({})), json!({"cpu_millis": 1930, "memory_mib": 7851}), ""),
            (node(json!({})), json!({"cpu_millis": 1931}), "has 1930m of cpu"),
            (node(json!({})), json!({"memory_mib": 7852}), "has 8040048Ki of memory"),
            (
                node(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})),
                json!({"gpus_per_node": 8}),
                "has 0 of nvidia.com/gpu",
            ),
            (node(json!({})), json!({"node_selector": {"kind": "h100"}}), "label kind=h100"),
            (node(json!({})), json!({"only_nodes": ["n1", "n2"]}), ""),
            (node(json!({})), json!({"only_nodes": ["n2", "n3"]}), "is not in `only_nodes`"),
            (
                node(json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})),
                json!({}),
                "is not Ready",
            ),
            (node(json!({"status": {}})), json!({}), "is not Ready"),
            (cordoned(), json!({}), "is cordoned"),
            (cordoned(), json!({"tolerate": [UNSCHEDULABLE]}), ""),
            (tainted("team", "NoSchedule"), json!({}), "has the taint team"),
            (tainted("team", "PreferNoSchedule"), json!({}), ""),
            (tainted("team", "NoExecute"), json!({"tolerate": ["team"]}), ""),
            (tainted("nvidia.com/gpu", "NoSchedule"), json!({"gpus_per_node": 8}), ""),
            (tainted("team", "NoSchedule"), json!({"queue": "a4"}), ""),
            (
                tainted("node.kubernetes.io/unreachable", "NoExecute"),
                json!({"queue": "a4"}),
                "has the taint node.k",
            ),
        ];
        for (node, configured, expected) in all {
            let why = unfit(&node, &settings(configured.clone()));
            assert_eq!(why.is_none(), expected.is_empty(), "{node:?} for {configured}: {why:?}");
            assert!(why.unwrap_or_default().contains(expected), "{node:?} for {configured}");
        }
    }

    #[test]
    fn unfit_nodes_are_counted_for_each_reason() {
        let mut count = Count::default();
        for (name, ready) in [("n1", "True"), ("n2", "False"), ("n3", "Unknown")] {
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            let node = serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap();
            count.add(&node, &settings(json!({})));
        }
        let text = count.settings_text(&settings(json!({})));
        let expected = "nodes: 2 requested, 1 can run a pod; n2 and 1 more: is not Ready; ";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn kubernetes_quantities_are_parsed() {
        for (text, expected) in [
            ("2", Some(2000)),
            ("1930m", Some(1930)),
            ("1Ki", Some(1_024_000)),
            ("1k", Some(1_000_000)),
            ("1e3", None),
            ("", None),
            ("-1", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }

    #[test]
    fn a_queue_that_admits_no_jobs_is_reported_with_its_reason() {
        let queue = |queue: Value| serde_json::from_value::<LocalQueue>(queue).unwrap();
        let with_status = |status: &str| {
            queue(
                json!({"status": {"conditions": [{"type": "Active", "status": status, "message": "Can't submit new workloads to clusterQueue"}]}}),
            )
        };
        assert_eq!(closed("a4", "burnin", Some(&with_status("True"))), None);
        assert_eq!(
            closed("a4", "burnin", Some(&queue(json!({})))),
            None,
            "Kueue has not processed the JobSet yet"
        );
        let inactive = closed("a4", "burnin", Some(&with_status("False"))).unwrap();
        assert_eq!(
            inactive,
            "queue: LocalQueue a4 admits no jobs: Can't submit new workloads to clusterQueue"
        );
        assert!(closed("a4", "burnin", None).unwrap().contains("no LocalQueue a4 in namespace burnin"));
        let stopped = queue(json!({"spec": {"stopPolicy": "Hold"}}));
        assert!(closed("a4", "burnin", Some(&stopped)).unwrap().contains("stopped (Hold)"));
    }
}
