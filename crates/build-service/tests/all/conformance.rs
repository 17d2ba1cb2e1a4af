//! The conformance suite, on every adapter.

use std::sync::Arc;

use build_service::{
    conformance::{self, Configs},
    fake::FakeBuilds,
    local::LocalBuilds,
};
use ledger::{FolderStore, MemoryStore, Store};
use model::BuildSpec;
use serde_json::json;

fn spec(config: serde_json::Value) -> BuildSpec {
    BuildSpec { config, source: None, repository: None, substitutions: Default::default() }
}

fn script(script: &str) -> BuildSpec {
    spec(json!({
        "steps": [{"name": "bash", "script": script}],
        "artifacts": {"objects": {"location": "gs://anywhere/", "paths": ["made"]}},
    }))
}

fn real_configs() -> Configs {
    Configs {
        succeeds: script("echo something > made"),
        fails: script("echo this went wrong; exit 3"),
        lasts: script("sleep 300"),
    }
}

#[tokio::test]
async fn simulated_builds_conform() {
    let configs = Configs {
        succeeds: spec(json!({"steps": []})),
        fails: spec(json!({"fails": "FAILURE"})),
        lasts: spec(json!({"steps": []})),
    };
    conformance::builds(&FakeBuilds::default(), &configs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_builds_conform() {
    let root = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(MemoryStore::default()), Arc::new(FolderStore::open(root.path().join("bucket")).unwrap())];
    for (number, store) in stores.into_iter().enumerate() {
        let builds =
            supervisor::BuildFolder::new(root.path().join(number.to_string()), crate::support::program());
        conformance::builds(&LocalBuilds::new(builds, store, None), &real_configs()).await;
    }
}
