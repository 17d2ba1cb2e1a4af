//! Process failures, and false messages about runs.

use std::sync::Arc;

use cloudevents::{Event, EventBuilder, EventBuilderV10};
use model::Span;
use service::Bus;

use crate::{Fault, bus::SimBus, effect::Effects, fleet::Fleet, process::SimService, scenario::ProcessFault};

/// Applies a failure to a process once, after a delay.
pub async fn fail_process(
    fleet: Arc<Fleet>,
    resend: Span,
    after: i64,
    service: SimService,
    process_fault: ProcessFault,
) {
    let world = fleet.world();
    world.sleep(after).await;
    let count = |fault| {
        let inner = &mut *world.inner();
        inner.faults.occurs(fault, &mut inner.random);
        inner.trace(service, || format!("befallen: {}", fault.as_str()));
    };
    match process_fault {
        ProcessFault::Silent(millis) => {
            count(Fault::Silent);
            let inner = &mut *world.inner();
            inner.conditions.entry(service).or_default().silent_until = inner.now + millis;
        }
        ProcessFault::Outage(millis) => {
            count(Fault::Outage);
            let inner = &mut *world.inner();
            let until = inner.now + millis;
            for service in [SimService::Conductor(0), SimService::Conductor(1), SimService::Provisioner] {
                inner.conditions.entry(service).or_default().out_until = until;
            }
        }
        ProcessFault::Slow(times) => {
            count(Fault::Slow);
            world.inner().conditions.entry(service).or_default().slowness = times;
            world.sleep(300_000).await;
            world.inner().conditions.entry(service).or_default().slowness = 1;
        }
        ProcessFault::Restart => {
            count(Fault::Restart);
            world.inner().kill(service);
        }
        ProcessFault::Jump(millis) => {
            count(Fault::Jump);
            world.inner().conditions.entry(service).or_default().skew += millis;
        }
        ProcessFault::Rollout => {
            count(Fault::Rollout);
            let conductor = SimService::Conductor(0);
            fleet.settings(conductor, Span(resend.0 * 3));
            world.inner().kill(conductor);
        }
        ProcessFault::Poison => {
            count(Fault::Poison);
            let effects = Effects { world: Arc::clone(&world), service: SimService::Outside };
            let bus = SimBus::new(effects, fleet.roster());
            let number = world.inner().random.number();
            for event in invalid_events(number) {
                bus.publish(event).await.ok(); // the loss of an invalid event is harmless
            }
        }
    }
}

/// Invalid events of known types.
fn invalid_events(number: u64) -> Vec<Event> {
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
