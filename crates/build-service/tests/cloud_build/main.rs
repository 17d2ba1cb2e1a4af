//! Builds in Cloud Build, against a stand-in for its REST API.

mod faults;
mod images;
mod translation;

use build_service::conformance::{self, Configs};
use test_support::cloud_build::{CloudBuildBed, spec};

#[tokio::test(flavor = "multi_thread")]
async fn cloud_build_satisfies_the_port_contract() {
    let bed = CloudBuildBed::new().await;
    let configs = Configs { succeeds: spec("SUCCESS"), fails: spec("FAILURE"), lasts: spec("never") };
    conformance::builds(&bed.builds, &configs).await;
    assert_eq!(bed.cloud.builds().len(), 5, "each started command has one build");
}
