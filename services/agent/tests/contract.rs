//! Commands in, facts out, as the fixtures say.

use std::sync::Arc;

use agent::{Agent, fake::FakeScheduler};
use ledger::{Artefacts, MemoryStore};
use test_support::contract::{LOOK, Service};

fn service() -> Service {
    let artefacts = Artefacts::new(Arc::new(MemoryStore::default()));
    Service::new(|_| Agent::new(Arc::new(FakeScheduler::new(test_support::contract::log())), artefacts, LOOK))
}

#[tokio::test]
async fn a_job_is_accepted_and_then_done() {
    service().honours_twice("submit").await;
}

#[tokio::test]
async fn a_job_nobody_knows_is_absent() {
    service().honours_twice("observe-unknown").await;
}

#[tokio::test]
async fn a_job_cancelled_before_it_was_submitted_never_begins() {
    let service = service();
    service.honours_twice("cancel").await;
    service.honours_twice("submit-after-cancel").await;
}

#[tokio::test]
async fn what_every_attempt_wrote_is_collected_and_committed() {
    let service = service();
    service.deliver("submit").await;
    service.honours_twice("collect").await;
}

#[tokio::test]
async fn where_nothing_was_written_nothing_is_committed_and_said_so() {
    service().honours_twice("collect-nothing").await;
}

#[tokio::test]
async fn what_is_not_for_the_agent_is_parked() {
    service().parks_what_is_not_for_it().await;
}

#[tokio::test]
async fn a_job_that_was_called_absent_never_begins() {
    let service = service();
    service.honours_twice("observe-unknown").await;
    service.honours_twice("submit-after-absent").await;
}
