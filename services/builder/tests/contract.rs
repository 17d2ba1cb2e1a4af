//! Commands in, facts out, as the fixtures say.

use std::sync::Arc;

use build_service::fake::FakeBuilds;
use builder::Builder;
use test_support::contract::{LOOK, Service};

fn service() -> Service {
    Service::new(|_| Builder::new(Arc::new(FakeBuilds::default()), LOOK))
}

#[tokio::test]
async fn a_build_is_accepted_and_then_there_is_an_image() {
    service().honours_twice("build").await;
}

#[tokio::test]
async fn a_build_that_fails_says_whose_fault_it_is() {
    service().honours_twice("build-fails").await;
    service().honours_twice("build-breaks").await;
}

#[tokio::test]
async fn a_build_nobody_knows_is_absent() {
    service().honours_twice("observe-unknown").await;
}

#[tokio::test]
async fn a_build_cancelled_before_it_began_never_begins() {
    let service = service();
    service.honours_twice("cancel").await;
    service.honours_twice("build-after-cancel").await;
}

#[tokio::test]
async fn what_is_not_for_the_builder_is_parked() {
    service().parks_what_is_not_for_it().await;
}

#[tokio::test]
async fn a_build_that_was_called_absent_never_begins() {
    let service = service();
    service.honours_twice("observe-unknown").await;
    service.honours_twice("build-after-absent").await;
}
