//! Exports spans and metrics to a collector over OTLP.
//!
//! Configured by OpenTelemetry's own variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT`. Without an endpoint no telemetry is exported.

use std::{error::Error, time::Duration};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::SdkTracerProvider,
};
use service::telemetry::{self, Telemetry};

use crate::Platform;

/// Interval between metric exports without requests.
const EVERY: Duration = Duration::from_secs(60);

/// Starts logs, traces and metrics of a service.
///
/// # Errors
/// Returns an error if the exporter cannot be created.
pub fn start(
    service: &'static str,
    version: &'static str,
    platform: &Platform,
) -> Result<Telemetry, Box<dyn Error + Send + Sync>> {
    let (format, filter) = (platform.log_format.clone(), &platform.log);
    let Some(endpoint) = platform.otlp.as_deref() else {
        return Ok(telemetry::init(service, format, filter));
    };
    let mut about = vec![
        KeyValue::new("service.version", version),
        KeyValue::new("gcp.project.id", platform.project.clone()),
        KeyValue::new("faas.name", service),
    ];
    about.extend(platform.revision.clone().map(|revision| KeyValue::new("faas.version", revision)));
    let resource = Resource::builder().with_service_name(service).with_attributes(about).build();
    // The library reads the endpoint itself; this value is only logged.
    tracing::debug!(endpoint, "exporting");
    let (spans, metrics) =
        (SpanExporter::builder().with_http().build()?, MetricExporter::builder().with_http().build()?);
    let provider =
        SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource.clone()).build();
    let reader = PeriodicReader::builder(metrics).with_interval(EVERY).build();
    let meters = SdkMeterProvider::builder().with_reader(reader).with_resource(resource).build();
    Ok(telemetry::init_with(service, format, filter, provider, Some(meters)))
}
