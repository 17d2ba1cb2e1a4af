//! A Kubernetes cluster with JobSet, as configured in a workflow.

mod rules;

use std::collections::BTreeMap;

use cluster_api::{ClusterLayout, Settings, SettingsProblems, Substitution};
use model::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Placement and resources of a job's pods, one pod per node. The cluster decides everything not set here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// Access to the cluster's API.
    #[serde(default)]
    pub access: ApiAccess,
    /// Namespace of the job's objects.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Kueue's LocalQueue in that namespace. Without a queue the pods are scheduled at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Kueue's WorkloadPriorityClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// Yield to other jobs: the pods run on free nodes only, with a lower priority than all other pods, and the run ends without a
    /// verdict if no nodes become free within `begin_within` or another pod preempts one of its pods. Requires `pod_priority_class`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub yields: bool,
    /// PriorityClass of the pods. With `yields` its value is below all others, and its `preemptionPolicy` is `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_priority_class: Option<String>,
    /// Required proximity of the pods; evaluated only by Kueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Number of pods, each on its own node, 1 to 4096.
    #[schemars(range(min = 1, max = 4096))]
    pub nodes: u32,
    /// Processes per pod, each with one GPU if GPUs are requested, 1 to 64.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub ranks_per_node: u32,
    /// `nvidia.com/gpu` of each pod; `None`: the benchmark runs on CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub gpus_per_node: Option<u32>,
    /// CPU request of each pod, thousandths of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_024_000))]
    pub cpu_millis: Option<u32>,
    /// Memory request and limit of each pod, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 67_108_864))]
    pub memory_mib: Option<u32>,
    /// Image of the pods by digest, `HOST/NAME@sha256:...`, for workflows without an image stage. It must
    /// contain bash and the benchmark program, and for `mpi` Open MPI and OpenSSH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Name of the secret with the registry credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_secret: Option<String>,
    /// Service account of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Required node labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Names of the nodes to use, one pod each: exactly `nodes` names, at most 8 because Kueue limits the
    /// kinds of pods in a job. Each node's label `kubernetes.io/hostname` must equal its name, which is the
    /// usual case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub only_nodes: Vec<String>,
    /// Taint keys that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerate: Vec<String>,
    /// Annotations of the pods, for instance their attached networks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Pods use the node's network.
    #[serde(default, skip_serializing_if = "is_false")]
    pub host_network: bool,
    /// Pods may use the node's devices, as GPUDirect RDMA requires.
    #[serde(default, skip_serializing_if = "is_false")]
    pub privileged: bool,
    /// Launcher of the ranks.
    #[serde(default)]
    pub launch: Launch,
    /// Port of rank 0 with `ranks`; rank N listens on this port + N. 1024 or more.
    #[serde(default = "rank_port")]
    #[schemars(range(min = 1024))]
    pub rank_port: u16,
    /// Installs a network plugin into each pod before the benchmark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Plugin>,
    /// Network interface for control traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_interface: Option<String>,
    /// Shell file in the pods that sets up the network, sourced before each rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Folder with the benchmark programs in the image. Default: search `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<String>,
    /// Value of `NCCL_DEBUG`.
    #[serde(default = "info")]
    pub nccl_debug: String,
    /// Environment variables of the ranks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The cluster creates nodes on demand, so no nodes need to exist before the job.
    #[serde(default, skip_serializing_if = "is_false")]
    pub autoscaled: bool,
    /// Maximum wait for quota and nodes, until every pod is running.
    #[serde(default = "half_an_hour")]
    pub begin_within: Span,
    /// Retention period of a failed job's pods, with their GPUs, for inspection, at most 24 h. It counts
    /// toward `limits.job` and the lease. Tests that locate a bad node keep no pods. Default: pods end at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_on_failure: Option<Span>,
}

