//! Kept parts: network, storage and image of a run are used by later runs.

use cluster_api::{ClusterProvider, ClusterStatus};
use model::Span;

use crate::bed::ToolkitHost;

async fn night(bed: &mut ToolkitHost, run: &str) -> Vec<String> {
    bed.order.id.run = run.parse().unwrap();
    bed.order.name = bed.order.id.resource_name();
    bed.create().await;
    let status = bed.status_after_start().await;
    assert!(matches!(status, ClusterStatus::Ready(_)), "{run}: {status:?}");
    bed.delete().await.unwrap();
    bed.cloud.resources()
}

async fn nights(workflow: &str, more: &[(&str, &str)], storage: &str) {
    let mut bed = ToolkitHost::new(workflow, more);
    bed.keep(&["base", "image"], Span::from_secs(30 * 24 * 3600));
    let first = night(&mut bed, "night-1").await;
    assert!(first.iter().any(|thing| thing.starts_with(storage)), "{first:?}");
    assert!(first.iter().any(|thing| thing.starts_with("image ")), "{first:?}");
    assert!(first.iter().all(|thing| !thing.contains("-gpu-") && !thing.contains("login")), "{first:?}");

    // The second run creates and deletes only the cluster.
    let before = bed.cloud.calls();
    let second = night(&mut bed, "night-2").await;
    let calls = bed.cloud.calls()[before.len()..].to_owned();
    assert_eq!(second, first);
    assert!(!calls.contains("blueprints/base") && !calls.contains("blueprints/image"), "{calls}");
    assert!(calls.contains("blueprints/cluster"), "{calls}");

    let kept: Vec<_> = bed.clusters.list().await.unwrap().clusters;
    assert_eq!(kept.len(), 1);
    bed.order.name.clone_from(&kept[0].name);
    bed.delete().await.unwrap();
    assert_eq!(bed.cloud.resources(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn filestore_and_image_are_kept() {
    nights("a3-mega-slurm.yaml", &[], "file store ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lustre_and_image_are_kept() {
    let image = [("_SOURCE_IMAGE", "ubuntu-2204-jammy-v20240904")];
    nights("a3-mega-slurm-lustre.yaml", &image, "instance ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_base_is_rejected_before_a_resource_is_created() {
    let bed = ToolkitHost::new("a3-mega-slurm.yaml", &[("_BASE", "never-was-1-cluster-1")]);
    bed.create().await;
    let why = bed.broken().await;
    assert!(why.contains("_BASE: expected a cluster whose base was kept"), "{why}");
    assert_eq!(bed.cloud.resources(), [""; 0]);
}
