//! Failures: each is reported by its name, and no resource remains.

use std::time::Duration;

use cluster_api::{ClusterProvider, ClusterStatus};
use model::Span;

use crate::bed::ToolkitHost;

const FILESTORE: &str = "a3-mega-slurm.yaml";
const LUSTRE: &str = "a3-mega-slurm-lustre.yaml";
const UBUNTU: (&str, &str) = ("_SOURCE_IMAGE", "ubuntu-2204-jammy-v20240904");

/// A workflow, an operation, the injected fault, and the reported failure.
type FaultCase = (&'static str, &'static str, &'static str, &'static str);

const CASES: [FaultCase; 15] = [
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
    (LUSTRE, "ssh", "Connection refused", "Lustre at 172.16.0.9@tcp is not reachable"),
    (LUSTRE, "node", "mounts=", "STORAGE: "),
];

async fn report_and_destroy(cases: &[FaultCase]) {
    for (workflow, operation, fault, expected) in cases {
        let more: &[(&str, &str)] = if *workflow == LUSTRE { &[UBUNTU] } else { &[] };
        let bed = ToolkitHost::new(workflow, more);
        bed.cloud.fault(operation, fault).unwrap();
        bed.create().await;
        let why = bed.broken().await;
        assert!(why.contains(expected), "{operation}: {fault}: {why}");
        bed.delete_and_check().await;
    }
}

// The cases are split into two tests, which run in parallel.
#[tokio::test(flavor = "multi_thread")]
async fn each_failure_is_reported_and_leaves_no_resources() {
    report_and_destroy(&CASES[..8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_of_a_node_is_reported_and_leaves_no_resources() {
    report_and_destroy(&CASES[8..]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_folder_is_not_accepted_as_lustre() {
    let bed = ToolkitHost::new(LUSTRE, &[UBUNTU]);
    let data = bed.cloud.path().join("data");
    bed.cloud.fault("node", &format!("mounts={} ext4 /dev/sda1", data.display())).unwrap();
    bed.create().await;
    let why = bed.broken().await;
    assert!(why.contains("expected a mount of type lustre, found ext4"), "{why}");
    bed.delete_and_check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_deployment_is_unlocked_and_destroyed() {
    for place in ["deploy-primary", "packer", "deploy-cluster"] {
        let bed = ToolkitHost::new(FILESTORE, &[]);
        bed.cloud.fault(place, "hang").unwrap();
        bed.create().await;
        while !bed.cloud.path().join("hangs").exists() {
            assert_eq!(bed.clusters.poll(&bed.order.name).await.unwrap(), ClusterStatus::Starting);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!bed.cloud.resources().is_empty(), "{place}: expected a part of the resources");
        bed.delete_and_check().await;
        assert_eq!(bed.cloud.calls().contains("force-unlock"), place != "packer", "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_teardown_reports_the_remaining_resources_and_is_repeated() {
    let bed = ToolkitHost::new(FILESTORE, &[]);
    bed.create().await;
    assert!(matches!(bed.status_after_start().await, ClusterStatus::Ready(_)));
    let twice = "Error: googleapi: Error 503: backendError\n";
    bed.cloud.fault("destroy-cluster", &twice.repeat(2)).unwrap();
    bed.cloud.fault("delete-image", "ERROR: the image is in use").unwrap();
    let why = bed.delete().await.unwrap_err();
    assert!(
        why.contains("still existing: ") && why.contains("-image, ") && why.contains("-gpu-net-7"),
        "{why}"
    );
    assert!(!why.contains("instance b"), "expected machines to be deleted despite other failures: {why}");
    bed.clock.advance(Span::from_secs(30));
    bed.delete_and_check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_teardown_deletes_foreign_resources_on_its_network() {
    let bed = ToolkitHost::new(FILESTORE, &[]);
    bed.create().await;
    assert!(matches!(bed.status_after_start().await, ClusterStatus::Ready(_)));
    let mut kinds = bed.cloud.kinds();
    let network =
        kinds["network"].as_object().unwrap().keys().find(|name| name.ends_with("-net")).unwrap().clone();
    let theirs = serde_json::json!({"name": "their-ssh", "network": network});
    kinds["firewall rule"]["their-ssh"] = theirs;
    std::fs::write(bed.cloud.path().join("things.json"), kinds.to_string()).unwrap();
    bed.delete_and_check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_without_an_active_account_creates_no_resources() {
    let bed = ToolkitHost::new(FILESTORE, &[]);
    bed.cloud.fault("auth", "none").unwrap();
    bed.create().await;
    let why = bed.broken().await;
    assert!(why.contains("gcloud: expected an active account"), "{why}");
    assert!(!bed.cloud.calls().contains("\"gcluster\", \"create\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_teardown_succeeds_for_a_deployment_without_resources() {
    let bed = ToolkitHost::new(FILESTORE, &[("_RESERVATION", "not-there")]);
    bed.create().await;
    let why = bed.broken().await;
    assert!(why.contains("RESERVATION: the zone has no such reservation"), "{why}");
    assert_eq!(bed.cloud.resources(), [""; 0]);
    bed.delete_and_check().await;
    assert!(!bed.cloud.calls().contains("\"gcluster\", \"create\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insufficient_reservation_is_rejected_before_a_resource_is_created() {
    for (machine, used, specific, expected) in [
        ("a3-highgpu-8g", "0", true, "READY, a3-highgpu-8g, "),
        ("a3-megagpu-8g", "3", true, ", 1 free machines"),
        ("a3-megagpu-8g", "0", false, "is not a specific reservation"),
    ] {
        let bed = ToolkitHost::new(FILESTORE, &[]);
        let machines = serde_json::json!({"count": "4", "inUseCount": used, "instanceProperties": {"machineType": machine}});
        let known = serde_json::json!({"eight-gpus":
            {"status": "READY", "specificReservationRequired": specific, "specificReservation": machines}});
        std::fs::write(bed.cloud.path().join("reservations.json"), known.to_string()).unwrap();
        bed.create().await;
        let why = bed.broken().await;
        assert!(why.contains("_RESERVATION") && why.contains(expected), "{why}");
        assert_eq!(bed.cloud.resources(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_teardown_requires_an_active_account() {
    let bed = ToolkitHost::new(FILESTORE, &[]);
    bed.create().await;
    assert!(matches!(bed.status_after_start().await, ClusterStatus::Ready(_)));
    bed.cloud.fault("auth", "no account\nno account\nno account").unwrap();
    let why = bed.delete().await.unwrap_err();
    assert!(why.contains("gcloud: expected an active account"), "{why}");
}