/// Access to a cluster's API. Credentials are fetched on the agent's host and never stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ApiAccess {
    /// Access by a kubeconfig file.
    Kubeconfig {
        /// Absolute path; `None`: kubectl's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Context in the kubeconfig; default: the current context.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
    },
    /// Access from inside the cluster, with the service account of the agent's pod.
    InCluster,
    /// A GKE cluster, with `gke-gcloud-auth-plugin` from the `PATH`.
    Gke {
        /// The API's address, `https://...`.
        server: String,
        /// Certificate authority, PEM in base64, as `gcloud` prints it. Empty for GKE's DNS-based endpoint, whose certificate is
        /// signed by a public authority.
        certificate_authority: String,
    },
}

impl Default for ApiAccess {
    fn default() -> Self {
        Self::Kubeconfig { path: None, context: None }
    }
}

/// Required proximity of a job's pods, in Kueue's terms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Topology {
    /// All pods in one domain of this level (a node label), otherwise the job is not admitted.
    Required(String),
    /// All pods in as few domains of this level as possible.
    Preferred(String),
    /// Pods on any nodes with a known topology.
    Unconstrained,
}

/// Launcher of the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Launch {
    /// Each pod starts its own ranks, which find each other through `BURNIN_RANK`, `BURNIN_RANKS` and
    /// addresses in the folder `BURNIN_RENDEZVOUS`.
    #[default]
    Ranks,
    /// The first pod starts all ranks with `mpirun` over ssh.
    Mpi,
}

/// A container that runs before the benchmark and provides files for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plugin {
    /// Image of the container, by digest.
    pub image: String,
    /// Command of the container, with its arguments.
    pub command: Vec<String>,
    /// Mount path of the plugin's `/plugin` in the benchmark container.
    pub folder: String,
}

const fn one() -> u32 {
    1
}
fn default_namespace() -> String {
    "default".to_owned()
}
const fn rank_port() -> u16 {
    29_400
}
fn info() -> String {
    "INFO".to_owned()
}
const fn half_an_hour() -> Span {
    Span::from_secs(1800)
}
fn is_false(value: &bool) -> bool {
    !value
}

/// Taint of a cordoned node. The scheduler places pods that tolerate it on cordoned nodes
/// (`pkg/scheduler/framework/plugins/nodeunschedulable`, Kubernetes 1.33).
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

impl Settings for Kubernetes {
    const KIND: &'static str = "kubernetes";
    const DESCRIPTION: &'static str = "A Kubernetes cluster with JobSet.";
    const LEAST: &'static str = r#"{"nodes": 1}"#;

    fn problems(&self) -> SettingsProblems {
        rules::problems(self)
    }

    fn layout(&self) -> Option<ClusterLayout> {
        let Self { nodes, ranks_per_node, gpus_per_node, .. } = *self;
        Some(ClusterLayout { nodes, ranks_per_node, gpus_per_node })
    }

    /// Uses no Kueue queue: Kueue's topologies contain no cordoned nodes, so the job would wait indefinitely.
    fn for_retest(&self, nodes: &[String], partners: &[String]) -> Result<Self, String> {
        let partners = partners.iter().take(rules::MAX_NAMED.saturating_sub(nodes.len()));
        let only_nodes: Vec<_> = nodes.iter().chain(partners).cloned().collect();
        let mut tolerate = self.tolerate.clone();
        if !tolerate.iter().any(|key| key == UNSCHEDULABLE) {
            tolerate.push(UNSCHEDULABLE.to_owned());
        }
        Ok(Self {
            nodes: u32::try_from(only_nodes.len()).map_err(|error| error.to_string())?,
            only_nodes,
            tolerate,
            queue: None,
            priority_class: None,
            topology: None,
            yields: false,
            pod_priority_class: None,
            ..self.clone()
        })
    }

