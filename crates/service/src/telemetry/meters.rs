//! Metrics, named by OpenTelemetry's conventions for messaging and for CI/CD.

use std::time::Duration;

use opentelemetry::{
    KeyValue, global,
    metrics::{Counter, Gauge, Histogram},
};

/// Instruments; without an exporter they record no values.
struct Meters {
    process: Histogram<f64>,
    published: Counter<u64>,
    run: Histogram<f64>,
    runs: Counter<u64>,
    broken_workflows: Gauge<u64>,
    without_address: Counter<u64>,
}

fn meters() -> Meters {
    // The meter is looked up at each use: an exporter may be installed later, and the library caches meters by name.
    let meter = global::meter("burnin");
    Meters {
        process: meter.f64_histogram("messaging.process.duration").with_unit("s").build(),
        published: meter.u64_counter("messaging.client.sent.messages").build(),
        run: meter.f64_histogram("cicd.pipeline.run.duration").with_unit("s").build(),
        runs: meter.u64_counter("cicd.pipeline.runs").build(),
        broken_workflows: meter.u64_gauge("burnin.workflows.broken").build(),
        without_address: meter.u64_counter("burnin.notices.without_address").build(),
    }
}

fn system() -> KeyValue {
    KeyValue::new("messaging.system", "gcp_pubsub")
}

/// Records the duration and outcome of a handled event: `done`, `parked`, `retried`, `broken`.
pub fn processed(event_type: &str, outcome: &'static str, took: Duration) {
    let attributes = [
        system(),
        KeyValue::new("messaging.operation.name", "process"),
        KeyValue::new("cloudevents.event_type", event_type.to_owned()),
        KeyValue::new("outcome", outcome),
    ];
    meters().process.record(took.as_secs_f64(), &attributes);
}

/// Counts a published event, or a failed publication.
pub fn published(topic: &'static str, event_type: &str, taken: bool) {
    let attributes = [
        system(),
        KeyValue::new("messaging.operation.name", "publish"),
        KeyValue::new("messaging.destination.name", topic),
        KeyValue::new("cloudevents.event_type", event_type.to_owned()),
        KeyValue::new("outcome", if taken { "done" } else { "failed" }),
    ];
    meters().published.add(1, &attributes);
}

/// Records the end and the duration of a run.
pub fn run_ended(workflow: &str, conclusion: &str, verdict: Option<&str>, took: Duration) {
    let attributes = [
        KeyValue::new("cicd.pipeline.name", workflow.to_owned()),
        KeyValue::new("cicd.pipeline.result", conclusion.to_owned()),
        KeyValue::new("burnin.verdict", verdict.unwrap_or("none").to_owned()),
    ];
    let meters = meters();
    meters.run.record(took.as_secs_f64(), &attributes);
    meters.runs.add(1, &attributes);
}

/// Records the current number of workflow files with problems.
pub fn broken_workflows(count: usize) {
    meters().broken_workflows.record(count.try_into().unwrap_or(u64::MAX), &[]);
}

/// Counts a notice that waits because this channel has no address or no key.
pub fn notice_without_address(channel: &str) {
    meters().without_address.add(1, &[KeyValue::new("burnin.channel", channel.to_owned())]);
}
