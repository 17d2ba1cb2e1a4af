//! Clusters deployed by steps on this host, with a folder as provider.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use build_service::LocalBuilds;
use cluster_api::{ClusterProvider, ClusterStatus, LeaseRequest, Settings, provider_conformance};
use cluster_deployed::{Deployed, DeployedClusters, RetentionPeriods};
use cluster_local::LocalClusters;
use cluster_slurm::Slurm;
use ledger::{FolderStore, Store};
use model::{Attempt, BuildSpec, CommandId, Deleted, Span, Stage, System, Timestamp, Verb};
use provisioner::{Providers, SweepResult, SweptCluster, release, sweep};
use serde_json::{Value, json};
use service::{Clock, ManualClock, PortError, SystemClock};
use tempfile::TempDir;

const LIFE: Span = Span::from_secs(600);

/// A simulated provider: each file in the folder `there` is a resource.
struct FolderDeployment {
    root: TempDir,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    clusters: DeployedClusters,
    keep: RetentionPeriods,
}

fn steps(script: &str, leaves: &str, declared: &[&str]) -> BuildSpec {
    let declared: serde_json::Map<String, Value> =
        declared.iter().map(|name| ((*name).to_owned(), json!(""))).collect();
    let config = json!({
        "steps": [{"name": "bash", "automapSubstitutions": true, "script": format!("#!/usr/bin/env bash\nset -eu\n{script}")}],
        "substitutions": declared,
        "artifacts": {"objects": {"location": "gs://anywhere/", "paths": [leaves]}},
    });
    BuildSpec { config, source: None, repository: None, substitutions: Default::default() }
}

