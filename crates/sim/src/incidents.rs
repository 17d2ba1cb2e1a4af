//! Process failures, and false messages about runs.

use std::sync::Arc;

use cloudevents::{Event, EventBuilder, EventBuilderV10};
use model::Span;
use service::Bus;

use crate::{Fault, bus::SimBus, effect::Effects, fleet::Fleet, process::SimService, scenario::Blow};

/// Applies a failure to a process once, after a delay.
pub async fn befall(fleet: Arc<Fleet>, resend: Span, after: i64, service: SimService, blow: Blow) {
    let world = fleet.world();
    world.sleep(after).await;
    let struck = |fault| {
        let inner = &mut *world.inner();
        inner.faults.strike(fault, &mut inner.dice);
        inner.trace(service, || format!("befallen: {}", fault.as_str()));
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
            let bus = SimBus::new(door, fleet.roster());
            let number = world.inner().dice.number();
            for event in poison(number) {
                bus.publish(event).await.ok(); // the loss of an invalid event is harmless
            }
        }
    }
}

/// Invalid events of known types.
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
