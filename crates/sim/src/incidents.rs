//! Process failures, and false messages about runs.

use std::sync::Arc;

use cloudevents::{Event, EventBuilder, EventBuilderV10};
use events::{Content, Message};
use model::{CancelRequested, Class, Fact, Failure, Span};
use service::Bus;

use crate::{
    Fault, Happening,
    bus::SimBus,
    effect::Effects,
    fleet::Fleet,
    scenario::Blow,
    world::{Inner, SimService},
};

/// Applies a failure to a process once, after a delay.
pub async fn befall(fleet: Arc<Fleet>, resend: Span, after: i64, service: SimService, blow: Blow) {
    let world = fleet.world();
    world.sleep(after).await;
    let struck = |fault| {
        let inner = &mut *world.inner();
        inner.faults.strike(fault, &mut inner.dice);
        inner.say(service, || format!("befallen: {}", fault.as_str()));
    };
    match blow {
        Blow::Silent(millis) => {
            struck(Fault::Silent);
            let inner = &mut *world.inner();
            inner.conditions.entry(service).or_default().silent_until = inner.now + millis;
        }
        Blow::Outage(millis) => {
            struck(Fault::Outage);
            let inner = &mut *world.inner();
            let until = inner.now + millis;
            for service in [SimService::Conductor(0), SimService::Conductor(1), SimService::Provisioner] {
                inner.conditions.entry(service).or_default().out_until = until;
            }
        }
        Blow::Slow(times) => {
            struck(Fault::Slow);
            world.inner().conditions.entry(service).or_default().slowness = times;
            world.sleep(300_000).await;
            world.inner().conditions.entry(service).or_default().slowness = 1;
        }
        Blow::Restart => {
            struck(Fault::Restart);
            world.inner().kill(service);
        }
        Blow::Jump(millis) => {
            struck(Fault::Jump);
            world.inner().conditions.entry(service).or_default().skew += millis;
        }
        Blow::Rollout => {
            struck(Fault::Rollout);
            let conductor = SimService::Conductor(0);
            fleet.settings(conductor, Span(resend.0 * 3));
            world.inner().kill(conductor);
        }
        Blow::Poison => {
            struck(Fault::Poison);
            let door = Effects { world: Arc::clone(&world), service: SimService::Outside };
            let bus = SimBus::new(door, fleet);
            let number = world.inner().dice.number();
            for event in poison(number) {
                bus.publish(event).await.ok(); // its loss is harmless
            }
        }
    }
}

/// Invalid events of our types.
fn poison(number: u64) -> Vec<Event> {
    let event = |event_type: &str, subject: &str, data: serde_json::Value| {
        EventBuilderV10::new()
            .id(format!("poison-{number}-{}", subject.len()))
            .source("//elsewhere")
            .ty(event_type)
            .subject(subject)
            .data("application/json", data)
            .build()
            .ok()
    };
    let empty = serde_json::json!({});
    let events = [
        event("dev.burnin.image.built.v1", "runs/sim-0", empty.clone()),
        event("dev.burnin.job.accepted.v1", "runs/nobody-asked", serde_json::json!({"handle": "h"})),
        event("dev.burnin.cluster.create.v1", "runs/sim-0", empty.clone()),
        event("dev.burnin.job.submit.v1", "runs/../..", empty),
    ];
    events.into_iter().flatten().collect()
}

/// Sometimes publishes a false end of a stage.
pub fn contradict(inner: &mut Inner, bus: SimBus, event: &Event) {
    let Ok(message) = Message::from_event(event) else { return };
    let Content::Fact(fact) = &message.content else { return };
    let Some(stage) = fact.stage().filter(|_| fact.is_terminal()) else { return };
    if !inner.strikes(Fault::Contradiction) {
        return;
    }
    let class = [Class::Infrastructure, Class::Workload, Class::ClusterLost][inner.dice.index(3)];
    let failure = Failure::new(class, "CONTRADICTED", "another observer reports a different result");
    let run = message.run.clone();
    inner.note(SimService::Outside, Happening::Contradicted { run: run.clone(), stage });
    let lie = Message::fact("intruder", run, message.attempt, Fact::failed(stage, failure)).to_event();
    inner.in_flight += 1;
    inner.spawn(SimService::Outside, async move {
        bus.publish(lie).await.ok(); // a lost false message has no effect
        bus.world().inner().in_flight -= 1;
    });
}

/// Cancels the run of an event while the event is being delivered.
pub fn cancel(inner: &mut Inner, bus: SimBus, event: &Event) {
    let Ok(Message { run, attempt, .. }) = Message::from_event(event) else { return };
    let cancel = CancelRequested { by: "alice".to_owned(), reason: "changed their mind".to_owned() };
    let cancel = Message::fact("cli", run, attempt, Fact::CancelRequested(cancel)).to_event();
    let after = inner.dice.between(0, 1_000);
    inner.in_flight += 1;
    inner.spawn(SimService::Outside, async move {
        let world = bus.world();
        world.sleep(after).await;
        while bus.publish(cancel.clone()).await.is_err() {
            world.sleep(1_000).await;
        }
        world.inner().in_flight -= 1;
    });
}