impl FolderDeployment {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("there")).unwrap();
        let store: Arc<dyn Store> = Arc::new(FolderStore::open(root.path().join("bucket")).unwrap());
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let clusters = Self::provider(&root, &store, clock.clone());
        Self { root, clock, store, clusters, keep: RetentionPeriods::new() }
    }

    fn provider(root: &TempDir, store: &Arc<dyn Store>, clock: Arc<dyn Clock>) -> DeployedClusters {
        let builds = supervisor::BuildFolder::new(root.path().join("builds"), crate::support::program());
        let builds = Arc::new(LocalBuilds::new(builds, Arc::clone(store), None));
        DeployedClusters::new(&clusters::KINDS, builds, Arc::clone(store), clock)
    }

    fn resource_folder(&self) -> PathBuf {
        self.root.path().join("there")
    }

    /// All resources of the provider.
    fn resources(&self) -> Vec<String> {
        let entries = fs::read_dir(self.resource_folder()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// A deployment with this first step, which then succeeds.
    fn deploy(&self, first: &str, made: &Value) -> BuildSpec {
        let there = self.resource_folder().display().to_string();
        let script = format!(
            "mkdir '{there}'/\"$_CLUSTER\"\nmkdir -p \"$_STATE\"; echo \"$_RUN $_EXPIRES\" >\"$_STATE/labels\"\n\
             {first}\ncat >cluster.json <<'MADE'\n{made}\nMADE"
        );
        steps(&script, "cluster.json", &["_CLUSTER", "_RUN", "_EXPIRES", "_STATE"])
    }

    /// A teardown that runs the command `first`, deletes the cluster's resources and lists those that remain.
    fn destroy(&self, first: &str) -> BuildSpec {
        let there = self.resource_folder().display().to_string();
        let script = format!(
            "{first}\nrm -rf '{there}'/\"$_CLUSTER\"\nleft=$(ls '{there}')\n\
             printf '{{\"left\": [%s], \"evidence\": \"the folder was listed\"}}' \"${{left:+\\\"$left\\\"}}\" >gone.json"
        );
        steps(&script, "gone.json", &["_CLUSTER"])
    }

    fn order(&self, deploy: BuildSpec, destroy: BuildSpec) -> LeaseRequest {
        let slurm = slurm();
        let deployed = Deployed { deploy, destroy, keep: self.keep.clone(), system: slurm.system() };
        let id = CommandId {
            run: "a-run".parse().unwrap(),
            stage: Stage::Cluster,
            attempt: Attempt::FIRST,
            verb: Verb::Start,
        };
        let (system, expires_at) = (deployed.to_system(), self.clock.now() + LIFE);
        LeaseRequest { name: id.resource_name(), id, system, expires_at }
    }

    async fn status_after_start(&self, name: &str) -> ClusterStatus {
        for _ in 0..3000 {
            match self.clusters.poll(name).await.unwrap() {
                ClusterStatus::Starting => tokio::time::sleep(Duration::from_millis(5)).await,
                other => return other,
            }
        }
        panic!("timeout: {name} is still changing")
    }

    /// Retries while a teardown is starting or running.
    async fn delete(&self, name: &str) -> Result<Deleted, String> {
        for _ in 0..3000 {
            match self.clusters.delete(name).await {
                Ok(deleted) => return Ok(deleted),
                Err(PortError::Transient(why))
                    if ["teardown is running", "teardown started", "being stopped"]
                        .iter()
                        .any(|word| why.contains(word)) =>
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(PortError::Transient(why)) => return Err(why),
                Err(error) => panic!("{error:?}"),
            }
        }
        panic!("{name} stays")
    }
}

fn slurm() -> Slurm {
    serde_json::from_value(json!({"nodes": 2, "ranks_per_node": 8, "shared_folder": "/home/later"})).unwrap()
}

fn two(slurm: &Value) -> Value {
    json!({"nodes": [{"name": "n1", "slots": 8}, {"name": "n2", "slots": 8}], "slurm": slurm})
}

#[tokio::test(flavor = "multi_thread")]
async fn deployed_clusters_conform() {
    let bed = FolderDeployment::new();
    let order = bed.order(bed.deploy("", &two(&json!({}))), bed.destroy(""));
    let clusters = FolderDeployment::provider(&bed.root, &bed.store, Arc::new(SystemClock));
    provider_conformance::clusters(&clusters, &order.system, SystemClock.now() + LIFE).await;
    assert_eq!(bed.resources(), [""; 0], "no cluster is left after the suite");

    // The suite also runs through the provider of all kinds.
    let hosts = supervisor::ClusterFolder::new(bed.root.path().join("hosts"), crate::support::program());
    let both = FolderDeployment::new();
    let order = both.order(both.deploy("", &two(&json!({}))), both.destroy(""));
    let deployed = FolderDeployment::provider(&both.root, &both.store, Arc::new(SystemClock));
    let systems = Providers { deployed, local: Some(LocalClusters::new(hosts, Arc::new(SystemClock), 0)) };
    provider_conformance::clusters(&systems, &order.system, SystemClock.now() + LIFE).await;
    assert_eq!(both.resources(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deployment_settings_reach_the_job_and_labels_reach_the_steps() {
    let bed = FolderDeployment::new();
    let made = two(&json!({"shared_folder": "/mnt/really here", "partition": "a3mega"}));
    let order = bed.order(bed.deploy("", &made), bed.destroy(""));
    bed.clusters.create(&order).await.unwrap();
    let ClusterStatus::Ready(cluster) = bed.status_after_start(&order.name).await else {
        panic!("the cluster is ready")
    };
    let settings = Slurm::of(&cluster).unwrap();
    assert_eq!((settings.shared_folder.as_str(), settings.nodes), ("/mnt/really here", 2));
    assert_eq!(settings.partition.as_deref(), Some("a3mega"));
    assert_eq!((cluster.slots(), cluster.nodes[1].name.as_str()), (16, "n2"));
    let labels = bed.store.read(&format!("clusters/{}/state/labels", order.name)).await.unwrap().unwrap();
    let seconds = order.expires_at.as_millis() / 1000;
    assert_eq!(
        String::from_utf8_lossy(&labels),
        format!("a-run {seconds}\n"),
        "the cluster's folder of the bucket contains the labels"
    );
    assert_eq!(bed.resources(), [order.name.as_str()]);
    let deleted = bed.delete(&order.name).await.unwrap();
    assert_eq!((deleted.evidence.as_str(), bed.resources().len()), ("the folder was listed", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_playbook_is_reported_with_host_and_task() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ansible-events/tests/data/ansible-2.17");
    let cases = [
        ("ok", None),
        ("task-failed", Some("task-failed.jsonl: ")),
        ("cut-off", Some("dgx03 is unreachable")),
        ("unreachable", Some("dgx3 is unreachable")),
    ];
    for (events, expected) in cases {
        let bed = FolderDeployment::new();
        let mut deploy =
            bed.deploy(&format!("mkdir events; cp '{recorded}/{events}.jsonl' events/"), &two(&json!({})));
        deploy.config["artifacts"]["objects"]["paths"] = json!(["cluster.json", "events/*.jsonl"]);
        let order = bed.order(deploy, bed.destroy(""));
        bed.clusters.create(&order).await.unwrap();
        match (bed.status_after_start(&order.name).await, expected) {
            (ClusterStatus::Ready(_), None) => {}
            (ClusterStatus::Broken(why), Some(expected)) => {
                assert!(why.contains(expected), "{events}: {why}")
            }
            (other, _) => panic!("{events}: {other:?}"),
        }
        bed.delete(&order.name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deployed_cluster_is_checked_against_the_request() {
    let node = |name: &str, slots: u32| json!({"name": name, "slots": slots});
    let cases = [
        (json!({"nodes": [node("n1", 8)]}), "expected 2 nodes, found 1"),
        (json!({"nodes": [node("n1", 8), node("n2", 4)]}), "node n2 has 4 slots"),
        (json!({"nodes": []}), "found 0"),
        (json!({"nodes": [node("n1", 8), node("n2", 8)], "extra": 1}), "unknown field `extra`"),
        (two(&json!({"partition": "a b"})), "slurm.partition"),
        (two(&json!({"shared_foldr": "/x"})), "unknown field `shared_foldr`"),
        (json!([]), "cluster.json"),
        (
            json!({"nodes": [node("n1", 8), node("n2", 8)], "kubernetes": {"queue": "a4"}}),
            "kubernetes: the workflow's cluster is of kind slurm",
        ),
    ];
    for (made, expected) in cases {
        let bed = FolderDeployment::new();
        let order = bed.order(bed.deploy("", &made), bed.destroy(""));
        bed.clusters.create(&order).await.unwrap();
        let status = bed.status_after_start(&order.name).await;
        assert!(
            matches!(&status, ClusterStatus::Broken(why) if why.contains(expected)),
            "{made}: {status:?}"
        );
        bed.delete(&order.name).await.unwrap();
        assert_eq!(bed.resources(), [""; 0], "an unusable cluster is released too");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployed_kubernetes_merges_request_and_deployment_settings() {
    let nodes = json!([{"name": "n1", "slots": 8}, {"name": "n2", "slots": 8}]);
    let access = json!({"gke": {"server": "https://203.0.113.7", "certificate_authority": "QUJD"}});
    for (namespace, problem) in [("burnin", ""), ("Burnin", "cluster.json: kubernetes.namespace: ")] {
        let bed = FolderDeployment::new();
        let made = json!({"nodes": nodes, "kubernetes": {"namespace": namespace, "access": access}});
        let mut order = bed.order(bed.deploy("", &made), bed.destroy(""));
        let mut deployed = Deployed::of(&order.system).unwrap();
        let settings = json!({"nodes": 2, "ranks_per_node": 8, "queue": "a4"});
        deployed.system = System::new("kubernetes", settings);
        order.system = deployed.to_system();
        bed.clusters.create(&order).await.unwrap();
        match bed.status_after_start(&order.name).await {
            ClusterStatus::Ready(cluster) => {
                let kubernetes = cluster_kubernetes::Kubernetes::of(&cluster).unwrap();
                assert_eq!((cluster.slots(), kubernetes.namespace.as_str()), (16, "burnin"));
                assert_eq!(kubernetes.queue.as_deref(), Some("a4"));
                assert!(matches!(kubernetes.access, cluster_kubernetes::ApiAccess::Gke { .. }));
            }
            ClusterStatus::Broken(why) => assert!(!problem.is_empty() && why.starts_with(problem), "{why}"),
            other => panic!("{other:?}"),
        }
        bed.delete(&order.name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_deployment_is_destroyed() {
    let bed = FolderDeployment::new();
    let deploy = bed.deploy("echo 'quota H100 exceeded' >&2; exit 3", &two(&json!({})));
    let order = bed.order(deploy, bed.destroy(""));
    bed.clusters.create(&order).await.unwrap();
    let ClusterStatus::Broken(why) = bed.status_after_start(&order.name).await else {
        panic!("the deployment must fail")
    };
    assert!(why.contains("quota H100 exceeded"), "{why}");
    assert_eq!(bed.resources(), [order.name.as_str()], "half of the resources exist");
    bed.delete(&order.name).await.unwrap();
    assert_eq!(bed.resources(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_deployment_is_stopped_before_the_teardown() {
    let bed = FolderDeployment::new();
    let order = bed.order(bed.deploy("sleep 300", &two(&json!({}))), bed.destroy(""));
    bed.clusters.create(&order).await.unwrap();
    while bed.resources().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bed.clusters.poll(&order.name).await.unwrap(), ClusterStatus::Starting);
    bed.delete(&order.name).await.unwrap();
    assert_eq!(bed.resources(), [""; 0]);
    assert!(bed.clusters.create(&order).await.is_err(), "a released name is not deployed again");
    assert_eq!(bed.resources(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn teardowns_are_retried_with_growing_delays_until_no_resource_is_left() {
    let bed = FolderDeployment::new();
    let tries = bed.root.path().join("tries");
    let first = format!("echo x >>'{0}'; [[ $(wc -l <'{0}') -ge 3 ]] || exit 1", tries.display());
    let order = bed.order(bed.deploy("", &two(&json!({}))), bed.destroy(&first));
    bed.clusters.create(&order).await.unwrap();
    bed.status_after_start(&order.name).await;
    let count = || fs::read_to_string(&tries).unwrap_or_default().lines().count();
    for (failed, pause) in [(1, 30), (2, 60)] {
        bed.delete(&order.name).await.unwrap_err();
        let why = bed.delete(&order.name).await.unwrap_err();
        assert!(why.contains(&format!("failed teardowns: {failed}; next attempt at")), "{why}");
        assert_eq!((count(), bed.resources().len()), (failed, 1), "no teardown starts before the delay ends");
        bed.clock.advance(Span::from_secs(pause - 1));
        assert!(bed.delete(&order.name).await.is_err());
        bed.clock.advance(Span::from_secs(1));
    }
    bed.delete(&order.name).await.unwrap();
    assert_eq!((count(), bed.resources().len()), (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_deleted_only_if_the_teardown_confirms_it() {
    for (first, expected) in [
        ("touch '{there}'/a-disk", "still existing: a-disk"),
        ("exit 0", "no file matches \"gone.json\""),
        ("echo '{\"left\": []}' >gone.json; exit 0", "missing field `evidence`"),
    ] {
        let bed = FolderDeployment::new();
        let first = first.replace("{there}", &bed.resource_folder().display().to_string());
        let order = bed.order(bed.deploy("", &two(&json!({}))), bed.destroy(&first));
        bed.clusters.create(&order).await.unwrap();
        bed.status_after_start(&order.name).await;
        let why = bed.delete(&order.name).await.unwrap_err();
        assert!(why.contains(expected), "{expected}: {why}");
        assert_eq!(bed.clusters.list().await.unwrap().clusters.len(), 1, "the cluster is listed");

        // The independent sweeper finds the cluster and reports why it remains.
        bed.clock.advance(LIFE);
        let swept = sweep(&bed.clusters, Span::from_secs(1), false).await.unwrap();
        assert!(matches!(swept[0].outcome, SweepResult::Kept { .. }), "{swept:?}");
        bed.clock.advance(Span::from_secs(1));
        let swept = sweep(&bed.clusters, Span::from_secs(1), true).await.unwrap();
        assert!(matches!(&swept[0].outcome, SweepResult::DeletionFailed(_)), "{swept:?}");
        let why = bed.delete(&order.name).await.unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_request_is_left_to_an_operator() {
    let bed = FolderDeployment::new();
    bed.store.create("clusters/open/somebody", "{}".into()).await.unwrap();
    bed.clock.advance(LIFE);
    let swept = sweep(&bed.clusters, Span::from_secs(1), true).await.unwrap();
    assert_eq!(swept[0].outcome, SweepResult::Unlabelled);
    assert_eq!(swept[0].cluster.expires_at, None::<Timestamp>);
}

/// Steps that deploy a network, an image and machines, each as one file in the provider's folder.
fn with_parts(bed: &FolderDeployment) -> (BuildSpec, BuildSpec) {
    let there = bed.resource_folder().display().to_string();
    let deploy = format!(
        "cd '{there}'\nfor part in base image; do\n  uses=_${{part^^}}\n\
         if [[ -n ${{!uses}} ]]; then [[ -e ${{!uses}}.$part ]]; else touch \"$_CLUSTER.$part\"; fi\ndone\n\
         touch \"$_CLUSTER.machines\"\ncd - >/dev/null\n[[ $_FAIL != true ]]\ncat >cluster.json <<'MADE'\n{}\nMADE",
        two(&json!({}))
    );
    let destroy = format!(
        "cd '{there}'\nfor file in \"$_CLUSTER\".*; do\n  [[ ,$_KEEP, == *,${{file#*.}},* ]] || rm -f \"$file\"\ndone\ncd - >/dev/null\n\
         echo '{{\"left\": [], \"evidence\": \"listed\"}}' >gone.json"
    );
    let declared = ["_CLUSTER", "_RUN", "_EXPIRES", "_BASE", "_IMAGE", "_NODES", "_FAIL"];
    (steps(&deploy, "cluster.json", &declared), steps(&destroy, "gone.json", &["_CLUSTER", "_KEEP"]))
}

fn order_of(bed: &FolderDeployment, run: &str, change: impl FnOnce(&mut BuildSpec)) -> LeaseRequest {
    let (mut deploy, destroy) = with_parts(bed);
    change(&mut deploy);
    let mut order = bed.order(deploy, destroy);
    order.id.run = run.parse().unwrap();
    order.name = order.id.resource_name();
    order
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn later_runs_use_kept_parts_until_the_sweeper_releases_them() {
    let mut bed = FolderDeployment::new();
    let month = Span::from_secs(30 * 24 * 3600);
    bed.keep = [("base".to_owned(), month), ("image".to_owned(), month)].into();
    let first = order_of(&bed, "night-1", |_| {});
    bed.clusters.create(&first).await.unwrap();
    assert!(matches!(bed.status_after_start(&first.name).await, ClusterStatus::Ready(_)));
    let deleted = bed.delete(&first.name).await.unwrap();
    assert!(deleted.evidence.starts_with("listed; kept: base until "), "{}", deleted.evidence);
    let part = |part: &str| format!("{}.{part}", first.name);
    assert_eq!(sorted(bed.resources()), [part("base"), part("image")]);

    // The kept parts are a separate cluster, with their own lease.
    let listed = bed.clusters.list().await.unwrap().clusters;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].name, format!("{}-kept", first.name));
    assert_eq!(listed[0].expires_at, Some(bed.clock.now() + month));

    // Later runs create only machines; a repeated command has no effect.
    let second = order_of(&bed, "night-2", |deploy| {
        deploy.substitutions.insert("_NODES".to_owned(), "8".to_owned());
    });
    bed.clusters.create(&second).await.unwrap();
    bed.clusters.create(&second).await.unwrap();
    assert!(matches!(bed.status_after_start(&second.name).await, ClusterStatus::Ready(_)));
    assert_eq!(sorted(bed.resources()), [part("base"), part("image"), format!("{}.machines", second.name)]);
    let deleted = bed.delete(&second.name).await.unwrap();
    assert_eq!(deleted.evidence, "listed");
    assert_eq!(sorted(bed.resources()), [part("base"), part("image")]);

    // Another deployment does not use these parts.
    let other = order_of(&bed, "other", |deploy| {
        deploy.substitutions.insert("_FAIL".to_owned(), "no".to_owned());
    });
    bed.clusters.create(&other).await.unwrap();
    assert!(matches!(bed.status_after_start(&other.name).await, ClusterStatus::Ready(_)));
    assert!(bed.resources().contains(&format!("{}.base", other.name)));

    // A run whose lease ends after that of the kept parts creates its own parts.
    bed.clock.advance(Span::from_secs(30 * 24 * 3600 - 60));
    let late = order_of(&bed, "late", |_| {});
    bed.clusters.create(&late).await.unwrap();
    assert!(matches!(bed.status_after_start(&late.name).await, ClusterStatus::Ready(_)));
    assert!(bed.resources().contains(&format!("{}.base", late.name)));
    bed.keep.clear();

    // The sweeper releases every cluster at the end of its lease, and the kept parts of the late run at the end of
    // their own lease.
    bed.clock.advance(Span::from_secs(700));
    for _ in 0..3000 {
        let swept = sweep(&bed.clusters, Span::from_secs(0), true).await.unwrap();
        if swept.iter().all(|swept| !matches!(swept.outcome, SweepResult::DeletionFailed(_))) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let left: Vec<_> = bed.resources().into_iter().filter(|name| name.starts_with(&first.name)).collect();
    assert_eq!(left, Vec::<String>::new());
    bed.clock.advance(Span::from_secs(30 * 24 * 3600 + 1));
    for _ in 0..3000 {
        if sweep(&bed.clusters, Span::from_secs(0), true).await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bed.resources(), Vec::<String>::new());

    // A new deployment does not use released parts.
    bed.keep = [("base".to_owned(), month)].into();
    let anew = order_of(&bed, "anew", |_| {});
    bed.clusters.create(&anew).await.unwrap();
    assert!(matches!(bed.status_after_start(&anew.name).await, ClusterStatus::Ready(_)));
    assert!(bed.resources().contains(&format!("{}.base", anew.name)));
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_parts_in_use_are_not_released() {
    let mut bed = FolderDeployment::new();
    bed.keep = [("base".to_owned(), Span::from_secs(30 * 24 * 3600))].into();
    let first = order_of(&bed, "night-1", |_| {});
    bed.clusters.create(&first).await.unwrap();
    assert!(matches!(bed.status_after_start(&first.name).await, ClusterStatus::Ready(_)));
    bed.delete(&first.name).await.unwrap();
    let kept = format!("{}-kept", first.name);
    let user = order_of(&bed, "night-2", |_| {});
    bed.clusters.create(&user).await.unwrap();
    assert!(matches!(bed.status_after_start(&user.name).await, ClusterStatus::Ready(_)));
    let Some(SweptCluster { outcome: SweepResult::DeletionFailed(why), .. }) =
        release(&bed.clusters, &kept).await.unwrap()
    else {
        panic!("released although {} uses it", user.name)
    };
    assert!(why.starts_with(&format!("cluster {} uses these parts", user.name)), "{why}");
    assert!(bed.resources().contains(&format!("{}.base", first.name)));
    bed.delete(&user.name).await.unwrap();
    let released = loop {
        match release(&bed.clusters, &kept).await.unwrap() {
            Some(SweptCluster { outcome: SweepResult::DeletionFailed(_), .. }) => {
                tokio::time::sleep(Duration::from_millis(5)).await
            }
            other => break other,
        }
    };
    assert!(matches!(released, Some(SweptCluster { outcome: SweepResult::Deleted(_), .. })), "{released:?}");
    assert_eq!(bed.resources(), Vec::<String>::new());
    assert_eq!(release(&bed.clusters, &kept).await.unwrap(), None, "the released parts are not listed");
    assert_eq!(release(&bed.clusters, "never").await.unwrap(), None);
}

/// The teardown is interrupted after it records the lease of the kept parts, and is repeated a day later.
#[tokio::test(flavor = "multi_thread")]
async fn kept_parts_are_not_used_beyond_their_recorded_lease() {
    let mut bed = FolderDeployment::new();
    bed.keep = [("base".to_owned(), Span::from_secs(30 * 24 * 3600))].into();
    let order = order_of(&bed, "night-1", |_| {});
    bed.clusters.create(&order).await.unwrap();
    assert!(matches!(bed.status_after_start(&order.name).await, ClusterStatus::Ready(_)));
    let recorded = bed.clock.now() + Span::from_secs(29 * 24 * 3600);
    let open = format!("clusters/open/{}", order.name);
    let request = bed.store.read(&open).await.unwrap().unwrap();
    let mut request: serde_json::Value = serde_json::from_slice(&request).unwrap();
    request["expires_at"] = serde_json::to_value(recorded).unwrap();
    request["kept"] = serde_json::json!({"cluster": order.name});
    bed.store.create(&format!("{open}-kept"), request.to_string().into()).await.unwrap();
    let deleted = bed.delete(&order.name).await.unwrap();
    assert_eq!(deleted.evidence, format!("listed; kept: base until {recorded}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_a_failed_deployment_keeps_no_parts() {
    let mut bed = FolderDeployment::new();
    bed.keep = [("base".to_owned(), Span::from_secs(3600))].into();
    let order = order_of(&bed, "night-1", |deploy| {
        deploy.substitutions.insert("_FAIL".to_owned(), "true".to_owned());
    });
    bed.clusters.create(&order).await.unwrap();
    assert!(matches!(bed.status_after_start(&order.name).await, ClusterStatus::Broken(_)));
    assert!(bed.resources().contains(&format!("{}.base", order.name)));
    assert_eq!(bed.delete(&order.name).await.unwrap().evidence, "listed");
    assert_eq!(bed.resources(), Vec::<String>::new());
    assert!(bed.clusters.list().await.unwrap().clusters.is_empty());
}
