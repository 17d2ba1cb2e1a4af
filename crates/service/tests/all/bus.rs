//! The bus redelivers an event until it is acknowledged, and propagates its trace.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use cloudevents::AttributesReader;
use events::Message;
use model::*;
use opentelemetry_sdk::trace::InMemorySpanExporter;
use service::{
    Bus, Clock, DeadLetters, Disposition, Event, Handler, ManualClock, MemoryBus, Publisher, telemetry,
};
use tokio::sync::mpsc;

struct CountingHandler {
    deliveries: AtomicU32,
    answers: Vec<Disposition>,
    seen: mpsc::UnboundedSender<u32>,
}

#[async_trait::async_trait]
impl Handler for CountingHandler {
    async fn handle(&self, _: &Event) -> Disposition {
        let number = self.deliveries.fetch_add(1, Ordering::SeqCst);
        self.seen.send(number).unwrap();
        self.answers[number as usize].clone()
    }
}

#[derive(Default)]
struct RecordedDeadLetters(Mutex<Vec<String>>);

#[async_trait::async_trait]
impl DeadLetters for RecordedDeadLetters {
    async fn park(&self, id: &str, _: &str, _: &[u8]) -> Result<(), String> {
        self.0.lock().unwrap().push(id.to_owned());
        Ok(())
    }
}

fn event() -> Event {
    let fact = Fact::JobAccepted(Handle { handle: "h".into() });
    Message::fact("agent", "a".parse().unwrap(), Attempt::new(1), fact).to_event()
}

#[tokio::test]
async fn an_event_is_redelivered_until_it_is_handled() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(0)));
    let parked = Arc::new(RecordedDeadLetters::default());
    let bus = MemoryBus::new(clock.clone(), parked.clone());
    let (seen, mut deliveries) = mpsc::unbounded_channel();
    let retry = || Disposition::Retry("not yet".into());
    let answers = vec![retry(), retry(), Disposition::Park("never".into())];
    let handler: Arc<dyn Handler> =
        Arc::new(CountingHandler { deliveries: AtomicU32::new(0), answers, seen });
    bus.subscribe(&["dev.burnin.job.accepted.v1"], &handler);

    let event = event();
    assert!(!bus.is_in_memory(event.id()));
    bus.publish(event.clone()).await.unwrap();
    assert!(bus.is_in_memory(event.id()), "the unhandled event exists only in this process");
    for expected in 0..3 {
        let delivery = loop {
            tokio::select! {
                delivery = deliveries.recv() => break delivery,
                () = tokio::task::yield_now() => clock.advance(Span::from_millis(50)),
            }
        };
        assert_eq!(delivery, Some(expected));
    }
    while parked.0.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(*parked.0.lock().unwrap(), [event.id()]);
    bus.stop().await;
}

struct RecordingBus(Mutex<Vec<Event>>);

#[async_trait::async_trait]
impl Bus for RecordingBus {
    async fn publish(&self, event: Event) -> Result<(), service::BusError> {
        self.0.lock().unwrap().push(event);
        Ok(())
    }
}

#[tokio::test]
async fn a_published_event_continues_the_trace_of_its_command() {
    let spans = InMemorySpanExporter::default();
    let telemetry = telemetry::init_exporting("test", telemetry::LogFormat::Compact, "off", spans.clone());
    let published = Arc::new(RecordingBus(Mutex::default()));
    let clock: Arc<dyn Clock> = Arc::new(service::SystemClock);
    let publisher = Publisher::new("agent", published.clone(), clock);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    {
        use tracing::Instrument;
        let span = tracing::info_span!("command", run.id = "a");
        telemetry::follow(&span, Some(parent));
        let fact = Fact::JobAccepted(Handle { handle: "h".into() });
        publisher
            .publish_run_fact("a".parse().unwrap(), Attempt::new(1), fact)
            .instrument(span)
            .await
            .unwrap();
    }
    telemetry.flush();
    let event = published.0.lock().unwrap().pop().unwrap();
    let message = Message::from_event(&event).unwrap();
    let traceparent = message.traceparent.expect("an event states its trace");
    assert!(traceparent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{traceparent}");
    assert_ne!(traceparent, parent, "each delivery has its own span");
    assert!(message.time.is_some());
    let finished = spans.get_finished_spans().unwrap();
    assert_eq!(finished.iter().map(|span| span.name.as_ref()).collect::<Vec<_>>(), ["command"]);
}
