//! Commands in, facts out, as the fixtures say.

use std::sync::Arc;

use provisioner::{Provisioner, fake::FakeClusters};
use test_support::contract::{LOOK, Service};

fn service() -> Service {
    Service::new(|clock| Provisioner::new(Arc::new(FakeClusters::new(clock)), LOOK))
}

#[tokio::test]
async fn a_cluster_is_accepted_and_then_ready() {
    let service = service();
    service.honours_twice("create").await;
    service.honours_twice("observe").await;
}

#[tokio::test]
async fn a_cluster_nobody_knows_is_absent() {
    service().honours_twice("observe-unknown").await;
}

#[tokio::test]
async fn somebody_elses_cluster_is_looked_over_and_never_made() {
    service().honours_twice("look-over").await;
}

#[tokio::test]
async fn somebody_elses_cluster_is_never_given_back() {
    let service = service();
    service.honours("delete-existing").await;
    assert_eq!(service.deliver("delete-existing").await["facts"], serde_json::json!([]));
}

#[tokio::test]
async fn a_cluster_is_given_back_and_each_confirmation_is_its_own() {
    let service = service();
    service.deliver("create").await;
    service.honours("delete").await;
    let again = service.deliver("delete").await;
    let confirmed = &again["facts"][0];
    assert_eq!(confirmed["type"], "dev.burnin.cluster.deleted.v1");
    let first = test_support::contract::facts("provisioner", "delete");
    assert_eq!(confirmed["data"]["name"], first["facts"][0]["data"]["name"]);
    assert_ne!(confirmed["id"], first["facts"][0]["id"], "a cluster may have come back between the two");
}

#[tokio::test]
async fn a_cluster_asked_for_after_it_was_given_back_is_refused() {
    let service = service();
    service.honours("delete-absent").await;
    service.honours_twice("create-after-delete").await;
}

#[tokio::test]
async fn what_is_not_for_the_provisioner_is_parked() {
    service().parks_what_is_not_for_it().await;
}
