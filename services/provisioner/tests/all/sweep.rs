//! The sweeper: expired clusters are deleted, leased clusters stay, and deletions are confirmed by the list.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use cluster_api::{
    ClusterListing, ClusterProvider, ClusterStatus, LeaseRequest, fake_provider::FakeClusters,
};
use cluster_local::LocalClusters;
use model::{Attempt, CommandId, Deleted, Span, Stage, System, Timestamp, Verb};
use provisioner::{SweepResult, SweptCluster, sweep};
use service::{Clock, ManualClock, PortError, SystemClock};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const GRACE: Span = Span::from_secs(120);

fn order(run: &str, expires_at: Timestamp) -> LeaseRequest {
    let run = run.parse().unwrap();
    let id = CommandId { run, stage: Stage::Cluster, attempt: Attempt::FIRST, verb: Verb::Start };
    LeaseRequest { name: id.resource_name(), id, system: System::processes(1), expires_at }
}

fn outcomes(swept: &[SweptCluster]) -> Vec<(&str, &str)> {
    let word = |outcome: &SweepResult| match outcome {
        SweepResult::Kept { .. } => "kept",
        SweepResult::Unlabelled => "unlabelled",
        SweepResult::Due => "due",
        SweepResult::Deleted(_) => "gone",
        SweepResult::DeletionFailed(_) => "left",
    };
    swept.iter().map(|swept| (swept.cluster.run.as_str(), word(&swept.outcome))).collect()
}

#[tokio::test]
async fn a_lease_protects_its_cluster_until_the_end_of_the_grace_period() {
    let clock = Arc::new(ManualClock::new(START));
    let provider = FakeClusters::new(clock.clone());
    for (run, life) in [("a", 60), ("b", 600)] {
        provider.create(&order(run, START + Span::from_secs(life))).await.unwrap();
    }
    assert_eq!(outcomes(&sweep(&provider, GRACE, true).await.unwrap()), [("a", "kept"), ("b", "kept")]);
    clock.advance(Span::from_secs(60 + 119));
    assert_eq!(outcomes(&sweep(&provider, GRACE, true).await.unwrap()), [("a", "kept"), ("b", "kept")]);
    clock.advance(Span::from_secs(1));
    assert_eq!(outcomes(&sweep(&provider, GRACE, false).await.unwrap()), [("a", "due"), ("b", "kept")]);
    assert_eq!(provider.alive().len(), 2, "a dry run deletes no cluster");
    assert_eq!(outcomes(&sweep(&provider, GRACE, true).await.unwrap()), [("a", "gone"), ("b", "kept")]);
    assert_eq!(outcomes(&sweep(&provider, GRACE, true).await.unwrap()), [("b", "kept")]);
}

/// A provider that reports a cluster as deleted although it exists, until the test corrects it.
struct WrongDeletions {
    clusters: FakeClusters,
    wrong: AtomicBool,
}

#[service::async_trait]
impl ClusterProvider for WrongDeletions {
    async fn create(&self, order: &LeaseRequest) -> Result<String, PortError> {
        self.clusters.create(order).await
    }
    async fn poll(&self, name: &str) -> Result<ClusterStatus, PortError> {
        self.clusters.poll(name).await
    }
    async fn delete(&self, name: &str) -> Result<Deleted, PortError> {
        if self.wrong.load(Ordering::Relaxed) {
            let evidence = "200 OK".to_owned();
            return Ok(Deleted { name: name.to_owned(), evidence, confirmed_at: START });
        }
        self.clusters.delete(name).await
    }
    async fn list(&self) -> Result<ClusterListing, PortError> {
        let mut listing = self.clusters.list().await?;
        for listed in listing.clusters.iter_mut().filter(|listed| listed.run == "unlabelled") {
            listed.expires_at = None;
        }
        Ok(listing)
    }
}

#[tokio::test]
async fn deletions_must_be_confirmed_by_the_list_and_unlabelled_clusters_stay() {
    let clock = Arc::new(ManualClock::new(START + Span::from_secs(3600)));
    let provider = WrongDeletions { clusters: FakeClusters::new(clock), wrong: AtomicBool::new(true) };
    for run in ["a", "unlabelled"] {
        provider.create(&order(run, START)).await.unwrap();
    }
    let swept = sweep(&provider, GRACE, true).await.unwrap();
    assert_eq!(outcomes(&swept), [("a", "left"), ("unlabelled", "unlabelled")]);
    provider.wrong.store(false, Ordering::Relaxed);
    let swept = sweep(&provider, GRACE, true).await.unwrap();
    assert_eq!(outcomes(&swept), [("a", "gone"), ("unlabelled", "unlabelled")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_process_clusters_are_ended_by_the_sweep() {
    let root = tempfile::tempdir().unwrap();
    let clusters = supervisor::ClusterFolder::new(root.path(), crate::support::program());
    let provider = |clock: Arc<dyn Clock>| LocalClusters::new(clusters.clone(), clock, 0);
    let now = SystemClock.now();
    let here = provider(Arc::new(SystemClock));
    here.create(&order("swept", now + Span::from_secs(60))).await.unwrap();
    assert_eq!(outcomes(&sweep(&here, GRACE, true).await.unwrap()), [("swept", "kept")]);
    // The lease and the grace period have expired by the provider's clock, but not by the nodes' clock.
    let later = provider(Arc::new(ManualClock::new(now + Span::from_secs(200))));
    assert_eq!(outcomes(&sweep(&later, GRACE, true).await.unwrap()), [("swept", "gone")]);
    assert_eq!(here.poll("swept-cluster-1").await.unwrap(), ClusterStatus::Absent);
    assert_eq!(sweep(&here, GRACE, true).await.unwrap(), []);
}
