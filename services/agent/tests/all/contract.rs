//! Each command of a fixture results in the fixture's facts.

use std::sync::Arc;

use agent::Agent;
use cluster_api::fake_scheduler::FakeScheduler;
use ledger::{Artefacts, MemoryStore};
use test_support::contract::{POLL_INTERVAL, TestedService};

fn service() -> TestedService {
    let artefacts = Artefacts::new(Arc::new(MemoryStore::default()));
    TestedService::new(|_| {
        Agent::new(Arc::new(FakeScheduler::new(test_support::contract::log())), artefacts, POLL_INTERVAL)
    })
}

#[tokio::test]
async fn a_job_is_accepted_and_then_done() {
    service().honours_twice("submit").await;
}

#[tokio::test]
async fn the_end_of_a_job_names_the_nodes_that_the_scheduler_chose() {
    service().honours_twice("submit-any-nodes").await;
}

#[tokio::test]
async fn an_unknown_job_is_reported_as_absent() {
    service().honours_twice("observe-unknown").await;
}

#[tokio::test]
async fn a_job_cancelled_before_submission_never_starts() {
    let service = service();
    service.honours_twice("cancel").await;
    service.honours_twice("submit-after-cancel").await;
}

#[tokio::test]
async fn the_output_of_every_attempt_is_collected_and_committed() {
    let service = service();
    service.deliver("submit").await;
    service.honours_twice("collect").await;
}

#[tokio::test]
async fn a_job_without_output_commits_nothing() {
    service().honours_twice("collect-nothing").await;
}

#[tokio::test]
async fn events_for_other_services_are_parked_by_the_agent() {
    service().foreign_events_are_parked().await;
}

#[tokio::test]
async fn a_job_reported_absent_never_starts() {
    let service = service();
    service.honours_twice("observe-unknown").await;
    service.honours_twice("submit-after-absent").await;
}
