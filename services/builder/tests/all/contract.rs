//! Each command of a fixture results in the fixture's facts.

use std::sync::Arc;

use build_service::fake::FakeBuilds;
use builder::Builder;
use test_support::contract::{POLL_INTERVAL, TestedService};

fn service() -> TestedService {
    TestedService::new(|_| Builder::new(Arc::new(FakeBuilds::default()), POLL_INTERVAL))
}

#[tokio::test]
async fn a_build_is_accepted_and_then_built() {
    service().honours_twice("build").await;
}

#[tokio::test]
async fn a_failed_build_has_a_failure_class() {
    service().honours_twice("build-fails").await;
    service().honours_twice("build-breaks").await;
}

#[tokio::test]
async fn an_unknown_build_is_absent() {
    service().honours_twice("observe-unknown").await;
}

#[tokio::test]
async fn a_build_cancelled_before_its_start_never_starts() {
    let service = service();
    service.honours_twice("cancel").await;
    service.honours_twice("build-after-cancel").await;
}

#[tokio::test]
async fn events_for_other_services_are_parked_by_the_builder() {
    service().foreign_events_are_parked().await;
}

#[tokio::test]
async fn a_build_reported_absent_never_starts() {
    let service = service();
    service.honours_twice("observe-unknown").await;
    service.honours_twice("build-after-absent").await;
}
