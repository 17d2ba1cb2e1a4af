//! A slow node is located and cordoned; it is re-tested with good partners while other pods cannot use it, and returns to service.

use std::process::Command;

use serde_json::Value;

use super::bed::{KubernetesBed, passed, printed};

const SLOW: &str = "tests/testbed/kubernetes/slow.yaml";
const RETEST: &str = "tests/testbed/kubernetes/retest.yaml";

/// Limits both ends of the second node's cable to 40 Mbit/s until dropped.
struct SlowLinks<'a>(&'a KubernetesBed);

impl<'a> SlowLinks<'a> {
    fn new(bed: &'a KubernetesBed) -> Self {
        let slow = Self(bed);
        slow.links("replace dev {} root tbf rate 40mbit burst 64kb latency 1s");
        slow
    }

    fn links(&self, what: &str) {
        let space = self.0.read("namespace");
        for (at, link) in [(space.clone(), "n2"), (format!("{space}-n2"), "eth0")] {
            let words = format!("-n {at} qdisc {}", what.replace("{}", link));
            let status = Command::new("tc").args(words.split_whitespace()).status().unwrap();
            assert!(status.success(), "tc {words}");
        }
    }
}

impl Drop for SlowLinks<'_> {
    fn drop(&mut self) {
        self.links("del dev {} root");
    }
}

/// Grants the permission to drain nodes until dropped. Dropping it also returns the second node to service.
struct DrainPermission<'a>(&'a KubernetesBed);

impl<'a> DrainPermission<'a> {
    fn new(bed: &'a KubernetesBed) -> Self {
        // This binding is the one in workflows/a4-gke-testbed/rbac.yaml.
        bed.kubectl("create clusterrolebinding burnin-drain --clusterrole=burnin-drain --serviceaccount=burnin:burnin");
        Self(bed)
    }
}

impl Drop for DrainPermission<'_> {
    fn drop(&mut self) {
        self.0.kubectl("delete clusterrolebinding burnin-drain");
        self.0.kubectl("uncordon n2");
        self.0.kubectl("annotate node n2 burnin.dev/drained-");
    }
}

/// Reason in the annotation of a cordoned node; `None` for a node in service. The node controller sets the taint of a cordoned node
/// (Kubernetes 1.32, `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, `doNoScheduleTaintingPass`).
fn drained(bed: &KubernetesBed, node: &str) -> Option<String> {
    let tainted =
        |node: &Value| node["spec"]["taints"].to_string().contains("node.kubernetes.io/unschedulable");
    let cordoned = |node: &Value| node["spec"]["unschedulable"] == true;
    bed.wait_for("the node has the taint of its state", || {
        let node = bed.node(node);
        tainted(&node) == cordoned(&node)
    });
    let node = bed.node(node);
    let reason = &node["metadata"]["annotations"]["burnin.dev/drained"];
    assert_eq!(cordoned(&node), reason.is_string(), "{node:#}");
    reason.as_str().map(str::to_owned)
}

fn state(bed: &KubernetesBed, node: &str) -> String {
    let known = bed.document(&["nodes", "--all"]);
    let nodes = known["nodes"].as_array().unwrap();
    let of = nodes
        .iter()
        .find(|known| known["node"] == node)
        .unwrap_or_else(|| panic!("{node} is not in {known:#}"));
    of["state"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_slow_node_is_drained_re_tested_and_returned() {
    let bed = KubernetesBed::new();
    let _may_drain = DrainPermission::new(&bed);
    let image = bed.image("image");
    // A passed run makes the nodes `good`: only good nodes are partners of a re-test.
    passed(&bed.run(SLOW, &[&image]).output().unwrap());
    let slow = SlowLinks::new(&bed);
    let output = bed.run(SLOW, &[&image]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let judged = bed.kept("verdict.json");
    assert!(judged.contains("BELOW_FLOOR"), "{judged}");
    let located: Value = serde_json::from_str(&bed.kept("located.json")).unwrap();
    let named = located["suspects"]["nodes"].as_array().unwrap();
    assert_eq!((named.len(), &named[0]["node"]), (1, &Value::from("n2")), "{located}");
    let reason = named[0]["drained"]["applied"]["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.starts_with("burnin ") && reason.ends_with("slow or wrong in pairs"), "{located}");
    assert_eq!(drained(&bed, "n2"), Some(reason.clone()));
    assert_eq!(bed.kubectl("get nodes").matches("SchedulingDisabled").count(), 1);
    assert_eq!(state(&bed, "n2"), "drained");

    // The node is still slow, so it stays cordoned with the first reason.
    let output = bed.retest("n2", RETEST, &[&image]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert_eq!((drained(&bed, "n2"), state(&bed, "n2")), (Some(reason.clone()), "failed_again".to_owned()));
    drop(slow);

    // The node is repaired.
    let output = bed.retest("n2", RETEST, &[&image]);
    passed(&output);
    assert!(printed(&output).contains("applied"), "{}", printed(&output));
    assert_eq!((drained(&bed, "n2"), state(&bed, "n2")), (None, "returned".to_owned()));
    assert_eq!(bed.remaining_objects(), "", "after the end of the runs");
}
