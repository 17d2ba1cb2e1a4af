//! Measurements as an exporter receives them.

use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use service::telemetry::meters::{broken_workflows, notice_without_address};

#[test]
fn broken_workflows_and_notices_without_an_address_are_exported() {
    let exporter = InMemoryMetricExporter::default();
    let provider =
        SdkMeterProvider::builder().with_reader(PeriodicReader::builder(exporter.clone()).build()).build();
    opentelemetry::global::set_meter_provider(provider.clone());
    broken_workflows(3);
    broken_workflows(2);
    notice_without_address("slack-ops");
    notice_without_address("slack-ops");
    provider.force_flush().unwrap();
    let exported = format!("{:?}", exporter.get_finished_metrics().unwrap());
    let of = |name: &str| {
        let from = exported.find(name).unwrap_or_else(|| panic!("{name}: {exported}"));
        exported[from..].split("Metric {").next().unwrap().to_owned()
    };
    let broken = of("burnin.workflows.broken");
    assert!(broken.contains("value: 2"), "the newest count is exported: {broken}");
    let waiting = of("burnin.notices.without_address");
    assert!(waiting.contains("value: 2") && waiting.contains("slack-ops"), "{waiting}");
}
