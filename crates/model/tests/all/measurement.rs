//! Names of hosts and nodes.

use std::collections::{BTreeMap, BTreeSet};

use model::{Cluster, ClusterAccess, Node, measurement::NodesOfHosts};

#[test]
fn a_host_of_several_nodes_keeps_its_name() {
    let log = |pairs: &[(&str, &str)]| -> BTreeMap<String, BTreeSet<String>> {
        pairs.iter().map(|(host, node)| ((*host).to_owned(), [(*node).to_owned()].into())).collect()
    };
    let logs =
        [log(&[("pod-1", "n1"), ("vm", "a")]), log(&[("pod-1", "n1"), ("vm", "b"), ("pod-10.x.y", "n2")])];
    let nodes = NodesOfHosts::of_logs(&logs);
    let of = |host| nodes.of(host).map(ToString::to_string);
    assert_eq!((of("pod-1").as_deref(), of("vm"), of("pod")), (Some("n1"), None, None));
    assert_eq!((of("pod-10").as_deref(), of("pod-10.x.y").as_deref()), (Some("n2"), Some("n2")));
    let mut hosts: BTreeSet<_> = ["vm", "pod-1", "n1"].map(str::to_owned).into();
    nodes.rename(&mut hosts);
    assert_eq!(hosts, ["n1", "vm"].map(str::to_owned).into());
    // Two hosts have the same name in different domains.
    let nodes =
        NodesOfHosts::of_logs([&log(&[("gpu-a.rack1.x", "10.0.0.1"), ("gpu-a.rack2.x", "10.0.0.2")])]);
    assert_eq!(nodes.of("gpu-a"), None);
    assert_eq!(nodes.of("gpu-a.rack2.x").map(ToString::to_string).as_deref(), Some("10.0.0.2"));
}

#[test]
fn a_program_cannot_rename_a_node_of_the_cluster() {
    let named = |nodes: &[&str], host: &str, node: &str| {
        let nodes = nodes.iter().map(|name| Node::new(*name, 8)).collect();
        let access = ClusterAccess::processes("/c");
        let cluster = Cluster { name: "c".to_owned(), nodes, access };
        let log = BTreeMap::from([(host.to_owned(), BTreeSet::from([node.to_owned()]))]);
        NodesOfHosts::of_logs([&log]).within(&cluster).of(host).map(ToString::to_string)
    };
    assert_eq!(named(&["n1", "n2"], "pod-0", "n1").as_deref(), Some("n1"));
    assert_eq!(named(&["n1", "n2"], "n2", "n1"), None);
    assert_eq!(named(&["n1", "n2"], "pod-0", "n3"), None);
    // The scheduler chooses the nodes.
    assert_eq!(named(&["any-0", "any-1"], "pod-0", "n3").as_deref(), Some("n3"));
}
