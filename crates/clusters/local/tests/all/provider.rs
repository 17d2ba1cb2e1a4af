//! The conformance suite, on every adapter.

use std::sync::Arc;

use cluster_api::{
    ClusterProvider, ClusterStatus, LeaseRequest, fake_provider::FakeClusters, provider_conformance,
};
use cluster_local::LocalClusters;
use model::{Attempt, CommandId, Span, Stage, System, Timestamp, Verb};
use service::{Clock, SystemClock};

/// End of the leases: later than the end of the suite, but after a failed test its processes end within 60 s.
fn soon() -> Timestamp {
    SystemClock.now() + Span::from_secs(60)
}

#[tokio::test]
async fn the_fake_clusters_conform() {
    let provider = FakeClusters::new(Arc::new(SystemClock));
    provider_conformance::clusters(&provider, &System::processes(2), soon()).await;
    assert_eq!(provider.alive(), [""; 0], "no cluster is left after the suite");
}

#[tokio::test(flavor = "multi_thread")]
async fn process_clusters_conform() {
    let root = tempfile::tempdir().unwrap();
    let provider = |gpus: u32| {
        let clusters =
            supervisor::ClusterFolder::new(root.path().join(gpus.to_string()), crate::support::program());
        LocalClusters::new(clusters, Arc::new(SystemClock), gpus)
    };
    for gpus in [0, 8] {
        provider_conformance::clusters(&provider(gpus), &System::processes(2), soon()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_gpus_is_one_node() {
    let root = tempfile::tempdir().unwrap();
    for (gpus, expected) in [(0, vec![1, 1, 1]), (8, vec![8])] {
        let clusters =
            supervisor::ClusterFolder::new(root.path().join(gpus.to_string()), crate::support::program());
        let provider = LocalClusters::new(clusters, Arc::new(SystemClock), gpus);
        let id = CommandId {
            run: "slots".parse().unwrap(),
            stage: Stage::Cluster,
            attempt: Attempt::FIRST,
            verb: Verb::Start,
        };
        let name = id.resource_name();
        let system = System::processes(3);
        provider.create(&LeaseRequest { id, name: name.clone(), system, expires_at: soon() }).await.unwrap();
        let cluster = loop {
            match provider.poll(&name).await.unwrap() {
                ClusterStatus::Ready(cluster) => break cluster,
                ClusterStatus::Starting => tokio::task::yield_now().await,
                other => panic!("expected a ready cluster, found {other:?}"),
            }
        };
        provider.delete(&name).await.unwrap();
        let slots: Vec<u32> = cluster.nodes.iter().map(|node| node.slots).collect();
        assert_eq!(slots, expected, "slots of the nodes of a host with {gpus} GPUs");
    }
}
