//! Messages of other senders about a run: a false end of a stage, and a cancel.

use std::sync::Arc;

use cloudevents::Event;
use events::{Content, Message};
use model::{CancelRequested, Class, Fact, Failure};
use service::Bus;

use crate::{
    ExternalEvent, Fault,
    process::SimService,
    world::{SimWorld, WorldState},
};

/// Publishes a false end of a stage if the fault occurs.
pub fn contradict(inner: &mut WorldState, world: Arc<SimWorld>, bus: impl Bus + 'static, event: &Event) {
    let Ok(message) = Message::from_event(event) else { return };
    let Content::Fact(fact) = &message.content else { return };
    let Some(stage) = fact.stage().filter(|_| fact.is_terminal()) else { return };
    if !inner.occurs(Fault::Contradiction) {
        return;
    }
    let class = [Class::Infrastructure, Class::Workload, Class::ClusterLost][inner.random.index(3)];
    let failure = Failure::new(class, "CONTRADICTED", "another observer reports a different result");
    let run = message.run.clone();
    inner.note(SimService::Outside, ExternalEvent::Contradicted { run: run.clone(), stage });
    let lie = Message::fact("intruder", run, message.attempt, Fact::failed(stage, failure)).to_event();
    inner.in_flight += 1;
    inner.spawn(SimService::Outside, async move {
        bus.publish(lie).await.ok(); // a lost false message has no effect
        world.inner().in_flight -= 1;
    });
}

/// Cancels the run of an event while the event is being delivered.
pub fn cancel(inner: &mut WorldState, world: Arc<SimWorld>, bus: impl Bus + 'static, event: &Event) {
    let Ok(Message { run, attempt, .. }) = Message::from_event(event) else { return };
    let cancel = CancelRequested { by: "alice".to_owned(), reason: "changed their mind".to_owned() };
    let cancel = Message::fact("cli", run, attempt, Fact::CancelRequested(cancel)).to_event();
    let after = inner.random.between(0, 1_000);
    inner.in_flight += 1;
    inner.spawn(SimService::Outside, async move {
        world.sleep(after).await;
        while bus.publish(cancel.clone()).await.is_err() {
            world.sleep(1_000).await;
        }
        world.inner().in_flight -= 1;
    });
}
