//! Conformance suite of [`ClusterProvider`].

use std::time::Duration;

use model::{Attempt, Class, Cluster, CommandId, Deleted, Stage, System, Timestamp, Verb};
use service::PortError;

use crate::provider::{ClusterProvider, ClusterStatus, LeaseRequest};

/// Checks that the adapter conforms to the port for this system. Its clusters expire at `expires_at`.
///
/// # Panics
/// Panics if a check fails.
pub async fn clusters(clusters: &dyn ClusterProvider, system: &System, expires_at: Timestamp) {
    let order = |attempt| {
        let run = "conformance".parse().expect("a legal run id");
        let id = CommandId { run, stage: Stage::Cluster, attempt: Attempt::new(attempt), verb: Verb::Start };
        LeaseRequest { name: id.resource_name(), id, system: system.clone(), expires_at }
    };
    let name = order(1).name;
    assert_eq!(clusters.poll(&name).await.expect("an answer"), ClusterStatus::Absent);

    let handle = clusters.create(&order(1)).await.expect("a handle");
    assert_eq!(
        clusters.create(&order(1)).await.expect("a handle"),
        handle,
        "a repeated create returns the handle of the existing cluster"
    );
    let cluster = ready(clusters, &name).await;
    assert_eq!(cluster.name, name);
    assert!(cluster.slots() >= 1);
    clusters.create(&order(1)).await.expect("a handle");
    assert_eq!(ready(clusters, &name).await, cluster, "a second create changes nothing");

    let listed = || async {
        let listing = clusters.list().await.expect("a list");
        listing.clusters.into_iter().find(|listed| listed.name == name)
    };
    let found = listed().await.expect("an existing cluster is listed");
    assert_eq!(
        (found.run.as_str(), found.expires_at),
        ("conformance", Some(expires_at)),
        "its labels are listed"
    );

    let deleted = delete_cluster(clusters, &name).await;
    assert_eq!(listed().await, None, "a deleted cluster is not listed");
    assert_eq!(deleted.name, name);
    assert_eq!(clusters.poll(&name).await.expect("an answer"), ClusterStatus::Absent);
    assert_eq!(delete_cluster(clusters, &name).await.name, name, "a second delete changes nothing");
    let refused = clusters.create(&order(1)).await;
    assert!(
        matches!(&refused, Err(PortError::Permanent(failure)) if failure.class == Class::Cancelled),
        "a create after the delete is refused: {refused:?}"
    );

    delete_cluster(clusters, &order(2).name).await;
    assert!(clusters.create(&order(2)).await.is_err(), "a repeated create after the delete is refused");
}

/// Deletes a cluster; polls a slow deletion.
async fn delete_cluster(clusters: &dyn ClusterProvider, name: &str) -> Deleted {
    for _ in 0..2000 {
        match clusters.delete(name).await {
            Ok(deleted) => return deleted,
            Err(PortError::Transient(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{name}: cannot be deleted: {error:?}"),
        }
    }
    panic!("timeout: {name} is not deleted");
}

async fn ready(clusters: &dyn ClusterProvider, name: &str) -> Cluster {
    for _ in 0..1000 {
        match clusters.poll(name).await.expect("an answer") {
            ClusterStatus::Ready(cluster) => return cluster,
            ClusterStatus::Starting => tokio::time::sleep(Duration::from_millis(10)).await,
            other => panic!("{name}: expected a ready cluster, found {other:?}"),
        }
    }
    panic!("timeout: {name} is not ready");
}
