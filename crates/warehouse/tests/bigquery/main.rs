//! The BigQuery warehouse with stand-ins for BigQuery and Cloud Storage over HTTP: loaded rows, load times and load jobs.

mod batches;
mod conformance;
mod faults;
mod reads;
mod storm;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bigquery_standin::BigQueryStandIn as StandIn;
use gcp::storage::{CloudStorage, StorageTimeouts};
use model::{Timestamp, Verdict};
use storage_standin::{Options as Storage, StandIn as Bucket};
use warehouse::{
    Load, MeasurementRow, MetricRow, VerdictRow,
    bigquery::{BigQuery, BigQueryOptions},
};

const BUCKET: &str = "artefacts";
const MEASUREMENTS: &str = "val-prod.burnin.measurements";
const METRICS: &str = "val-prod.burnin.metrics";
const VERDICTS: &str = "val-prod.burnin.verdicts";

/// Both stand-ins, and the tables.
struct BigQueryBed {
    bucket: Bucket,
    bigquery: StandIn,
}

impl BigQueryBed {
    async fn new() -> Self {
        Self::with_pause(Storage::default().pause).await
    }

    /// Starts both stand-ins. The bucket rejects a second write of a name within `pause`.
    async fn with_pause(pause: Duration) -> Self {
        let buckets = vec![BUCKET.to_owned()];
        let bucket = Bucket::start(Storage { buckets, pause, ..Storage::default() }).await.unwrap();
        let bigquery = StandIn::serve(bucket.url()).await.unwrap();
        for (table, schema) in [
            ("measurements", include_str!("../../../../schemas/bigquery/measurements.json")),
            ("verdicts", include_str!("../../../../schemas/bigquery/verdicts.json")),
            ("metrics", include_str!("../../../../schemas/bigquery/metrics.json")),
            ("findings", include_str!("../../../../schemas/bigquery/findings.json")),
            ("node_results", include_str!("../../../../schemas/bigquery/node_results.json")),
            ("runs", include_str!("../../../../schemas/bigquery/runs.json")),
        ] {
            let schema = serde_json::from_str(schema).unwrap();
            bigquery.table("val-prod", "burnin", table, &schema).unwrap();
        }
        Self { bucket, bigquery }
    }

    /// The bucket with shortened timeouts, as the loaders use it.
    fn store(&self) -> Arc<CloudStorage> {
        let timeouts = StorageTimeouts {
            attempt: Duration::from_secs(2),
            total: Duration::from_secs(8),
            check: Duration::from_secs(2),
            stream: Duration::from_secs(8),
        };
        let emulator = self.bucket.url().parse().unwrap();
        Arc::new(CloudStorage::with_timeouts(BUCKET, Some(emulator), timeouts))
    }

    /// A loader that uses both stand-ins.
    fn warehouse(&self, options: BigQueryOptions) -> Arc<BigQuery> {
        let endpoint = Some(self.bigquery.endpoint.clone());
        Arc::new(BigQuery::new("val-prod", "burnin", endpoint, self.store(), options))
    }

    /// Number of rows of a table by run.
    fn count(&self, table: &str) -> BTreeMap<String, u64> {
        let counted = self.bigquery.count(table, &["run"]).unwrap();
        counted.into_iter().map(|(key, rows)| (key.concat(), rows)).collect()
    }

    /// Load jobs of a table with their result: `None`, or the reason.
    fn jobs(&self, table: &str) -> Vec<(String, String)> {
        let jobs = self.bigquery.jobs();
        let of = |job: &serde_json::Value| {
            job["configuration"]["load"]["destinationTable"]["tableId"] == table
                && job["status"]["state"] == "DONE"
        };
        let end = |job: &serde_json::Value| {
            job["status"]["errorResult"]["reason"].as_str().unwrap_or_default().to_owned()
        };
        jobs.iter().filter(|(_, job)| of(job)).map(|(id, job)| (id.clone(), end(job))).collect()
    }
}

/// Timing without pauses.
fn short_waits() -> BigQueryOptions {
    BigQueryOptions {
        timeout: Duration::from_secs(20),
        attempt: Duration::from_secs(2),
        wait_for_others: Duration::from_millis(1),
        every: Duration::ZERO,
        most: 500,
        again: Duration::from_millis(5),
        poll_interval: Duration::from_millis(5),
    }
}

/// Rows of a run: `rows` measurements and a verdict.
fn load(run: &str, rows: u32) -> Load {
    let row = |row_number| MeasurementRow {
        run: run.into(),
        workflow: "nightly".into(),
        attempt: 1,
        log: "1/node-0.log".to_owned(),
        row_number,
        placement: "in_place".to_owned(),
        size_bytes: 8 << row_number,
        dtype: "float".to_owned(),
        time_us: 1.5,
        busbw: 1e-3,
        wrong: Some(0),
        requested_at: Some(Timestamp::from_millis(1_000)),
        ..MeasurementRow::default()
    };
    let verdict = VerdictRow {
        run: run.into(),
        workflow: "nightly".into(),
        attempt: 1,
        requested_at: Some(Timestamp::from_millis(1_000)),
        verdict: Some(Verdict::Pass),
        fingerprint: "{}".into(),
        measurements: rows.into(),
        ..VerdictRow::default()
    };
    Load { verdicts: vec![verdict], rows: (0..rows).map(row).collect(), ..Load::default() }
}

/// Rows of a check: `metrics` metrics and a verdict.
fn load_of_metrics(run: &str, metrics: u64) -> Load {
    let metric = |metric_number| MetricRow {
        run: run.into(),
        workflow: "nightly".into(),
        attempt: 1,
        check_name: Some("memory".into()),
        log: "c2a1/node-0.log".into(),
        metric_number,
        line: 1,
        metric: "memory.copy".into(),
        unit: "GB/s".into(),
        better: "higher".into(),
        scope: "gpu".into(),
        labels: "{}".into(),
        value: Some(1.5),
        ..MetricRow::default()
    };
    let mut load = load(run, 0);
    load.verdicts[0].check_name = Some("memory".into());
    Load { metrics: (0..metrics).map(metric).collect(), ..load }
}
