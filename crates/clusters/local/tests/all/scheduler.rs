//! The conformance suite, on every adapter.

use std::{path::Path, sync::Arc};

use cluster_api::{JobSpec, Scheduler, fake_scheduler::FakeScheduler, scheduler_conformance};
use cluster_local::LocalJobs;
use ledger::{Digest, FolderStore, MemoryStore, Store};
use model::{Class, Cluster, ClusterAccess, FileDigest, Image, Node, Span};
use service::{Clock, PortError, SystemClock};
use supervisor::{ClusterFolder, ClusterRequest, ClusterState};

/// A benchmark that writes output and runs for about 1 s.
const PROGRAM: &str = "#!/bin/sh\necho \"rank $BURNIN_RANK of $BURNIN_RANKS: $*\"\nsleep 1\n";

fn job(cluster: &Cluster, image: Option<&Image>, name: &str) -> JobSpec {
    JobSpec {
        name: name.to_owned(),
        cluster: cluster.clone(),
        image: image.cloned(),
        program: scheduler_conformance::program(),
        limit: Span::from_secs(30),
        environment: Default::default(),
        evidence: false,
        labels: [("burnin-run".to_owned(), "r-1".to_owned())].into(),
    }
}

/// An image of one program, in the bucket.
async fn image(store: &dyn Store) -> Image {
    image_of(store, PROGRAM).await
}

async fn image_of(store: &dyn Store, program: &str) -> Image {
    let name = "all_reduce_perf".to_owned();
    store.create(&format!("image/{name}"), program.to_owned().into()).await.unwrap();
    let Digest { size_bytes, sha256, .. } = Digest::of(program.as_bytes());
    let digest = format!("sha256:{sha256}");
    Image {
        reference: "image/".into(),
        digest,
        files: vec![FileDigest { name, size_bytes, sha256 }],
        manifest_sha256: None,
    }
}

/// A cluster of two processes, deleted at the end of the test in any case.
struct ProvisionedCluster {
    clusters: ClusterFolder,
    cluster: Cluster,
}

impl ProvisionedCluster {
    fn under(root: &Path) -> Self {
        let clusters = ClusterFolder::new(root, crate::support::program());
        let nodes = ["node-0", "node-1"].map(|name| Node::new(name, 1)).into();
        let expires_at = SystemClock.now() + Span::from_secs(60);
        clusters.create("c", &ClusterRequest { nodes, expires_at, labels: Default::default() }).unwrap();
        loop {
            match clusters.poll("c").unwrap() {
                ClusterState::Ready(cluster) => return Self { clusters, cluster },
                ClusterState::Starting => std::thread::yield_now(),
                other => panic!("expected a ready cluster, found {other:?}"),
            }
        }
    }
}

impl Drop for ProvisionedCluster {
    fn drop(&mut self) {
        self.clusters.delete("c", || SystemClock.now()).unwrap();
    }
}

#[tokio::test]
async fn the_fake_scheduler_conforms() {
    let nodes = ["node-0", "node-1"].map(|name| Node::new(name, 1)).into();
    let cluster = Cluster { name: "c".into(), nodes, access: ClusterAccess::processes("paper") };
    let scheduler = FakeScheduler::new("some output\n");
    scheduler_conformance::scheduler(&scheduler, &cluster, |name| job(&cluster, None, name)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_scheduler_conforms() {
    let root = tempfile::tempdir().unwrap();
    let provisioned = ProvisionedCluster::under(root.path());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let image = image(&*store).await;
    let scheduler = LocalJobs::new(store);
    scheduler_conformance::scheduler(&scheduler, &provisioned.cluster, |name| {
        job(&provisioned.cluster, Some(&image), name)
    })
    .await;
    let folder = supervisor::JobFolder::at(provisioned.cluster.access.processes_folder().unwrap())
        .output_folder("one");
    scheduler_conformance::folder(&scheduler, &provisioned.cluster, "one", &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_with_a_wrong_digest_is_not_run() {
    let root = tempfile::tempdir().unwrap();
    let provisioned = ProvisionedCluster::under(&root.path().join("clusters"));
    let store: Arc<dyn Store> = Arc::new(FolderStore::open(root.path().join("bucket")).unwrap());
    let image = image(&*store).await;
    let mut changed = image.clone();
    changed.files[0].sha256 = Digest::of(b"another program").sha256;
    let mut missing = image.clone();
    missing.reference = "elsewhere/".into();
    let scheduler = LocalJobs::new(store);
    for (image, name) in [(changed, "changed"), (missing, "missing")] {
        // A different digest, so that the staged files of the other image are not used.
        let image = Image { digest: format!("sha256:{name}"), ..image };
        let refused = scheduler.submit(&job(&provisioned.cluster, Some(&image), name)).await;
        assert!(
            matches!(&refused, Err(PortError::Permanent(why)) if why.code == "IMAGE_DAMAGED" && why.class == Class::Infrastructure),
            "{name}: {refused:?}"
        );
        assert!(
            scheduler.outputs(&provisioned.cluster, name).await.unwrap().files.is_empty(),
            "{name} never ran"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_staging_produces_complete_images() {
    let root = tempfile::tempdir().unwrap();
    let provisioned = ProvisionedCluster::under(&root.path().join("clusters"));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let program = format!("#!/bin/sh\nexec echo whole\n{}", "# filler\n".repeat(500_000));
    let image = image_of(&*store, &program).await;
    let scheduler = Arc::new(LocalJobs::new(store));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (scheduler, job) =
            (scheduler.clone(), job(&provisioned.cluster, Some(&image), &format!("j{number}")));
        tasks.spawn(async move { scheduler.submit(&job).await });
    }
    while let Some(submitted) = tasks.join_next().await {
        submitted.unwrap().unwrap();
    }
    let staged = supervisor::JobFolder::at(provisioned.cluster.access.processes_folder().unwrap())
        .image_folder(&image.digest);
    let files: Vec<_> = std::fs::read_dir(&staged).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["all_reduce_perf"], "no temporary file remains");
    assert!(std::fs::read(staged.join("all_reduce_perf")).unwrap() == program.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_each_node_runs_once_on_each_node() {
    let root = tempfile::tempdir().unwrap();
    let provisioned = ProvisionedCluster::under(root.path());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let cluster = &provisioned.cluster;
    let jobs = LocalJobs::new(store.clone());
    scheduler_conformance::program_of_each_node(&jobs, cluster, |name| job(cluster, None, name)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_pairs_runs_on_both_nodes_of_each_pair() {
    let root = tempfile::tempdir().unwrap();
    let provisioned = ProvisionedCluster::under(root.path());
    let jobs = LocalJobs::new(Arc::new(MemoryStore::default()));
    let cluster = &provisioned.cluster;
    scheduler_conformance::program_of_each_pair(&jobs, cluster, |name| job(cluster, None, name)).await;
}
