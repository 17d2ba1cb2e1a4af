//! Successful deployments and teardowns: the calls, the settings for jobs, the remaining resources.

use std::{env, fs};

use cluster_api::{ClusterProvider, ClusterStatus, Settings};
use cluster_slurm::Slurm;
use toolkit::repository;

use crate::bed::ToolkitHost;

/// Compares the calls with the recorded calls; `UPDATE_FIXTURES=1` records them again.
fn recorded(bed: &ToolkitHost, name: &str) {
    let place = bed.cloud.path().display().to_string();
    let calls = bed.cloud.calls().replace(&place, "CLOUD");
    let port = calls.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('#').next()).unwrap_or("none");
    let calls = calls.replace(&format!("127.0.0.1:{port}"), "REGISTRY");
    let file = repository("tests/toolkit/tests/recorded").join(name);
    if env::var_os("UPDATE_FIXTURES").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &calls).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(calls, expected, "{}", file.display());
}

async fn up_and_down(workflow: &str, more: &[(&str, &str)], name: &str) -> ToolkitHost {
    let bed = ToolkitHost::new(workflow, more);
    bed.create().await;
    let ClusterStatus::Ready(cluster) = bed.status_after_start().await else {
        panic!("{:?}", bed.clusters.poll(&bed.order.name).await)
    };
    assert_eq!((cluster.slots(), cluster.nodes.len()), (16, 2));
    let slurm = Slurm::of(&cluster).unwrap();
    assert_eq!(slurm.partition.as_deref(), Some("a3mega"));
    let profile = slurm.profile.unwrap();
    assert!(profile.starts_with(&slurm.shared_folder) && fs::exists(&profile).unwrap(), "{profile}");
    let programs = slurm.programs.unwrap();
    assert!(fs::exists(format!("{programs}/all_reduce_perf")).unwrap(), "{programs}");

    let kinds = bed.cloud.kinds();
    let (_, node) =
        kinds["instance"].as_object().unwrap().iter().find(|(name, _)| name.ends_with("-gpu-0")).unwrap();
    let seconds = bed.order.expires_at.as_millis() / 1000;
    assert_eq!(node["labels"]["burnin-cluster"], bed.order.name.as_str());
    assert_eq!(node["labels"]["burnin-expires"], seconds.to_string());
    assert_eq!(node["scheduling"]["instanceTerminationAction"], "DELETE");
    let life = node["scheduling"]["maxRunDuration"]["seconds"].as_i64().unwrap();
    assert!((35_000..=36_000).contains(&life), "expected 35000 to 36000 s, found {life} s");

    bed.delete_and_check().await;
    recorded(&bed, name);
    bed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_on_filestore_is_deployed_and_destroyed() {
    up_and_down("a3-mega-slurm.yaml", &[], "filestore.jsonl").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_on_lustre_is_deployed_and_destroyed() {
    let more = [("_SOURCE_IMAGE", "ubuntu-2204-jammy-v20240904"), ("_GCS_BUCKET", "my-data")];
    let bed = up_and_down("a3-mega-slurm-lustre.yaml", &more, "lustre.jsonl").await;
    let calls = bed.cloud.calls();
    assert!(calls.contains("172.16.0.9@tcp:/exacloud"), "expected the complete identifier: {calls}");
}

/// Stand-in for the agent's program.
const AGENT: &str = "#!/bin/true\n";

fn with_agent(sha256: &str) -> ToolkitHost {
    let more =
        [("_AGENT", "gs://programs/burnin-agent"), ("_AGENT_SHA256", sha256), ("_ARTEFACTS", "my-artefacts")];
    let bed = ToolkitHost::new("a3-mega-slurm.yaml", &more);
    fs::create_dir_all(bed.cloud.path().join("gcs/programs")).unwrap();
    fs::write(bed.cloud.path().join("gcs/programs/burnin-agent"), AGENT).unwrap();
    bed
}

fn sha256() -> String {
    let output = std::process::Command::new("sh")
        .args(["-c", "printf '#!/bin/true\\n' | sha256sum | cut -d' ' -f1"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_installed_with_the_cluster_and_removed_with_it() {
    let bed = with_agent(&sha256());
    bed.create().await;
    assert!(matches!(bed.status_after_start().await, ClusterStatus::Ready(_)), "{}", bed.cloud.calls());
    let things = bed.cloud.resources();
    // Terraform grants the agent's other permissions.
    let rights: Vec<_> = things.iter().filter(|thing| thing.starts_with("right ")).collect();
    let [right] = rights[..] else { panic!("{things:?}") };
    assert!(
        right.starts_with("right roles/pubsub.subscriber on b") && right.contains("-agent of "),
        "{right}"
    );
    assert!(things.iter().any(|thing| thing.starts_with("subscription b") && thing.ends_with("-agent")));
    let unit = bed.cloud.path().join("login/etc/systemd/system/burnin-agent.service");
    let unit = fs::read_to_string(unit).unwrap();
    let name = &bed.order.name;
    assert!(
        unit.contains(&format!("BURNIN_CLUSTER={name} BURNIN_PULL=projects/my-project/subscriptions/b")),
        "{unit}"
    );
    assert!(
        unit.contains("BURNIN_ARTEFACTS=gs://my-artefacts") && unit.contains("BURNIN_TOPICS=burnin-\n")
            || unit.contains("BURNIN_TOPICS=burnin- "),
        "{unit}"
    );
    assert!(bed.cloud.calls().contains(r#"["systemctl", "restart", "burnin-agent"]"#));
    bed.delete_and_check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_a_wrong_checksum_or_without_response_is_reported_and_removed() {
    let bed = with_agent(&"0".repeat(64));
    bed.create().await;
    let why = bed.broken().await;
    assert!(why.contains("AGENT: gs://programs/burnin-agent has the SHA-256"), "{why}");
    bed.delete_and_check().await;

    let bed = with_agent(&sha256());
    bed.cloud.fault("agent", "curl: (7) Failed to connect").unwrap();
    bed.create().await;
    let why = bed.broken().await;
    assert!(why.contains("AGENT: /healthz does not respond"), "{why}");
    bed.delete_and_check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spot_cluster_uses_no_reservation() {
    let more = [("_PROVISIONING", "spot"), ("_RESERVATION", "")];
    let bed = ToolkitHost::new("a3-mega-slurm.yaml", &more);
    bed.create().await;
    assert!(matches!(bed.status_after_start().await, ClusterStatus::Ready(_)), "{}", bed.cloud.calls());
    assert!(!bed.cloud.calls().contains("reservations"));
    let kinds = bed.cloud.kinds();
    let spot = |node: &serde_json::Value| node["scheduling"]["provisioningModel"] == "SPOT";
    assert_eq!(kinds["instance"].as_object().unwrap().values().filter(|node| spot(node)).count(), 2);
    bed.delete_and_check().await;
}
