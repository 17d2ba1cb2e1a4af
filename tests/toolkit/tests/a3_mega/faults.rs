//! What goes wrong: told by its name, and nothing left of it.

use std::time::Duration;

use cluster_api::{ClusterProvider, ClusterStatus};
use model::Span;

use crate::world::World;

const FILESTORE: &str = "a3-mega-slurm.yaml";
const LUSTRE: &str = "a3-mega-slurm-lustre.yaml";
const UBUNTU: (&str, &str) = ("_SOURCE_IMAGE", "ubuntu-2204-jammy-v20240904");

/// A workflow, a place, the fault injected there, and the reported failure.
type Case = (&'static str, &'static str, &'static str, &'static str);

const CASES: [Case; 15] = [
    (
        FILESTORE,
        "deploy-primary",
        "Error: googleapi: Error 403: Quota 'HIGH_SCALE_SSD' exceeded. Limit: 0.0",
        "QUOTA",
    ),
    (FILESTORE, "deploy-cluster", "Error: ZONE_RESOURCE_POOL_EXHAUSTED", "STOCKOUT"),
    (FILESTORE, "deploy-build_script", "Error: googleapi: Error 403: PERMISSION_DENIED", "PERMISSION"),
    (FILESTORE, "packer", "Timeout while waiting for image to become available", "TIMEOUT"),
    (
        FILESTORE,
        "packer",
        "Script exited with non-zero exit status: 100, keep",
        "gcluster deploy failed with exit status 1",
    ),
    (FILESTORE, "server-ip", "$(reboot)", "server_ip: expected an IPv4 address from the base deployment"),
    (FILESTORE, "ssh", "Connection refused", "not ready after 0 minutes"),
    (FILESTORE, "sinfo", "idle\ndown~", "0 of 2 nodes are idle"),
    (FILESTORE, "node", "gpus=7", "Number of GPUs detected 7 is not equal"),
    (FILESTORE, "node", "dev/aperture_devices=", "/dev/aperture_devices: No such file or directory"),
    (FILESTORE, "node", "rxdm=", "RxDM not ready on"),
    (FILESTORE, "node", "mounts=", "STORAGE: "),
    (LUSTRE, "server-ip", "172.16.0.9", "expected a Lustre network identifier ADDRESS@tcp"),
    (LUSTRE, "ssh", "Connection refused", "Lustre does not serve at 172.16.0.9@tcp"),
    (LUSTRE, "node", "mounts=", "STORAGE: "),
];

async fn named_and_gone(cases: &[Case]) {
    for (workflow, place, what, told) in cases {
        let more: &[(&str, &str)] = if *workflow == LUSTRE { &[UBUNTU] } else { &[] };
        let world = World::new(workflow, more);
        world.cloud.fault(place, what).unwrap();
        world.create().await;
        let why = world.broken().await;
        assert!(why.contains(told), "{place}: {what}: {why}");
        world.gone().await;
    }
}

// Two tests, because they may run at once.
#[tokio::test(flavor = "multi_thread")]
async fn each_failure_is_named_and_leaves_nothing() {
    named_and_gone(&CASES[..8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_is_each_failure_of_a_node() {
    named_and_gone(&CASES[8..]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_folder_is_no_lustre() {
    let world = World::new(LUSTRE, &[UBUNTU]);
    let data = world.cloud.path().join("data");
    world.cloud.fault("node", &format!("mounts={} ext4 /dev/sda1", data.display())).unwrap();
    world.create().await;
    let why = world.broken().await;
    assert!(why.contains("expected a mount of type lustre, found ext4"), "{why}");
    world.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_is_cancelled_half_way_is_unlocked_and_taken_down() {
    for place in ["deploy-primary", "packer", "deploy-cluster"] {
        let world = World::new(FILESTORE, &[]);
        world.cloud.fault(place, "hang").unwrap();
        world.create().await;
        while !world.cloud.path().join("hangs").exists() {
            assert_eq!(world.clusters.poll(&world.order.name).await.unwrap(), ClusterStatus::Coming);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!world.cloud.things().is_empty(), "{place}: half of it is there");
        world.gone().await;
        assert_eq!(world.cloud.calls().contains("force-unlock"), place != "packer", "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_teardown_reports_what_remains_and_continues_later() {
    let world = World::new(FILESTORE, &[]);
    world.create().await;
    assert!(matches!(world.settled().await, ClusterStatus::Ready(_)));
    let twice = "Error: googleapi: Error 503: backendError\n";
    world.cloud.fault("destroy-cluster", &twice.repeat(2)).unwrap();
    world.cloud.fault("delete-image", "ERROR: the image is in use").unwrap();
    let why = world.delete().await.unwrap_err();
    assert!(why.contains("still there: ") && why.contains("-image, ") && why.contains("-gpu-net-7"), "{why}");
    assert!(!why.contains("instance b"), "machines cost most, and are deleted in any case: {why}");
    world.clock.advance(Span::from_secs(30));
    world.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_resources_on_our_network_are_deleted_with_it() {
    let world = World::new(FILESTORE, &[]);
    world.create().await;
    assert!(matches!(world.settled().await, ClusterStatus::Ready(_)));
    let mut kinds = world.cloud.kinds();
    let network =
        kinds["network"].as_object().unwrap().keys().find(|name| name.ends_with("-net")).unwrap().clone();
    let theirs = serde_json::json!({"name": "their-ssh", "network": network});
    kinds["firewall rule"]["their-ssh"] = theirs;
    std::fs::write(world.cloud.path().join("things.json"), kinds.to_string()).unwrap();
    world.gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_active_account_nothing_is_made() {
    let world = World::new(FILESTORE, &[]);
    world.cloud.fault("auth", "none").unwrap();
    world.create().await;
    let why = world.broken().await;
    assert!(why.contains("gcloud: expected an active account"), "{why}");
    assert!(!world.cloud.calls().contains("\"gcluster\", \"create\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_never_started_is_confirmed_as_absent() {
    let world = World::new(FILESTORE, &[("_RESERVATION", "not-there")]);
    world.create().await;
    let why = world.broken().await;
    assert!(why.contains("RESERVATION: the zone has no such reservation"), "{why}");
    assert_eq!(world.cloud.things(), [""; 0]);
    world.gone().await;
    assert!(!world.cloud.calls().contains("\"gcluster\", \"create\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_that_does_not_suffice_is_refused_before_anything_is_made() {
    for (machine, used, specific, told) in [
        ("a3-highgpu-8g", "0", true, "READY, a3-highgpu-8g, "),
        ("a3-megagpu-8g", "3", true, ", 1 free machines"),
        ("a3-megagpu-8g", "0", false, "is not a specific reservation"),
    ] {
        let world = World::new(FILESTORE, &[]);
        let machines = serde_json::json!({"count": "4", "inUseCount": used, "instanceProperties": {"machineType": machine}});
        let known = serde_json::json!({"eight-gpus":
            {"status": "READY", "specificReservationRequired": specific, "specificReservation": machines}});
        std::fs::write(world.cloud.path().join("reservations.json"), known.to_string()).unwrap();
        world.create().await;
        let why = world.broken().await;
        assert!(why.contains("_RESERVATION") && why.contains(told), "{why}");
        assert_eq!(world.cloud.things(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_teardown_needs_an_account() {
    let world = World::new(FILESTORE, &[]);
    world.create().await;
    assert!(matches!(world.settled().await, ClusterStatus::Ready(_)));
    world.cloud.fault("auth", "no account\nno account\nno account").unwrap();
    let why = world.delete().await.unwrap_err();
    assert!(why.contains("gcloud: expected an active account"), "{why}");
}
