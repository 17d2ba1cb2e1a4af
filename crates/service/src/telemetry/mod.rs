//! Logs and traces. Every span that concerns a run carries `run.id`, `stage` and `attempt`.

mod google;
pub mod meters;

use std::{
    collections::BTreeMap,
    io::IsTerminal,
    sync::{Arc, Mutex},
};

use opentelemetry::{
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::TracerProvider,
};
use opentelemetry_sdk::{
    metrics::SdkMeterProvider,
    propagation::TraceContextPropagator,
    trace::{SdkTracerProvider, SpanExporter},
};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{
    EnvFilter, Layer, filter::LevelFilter, layer::SubscriberExt, registry::LookupSpan,
    util::SubscriberInitExt,
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line, for a log collector.
    #[default]
    Json,
    /// One line per entry, for a terminal.
    Compact,
    /// One JSON object per line, for Google Cloud Logging.
    Google {
        /// Project of the traces.
        project: String,
    },
}

/// The exporters of a process; dropping them flushes the buffered telemetry.
pub struct Telemetry {
    provider: SdkTracerProvider,
    meters: Option<SdkMeterProvider>,
}

impl Telemetry {
    /// Exports all buffered telemetry. Blocks until done.
    pub fn flush(&self) {
        if let Err(error) = self.provider.force_flush() {
            tracing::warn!(%error, "spans could not be flushed");
        }
        if let Some(Err(error)) = self.meters.as_ref().map(SdkMeterProvider::force_flush) {
            tracing::warn!(%error, "metrics could not be flushed");
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        // A failed shutdown cannot be reported.
        drop(self.provider.shutdown());
        drop(self.meters.as_ref().map(SdkMeterProvider::shutdown));
    }
}

/// Starts logging to standard error, and tracing without an exporter: events still carry their trace.
/// `filter` has the syntax of `RUST_LOG`. A second call has no effect.
pub fn init(service: &'static str, format: LogFormat, filter: &str) -> Telemetry {
    init_with(service, format, filter, SdkTracerProvider::builder().build(), None)
}

/// Like [`init`], exporting every span to `exporter` as it ends.
pub fn init_exporting(
    service: &'static str,
    format: LogFormat,
    filter: &str,
    exporter: impl SpanExporter + 'static,
) -> Telemetry {
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
    init_with(service, format, filter, provider, None)
}

/// Like [`init`], with the given exporters of spans and metrics.
pub fn init_with(
    service: &'static str,
    format: LogFormat,
    filter: &str,
    provider: SdkTracerProvider,
    meters: Option<SdkMeterProvider>,
) -> Telemetry {
    if let Some(meters) = &meters {
        opentelemetry::global::set_meter_provider(meters.clone());
    }
    // The filter applies to logs only; traces are always complete.
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let traces = tracing_opentelemetry::layer().with_tracer(provider.tracer(service));
    let started = tracing_subscriber::registry()
        .with(lines(format).with_filter(filter))
        .with(traces.with_filter(LevelFilter::INFO))
        .try_init();
    drop(started); // tests call it more than once per process
    Telemetry { provider, meters }
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let terminal = std::io::stderr().is_terminal();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(terminal)
        // The layer would report a failed write with `eprintln!`, which panics if standard error is closed.
        .log_internal_errors(false);
    match format {
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
        LogFormat::Compact => layer.compact().with_target(false).boxed(),
        LogFormat::Google { project } => {
            google::GoogleLog::new(project, Arc::new(Mutex::new(std::io::stderr()))).boxed()
        }
    }
}

/// W3C `traceparent` of the current span, to be sent with an event.
pub fn traceparent() -> Option<String> {
    struct Into(BTreeMap<String, String>);
    impl Injector for Into {
        fn set(&mut self, key: &str, value: String) {
            self.0.insert(key.to_owned(), value);
        }
    }
    let mut carrier = Into(BTreeMap::new());
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut carrier);
    carrier.0.remove("traceparent")
}

/// Makes `span` part of the trace of a received event.
pub fn follow(span: &Span, traceparent: Option<&str>) {
    struct From<'a>(&'a str);
    impl Extractor for From<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            (key == "traceparent").then_some(self.0)
        }
        fn keys(&self) -> Vec<&str> {
            vec!["traceparent"]
        }
    }
    if let Some(traceparent) = traceparent {
        let context = TraceContextPropagator::new().extract(&From(traceparent));
        drop(span.set_parent(context)); // a disabled span has no parent to set
    }
}
