//! Each command of a fixture results in the fixture's facts.

use std::sync::Arc;

use cluster_api::fake_provider::FakeClusters;
use provisioner::Provisioner;
use test_support::contract::{POLL_INTERVAL, TestedService};

fn service() -> TestedService {
    TestedService::new(|clock| Provisioner::new(Arc::new(FakeClusters::new(clock)), POLL_INTERVAL))
}

#[tokio::test]
async fn a_cluster_is_accepted_and_then_ready() {
    let service = service();
    service.honours_twice("create").await;
    service.honours_twice("observe").await;
}

#[tokio::test]
async fn an_unknown_cluster_is_reported_as_absent() {
    service().honours_twice("observe-unknown").await;
}

#[tokio::test]
async fn an_existing_cluster_is_checked_and_never_created() {
    service().honours_twice("look-over").await;
}

#[tokio::test]
async fn an_existing_cluster_is_never_released() {
    let service = service();
    service.honours("delete-existing").await;
    assert_eq!(service.deliver("delete-existing").await["facts"], serde_json::json!([]));
}

#[tokio::test]
async fn a_cluster_is_released_and_each_confirmation_is_distinct() {
    let service = service();
    service.deliver("create").await;
    service.honours("delete").await;
    let again = service.deliver("delete").await;
    let confirmed = &again["facts"][0];
    assert_eq!(confirmed["type"], "dev.burnin.cluster.deleted.v1");
    let first = test_support::contract::facts("provisioner", "delete");
    assert_eq!(confirmed["data"]["name"], first["facts"][0]["data"]["name"]);
    assert_ne!(
        confirmed["id"], first["facts"][0]["id"],
        "a cluster may have reappeared between the two confirmations"
    );
}

#[tokio::test]
async fn a_create_after_the_release_is_refused() {
    let service = service();
    service.honours("delete-absent").await;
    service.honours_twice("create-after-delete").await;
}

#[tokio::test]
async fn events_for_other_services_are_parked_by_the_provisioner() {
    service().foreign_events_are_parked().await;
}
