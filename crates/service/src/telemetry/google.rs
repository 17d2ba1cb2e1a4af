//! Log lines in Google Cloud Logging's format: one JSON object per line, including the fields of all
//! enclosing spans.

use std::{
    fmt,
    io::Write,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use chrono::{SecondsFormat, Utc};
use opentelemetry::trace::TraceContextExt;
use serde_json::{Map, Value};
use tracing::{
    Dispatch, Event, Level, Subscriber,
    dispatcher::WeakDispatch,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// Maximum length of one text, bytes; an entry may have 256 KiB in total.
const LONGEST_TEXT: usize = 32 << 10;

pub struct GoogleLog {
    project: String,
    out: Arc<Mutex<dyn Write + Send>>,
    dispatch: OnceLock<WeakDispatch>,
}

impl GoogleLog {
    /// Writes lines to `out`, with traces of this project.
    pub fn new(project: String, out: Arc<Mutex<dyn Write + Send>>) -> Self {
        Self { project, out, dispatch: OnceLock::new() }
    }

    /// Adds the trace of a span in Cloud Logging's format.
    fn trace(&self, span: &Id, line: &mut Map<String, Value>) {
        let dispatch = self.dispatch.get().and_then(WeakDispatch::upgrade);
        let context = dispatch.and_then(|dispatch| tracing_opentelemetry::get_otel_context(span, &dispatch));
        let Some(context) = context.map(|context| context.span().span_context().clone()) else { return };
        if context.is_valid() {
            let trace = format!("projects/{}/traces/{}", self.project, context.trace_id());
            line.insert("logging.googleapis.com/trace".to_owned(), trace.into());
            line.insert("logging.googleapis.com/spanId".to_owned(), context.span_id().to_string().into());
            line.insert("logging.googleapis.com/trace_sampled".to_owned(), context.is_sampled().into());
        }
    }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn keep(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        let mut end = value.len().min(LONGEST_TEXT);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        let cut = if end < value.len() { format!("{}…", &value[..end]) } else { value.to_owned() };
        self.keep(field, cut.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, value.into());
    }
}

fn severity(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "INFO",
        _ => "DEBUG",
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for GoogleLog {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        drop(self.dispatch.set(dispatch.downgrade())); // only the first subscriber logs
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Map::new();
        line.insert("severity".to_owned(), severity(*event.metadata().level()).into());
        line.insert("time".to_owned(), Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true).into());
        // Fields are merged from the outermost span to the event itself: inner fields override outer fields.
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(Fields(fields)) = span.extensions().get::<Fields>() {
                let about = fields.iter().filter(|(name, _)| !name.starts_with("otel."));
                line.extend(about.map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        line.extend(fields.0);
        line.insert("target".to_owned(), event.metadata().target().into());
        if let Some(span) = context.event_span(event) {
            self.trace(&span.id(), &mut line);
        }
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        drop(out.write_all(text.as_bytes())); // a failed log write cannot be reported
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing::{error, info_span};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn a_line_has_severity_run_and_trace() {
        let out = Arc::new(Mutex::new(Vec::new()));
        let provider = SdkTracerProvider::builder().build();
        let subscriber = tracing_subscriber::registry()
            .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("test")))
            .with(GoogleLog::new("p".to_owned(), out.clone()));
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        tracing::subscriber::with_default(subscriber, || {
            let span =
                info_span!("command", run.id = "r-1", stage = "job", attempt = 2, otel.kind = "consumer");
            super::super::follow(&span, Some(&format!("00-{trace}-00f067aa0ba902b7-01")));
            let _in = span.enter();
            error!(rows = 3, stage = "logs", "it broke: {}", "x".repeat(100_000));
        });
        let text = String::from_utf8(out.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1);
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["severity"], "ERROR");
        assert_eq!((&line["run.id"], &line["attempt"], &line["rows"]), (&"r-1".into(), &2.into(), &3.into()));
        assert_eq!(line["stage"], "logs", "event fields override span fields");
        assert_eq!(line["logging.googleapis.com/trace"], format!("projects/p/traces/{trace}"));
        assert_eq!(line["logging.googleapis.com/trace_sampled"], true);
        assert!(line["message"].as_str().unwrap().starts_with("it broke: xxx"));
        assert!(text.len() < 64 << 10 && line.get("otel.kind").is_none());
    }
}