    fn substitutions(&self) -> Vec<Substitution> {
        vec![
            Substitution::number("_NODES", "nodes", Some(self.nodes)),
            Substitution::number("_RANKS_PER_NODE", "ranks_per_node", Some(self.ranks_per_node)),
            Substitution::number("_GPUS", "gpus_per_node", self.gpus_per_node),
            Substitution::text("_NAMESPACE", "namespace", Some(&self.namespace)),
            Substitution::text("_QUEUE", "queue", self.queue.as_deref()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use model::{Cluster, ClusterAccess};

    use super::*;

    fn minimal() -> Kubernetes {
        serde_json::from_str(r#"{"nodes": 2}"#).unwrap()
    }

    #[test]
    fn the_access_round_trips_all_settings() {
        let mut kubernetes = minimal();
        kubernetes.access = ApiAccess::InCluster;
        kubernetes.queue = Some("a4".into());
        kubernetes.topology = Some(Topology::Required("cloud.google.com/gce-topology-block".into()));
        kubernetes.environment.insert("A".into(), "it's \"$(x)\"\n".into());
        let cluster = Cluster { name: "lab".into(), nodes: vec![], access: Settings::access(&kubernetes) };
        assert_eq!(Kubernetes::of(&cluster).unwrap(), kubernetes);
        let other = Cluster { access: ClusterAccess::processes("/folder"), ..cluster.clone() };
        assert!(Kubernetes::of(&other).is_err());
        assert!(
            Kubernetes::of(&Cluster { access: ClusterAccess::new("kubernetes", ()), ..cluster }).is_err()
        );
    }

    #[test]
    fn a_re_test_runs_on_its_nodes_although_they_are_cordoned_and_without_a_queue() {
        let mut kubernetes = minimal();
        kubernetes.queue = Some("a4".into());
        kubernetes.topology = Some(Topology::Required("block".into()));
        kubernetes.tolerate = vec!["team".into()];
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let partners = names(&["a", "b", "c", "d", "e", "f", "g", "h"]);
        let retest = kubernetes.for_retest(&names(&["bad"]), &partners).unwrap();
        assert_eq!(retest.problems(), [], "at most eight nodes can be named");
        assert_eq!(retest.only_nodes, names(&["bad", "a", "b", "c", "d", "e", "f", "g"]));
        assert_eq!(retest.tolerate, names(&["team", UNSCHEDULABLE]));
        assert_eq!((retest.nodes, retest.queue, retest.topology), (8, None, None));
    }

    #[test]
    fn every_invalid_field_is_reported() {
        assert_eq!(minimal().problems(), []);
        let wrong = serde_json::json!({
            "access": {"kubeconfig": {"path": "config"}}, "namespace": "A", "queue": "-q", "priority_class": "a b",
            "topology": {"required": "a b"}, "nodes": 0, "ranks_per_node": 65, "gpus_per_node": 0, "rank_port": 80, "memory_mib": 0,
            "image": "host/name:latest", "service_account": "x_y", "node_selector": {"a b": "c", "ok": "a b"},
            "only_nodes": ["n1", "N2", "n1"],
            "tolerate": ["a b"], "annotations": {"": "x"}, "socket_interface": "eth0;x", "profile": "x", "programs": "x",
            "nccl_debug": "A B", "environment": {"A B": ""}, "begin_within": "0s", "keep_on_failure": "25h",
            "plugin": {"image": "x", "command": [], "folder": "x"}
        });
        let kubernetes: Kubernetes = serde_json::from_value(wrong).unwrap();
        let fields: Vec<_> = kubernetes.problems().into_iter().map(|(field, _)| field).collect();
        assert_eq!(
            fields,
            [
                "access.kubeconfig.path",
                "namespace",
                "queue",
                "priority_class",
                "topology",
                "nodes",
                "ranks_per_node",
                "gpus_per_node",
                "rank_port",
                "memory_mib",
                "image",
                "service_account",
                "node_selector.a b",
                "node_selector.ok",
                "only_nodes",
                "only_nodes",
                "only_nodes",
                "tolerate",
                "annotations.",
                "plugin.image",
                "plugin.folder",
                "plugin.command",
                "socket_interface",
                "profile",
                "programs",
                "nccl_debug",
                "environment.A B",
                "begin_within",
                "keep_on_failure",
            ]
        );
        let gke = serde_json::json!({"nodes": 1, "topology": "unconstrained",
            "access": {"gke": {"server": "http://x", "certificate_authority": "-"}}});
        let gke: Kubernetes = serde_json::from_value(gke).unwrap();
        let fields: Vec<_> = gke.problems().into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["access.gke.server", "access.gke.certificate_authority", "topology"]);
    }
}
