//! Workflows in a bucket, with their referenced files.

use std::sync::Arc;

use gateway::Catalogue;
use ledger::{MemoryStore, Store};

const WORKFLOW: &str = "\
name: stored
cluster: {rent: {processes: {nodes: 1}}}
benchmark:
  workload: {collective: all_reduce, min_bytes: 8, max_bytes: 1K}
  criteria: criteria/any.yaml
";

#[tokio::test]
async fn a_workflow_in_a_bucket_is_read_with_its_referenced_files() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    for (name, text) in [
        ("workflows/stored.yaml", WORKFLOW),
        ("workflows/broken.yaml", "name: [\n"),
        ("workflows/criteria/any.yaml", "name: any\ndata_only: true\n"),
        ("elsewhere/other.yaml", "name: other\n"),
    ] {
        store.create(name, text.into()).await.unwrap();
    }
    let catalogue = Arc::new(Catalogue::bucket(Arc::clone(&store), "workflows/"));
    let read = catalogue.read().await.unwrap();
    let names: Vec<_> = read.workflows.keys().map(String::as_str).collect();
    assert_eq!((names, read.problems.0.len()), (vec!["stored"], 1));
    let resolved = read.workflows["stored"].resolve(&[], None).await.unwrap();
    assert_eq!(resolved.workflow.benchmark.unwrap().criteria.name, "any");
    // The local copy is used for one minute, so requests cause neither lists nor reads.
    store.create("workflows/late.yaml", WORKFLOW.replace("stored", "late").into()).await.unwrap();
    assert_eq!(catalogue.read().await.unwrap().workflows.len(), 1);
    let nowhere = Arc::new(Catalogue::folder("/nowhere/at/all"));
    assert!(nowhere.read().await.is_err());
}
