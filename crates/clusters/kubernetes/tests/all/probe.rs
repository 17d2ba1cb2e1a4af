//! Checks of an existing Kubernetes cluster, on the stand-in for its API server.

use cluster_api::{ClusterKind, ClusterStatus};
use cluster_kubernetes::KubernetesKind;
use kubernetes_standin::Api;
use model::{Class, Failure, System};
use serde_json::{Value, json};
use service::PortError;

struct ProbeBed {
    api: Api,
    root: tempfile::TempDir,
}

impl ProbeBed {
    /// Two nodes of eight GPUs, and a queue.
    async fn new() -> Self {
        let (api, root) = (Api::serve().await.unwrap(), tempfile::tempdir().unwrap());
        for name in ["n1", "n2"] {
            api.node(
                name,
                &json!({}),
                &json!({"pool": "b200"}),
                &json!({"cpu": "208", "memory": "3Ti", "nvidia.com/gpu": "8"}),
            );
        }
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": api.endpoint}}], "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]});
        std::fs::write(root.path().join("kubeconfig"), config.to_string()).unwrap();
        let bed = Self { api, root };
        bed.queue("a4", "True");
        bed
    }

    fn queue(&self, name: &str, active: &str) {
        let key = ("kueue.x-k8s.io/localqueues".to_owned(), "burnin".to_owned(), name.to_owned());
        let queue = json!({"spec": {"clusterQueue": name}, "status": {"conditions": [
            {"type": "Active", "status": active, "message": "Can't submit new workloads to clusterQueue"}]}});
        self.api.change(|objects| objects.create(&key, queue)).unwrap();
    }

    async fn status(&self, more: Value) -> Result<ClusterStatus, PortError> {
        let path = self.root.path().join("kubeconfig");
        let mut all = json!({"nodes": 2, "gpus_per_node": 8, "ranks_per_node": 8, "namespace": "burnin",
            "access": {"kubeconfig": {"path": path}}});
        all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        KubernetesKind.probe("lab", &System::new("kubernetes", all)).await
    }

    async fn refused(&self, more: Value) -> Failure {
        match self.status(more).await {
            Err(PortError::Permanent(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }

    async fn nodes(&self, more: Value) -> Vec<String> {
        match self.status(more).await {
            Ok(ClusterStatus::Ready(cluster)) => cluster.nodes.into_iter().map(|node| node.name).collect(),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_cluster_is_ready_with_its_nodes() {
    let bed = ProbeBed::new().await;
    assert_eq!(bed.nodes(json!({})).await, ["n1", "n2"]);
    assert_eq!(bed.nodes(json!({"queue": "a4", "node_selector": {"pool": "b200"}})).await, ["n1", "n2"]);
    // The job uses one of two nodes, and the scheduler chooses it.
    assert_eq!(bed.nodes(json!({"nodes": 1})).await, ["any-0"]);
    assert_eq!(bed.nodes(json!({"nodes": 9, "autoscaled": true})).await.len(), 9);
    bed.api.deny("list nodes");
    assert_eq!(
        bed.nodes(json!({})).await,
        ["any-0", "any-1"],
        "without the permission to list nodes the cluster is ready"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_installations_are_reported() {
    let bed = ProbeBed::new().await;
    bed.api.deny("kueue.x-k8s.io");
    let why = bed.refused(json!({"queue": "a4"})).await;
    assert_eq!((why.class, why.code.as_str()), (Class::Input, "NOT_INSTALLED"));
    assert!(why.message.starts_with("cluster lab: queue: Kueue"), "{}", why.message);
    assert_eq!(bed.nodes(json!({})).await.len(), 2, "without a queue Kueue is not required");
    bed.api.deny("jobset.x-k8s.io");
    let why = bed.refused(json!({})).await;
    assert!(why.code == "NOT_INSTALLED" && why.message.contains("install JobSet"), "{}", why.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_read_in_a_version_that_is_served() {
    let bed = ProbeBed::new().await;
    for versions in [&["v1beta1"][..], &["v1beta2"], &["v1alpha1", "v1beta1", "v1beta2", "v1"]] {
        bed.api.serve_kueue(versions);
        assert_eq!(bed.nodes(json!({"queue": "a4"})).await, ["n1", "n2"], "{versions:?}");
    }
    // Versions of Kueue before 0.14 served only the kind Topology as v1alpha1.
    bed.api.serve_kueue(&["v1alpha1"]);
    let why = bed.refused(json!({"queue": "a4"})).await;
    assert!(why.code == "NOT_INSTALLED" && why.message.contains("v1beta2 or v1beta1"), "{}", why.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_missing_permissions_are_reported() {
    let bed = ProbeBed::new().await;
    for right in ["create jobsets", "get pods/log", "list workloads"] {
        bed.api.deny(right);
    }
    let why = bed.refused(json!({})).await;
    assert_eq!((why.class, why.code.as_str()), (Class::Input, "PERMISSION_DENIED"));
    assert!(
        why.message.contains("in namespace burnin") && why.message.contains("create jobsets, get pods/log;"),
        "{}",
        why.message
    );
    assert!(bed.refused(json!({"queue": "a4"})).await.message.contains("list workloads"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_queue_is_reported() {
    let bed = ProbeBed::new().await;
    bed.queue("closed", "False");
    for (queue, expected) in
        [("none", "no LocalQueue none in namespace burnin"), ("closed", "Can't submit new workloads")]
    {
        let why = bed.refused(json!({"queue": queue})).await;
        assert!(why.code == "QUEUE" && why.message.contains(expected), "{why:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_usable_nodes_are_refused_with_the_reasons() {
    let bed = ProbeBed::new().await;
    bed.api.node(
        "n3",
        &json!({"taints": [{"key": "team", "effect": "NoSchedule"}]}),
        &json!({}),
        &json!({"nvidia.com/gpu": "8"}),
    );
    bed.api.node("cpu", &json!({}), &json!({}), &json!({"cpu": "4"}));
    let why = bed.refused(json!({"nodes": 3})).await;
    assert_eq!((why.class, why.code.as_str()), (Class::Infrastructure, "UNSCHEDULABLE"));
    for expected in ["3 requested, 2 can run a pod", "n3 has the taint team", "cpu has 0 of nvidia.com/gpu"] {
        assert!(why.message.contains(expected), "{}", why.message);
    }
    assert_eq!(bed.nodes(json!({"nodes": 3, "tolerate": ["team"]})).await, ["n1", "n2", "n3"]);
    // The list of these nodes has more than one page.
    for number in 0..120 {
        bed.api.node(&format!("more-{number:03}"), &json!({}), &json!({}), &json!({"nvidia.com/gpu": "8"}));
    }
    assert_eq!(bed.nodes(json!({"nodes": 122})).await.len(), 122);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_api_is_retried_and_missing_credentials_fail() {
    let bed = ProbeBed::new().await;
    let why = bed.refused(json!({"access": {"kubeconfig": {"path": "/nowhere"}}})).await;
    assert!(why.code == "CREDENTIALS" && why.message.contains("/nowhere"), "{why:?}");
    // In-cluster credentials exist only in the agent's pod, so they are not checked here.
    assert_eq!(bed.nodes(json!({"access": "in_cluster"})).await, ["any-0", "any-1"]);
    drop(bed.api);
    let config = bed.root.path().join("kubeconfig");
    let bed = ProbeBed { api: Api::serve().await.unwrap(), root: bed.root };
    let gone = std::fs::read_to_string(&config).unwrap();
    assert!(!gone.contains(&bed.api.endpoint));
    assert!(matches!(bed.status(json!({})).await, Err(PortError::Transient(_))));
}
