//! Clusters of a workflow, and access to clusters.

use model::{ClusterAccess, DEPLOYED, System};
use serde_json::json;

#[test]
fn a_system_is_an_object_with_one_field_and_keeps_the_order_of_its_settings() {
    let text = r#"{"slurm":{"shared_folder":"/x","nodes":4}}"#;
    let system: System = serde_json::from_str(text).unwrap();
    assert_eq!((system.kind(), system.nodes()), ("slurm", 4));
    assert_eq!(serde_json::to_string(&system).unwrap(), text);
    for wrong in [json!({}), json!({"slurm": {}, "kubernetes": {}}), json!("slurm"), json!(null)] {
        assert!(serde_json::from_value::<System>(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn a_deployed_cluster_has_the_node_count_of_the_kind_that_it_provisions() {
    let build = json!({"config": {"nodes": 9}, "substitutions": {}});
    let deployed = json!({"deploy": build, "destroy": build, "slurm": {"nodes": 2}});
    assert_eq!(System::new(DEPLOYED, deployed).nodes(), 2);
    assert_eq!(System::new("hosts", json!({})).nodes(), 0);
}

#[test]
fn endpoints_of_older_ledgers_are_read_and_displayed_unchanged() {
    for endpoint in [r#"slurm:{"nodes":2}"#, r#"kubernetes:{"nodes":1}"#, "/tmp/clusters/a:b", "sim:x"] {
        let access = ClusterAccess::of_endpoint(endpoint).unwrap();
        assert_eq!(access.to_string(), endpoint);
    }
    assert!(ClusterAccess::of_endpoint("slurm:{").is_err());
}
