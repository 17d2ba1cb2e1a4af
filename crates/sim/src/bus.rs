//! A bus with at-least-once, unordered delivery to running processes.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use cloudevents::{AttributesReader, Event};
use events::{Content, Message};
use futures::future::{Either, select};
use model::{Fact, Verdict, failpoint_is_active};
use service::{Bus, BusError, Disposition};
use tokio::sync::oneshot;

use crate::{
    ExternalEvent, Fault,
    effect::{EffectKind, EffectResult, Effects},
    interference::{cancel, contradict},
    process::SimService,
    roster::{Group, RunningProcesses},
    world::SimWorld,
};

/// Time until an unacknowledged event is redelivered, ms, even if the first handler is still running.
const ACK_DEADLINE: i64 = 60_000;
const FIRST_RETRY: i64 = 100;
const SLOWEST_RETRY: i64 = 60_000;

/// Client of the bus in one process.
pub struct SimBus {
    effects: Effects,
    roster: Arc<RunningProcesses>,
}

impl SimBus {
    /// Client for one process: `effects` decides which of its publications fail or are lost.
    pub fn new(effects: Effects, roster: Arc<RunningProcesses>) -> Self {
        Self { effects, roster }
    }

    fn world(&self) -> Arc<SimWorld> {
        Arc::clone(&self.effects.world)
    }

    /// Client for external senders, which never crash.
    fn outside(&self) -> Self {
        let effects = Effects { service: SimService::Outside, ..self.effects.clone() };
        Self::new(effects, Arc::clone(&self.roster))
    }
}

/// Whether the publisher sends this event only once, so the bus must deliver it.
fn irreplaceable(event: &Event) -> bool {
    matches!(
        event.ty(),
        "dev.burnin.run.requested.v1" | "dev.burnin.cancel.requested.v1" | "dev.burnin.run.used.v1"
    )
}

/// Whether the command starts a build, a cluster or a job, which costs money.
fn begins_something(event: &Event) -> bool {
    matches!(
        event.ty(),
        "dev.burnin.image.build.v1" | "dev.burnin.cluster.create.v1" | "dev.burnin.job.submit.v1"
    )
}

/// The event as changed by a planted bug of the publisher.
fn bugs(event: Event) -> Option<Event> {
    if failpoint_is_active("end_is_not_told") && event.ty() == "dev.burnin.run.closed.v1" {
        return None;
    }
    let message = Message::from_event(&event).ok()?;
    Some(match message.content {
        Content::Command(mut command) if failpoint_is_active("random_in_a_command_id") => {
            command.id.attempt = command.id.attempt.next();
            Message::command("conductor", *command).to_event()
        }
        Content::Fact(Fact::VerdictReached(mut reached)) if failpoint_is_active("everything_passes") => {
            reached.verdict = Verdict::Pass;
            let fact = Fact::VerdictReached(reached);
            Message::fact("judge", message.run, message.attempt, fact).to_event()
        }
        _ => event,
    })
}

#[async_trait::async_trait]
impl Bus for SimBus {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        let service = self.effects.service;
        let id = event.id().to_owned();
        let what = format!("publish {}", event.ty().trim_start_matches("dev.burnin."));
        let Some(event) = bugs(event) else { return Ok(()) };
        let event = Arc::new(event);
        let effect = |inner: &mut crate::world::WorldState| {
            inner.note(service, ExternalEvent::Published { by: service, event: Arc::clone(&event) });
            if service != SimService::Outside {
                contradict(inner, self.world(), self.outside(), &event);
            }
            let overtaken = begins_something(&event) && inner.occurs(Fault::Overtaken);
            if overtaken {
                cancel(inner, self.world(), self.outside(), &event);
            }
            for group in Group::handling(event.ty()) {
                if !irreplaceable(&event) && inner.occurs(Fault::Drop) {
                    inner.trace(SimService::Outside, || format!("drops {}", event.id()));
                    continue;
                }
                let copies = if inner.occurs(Fault::Duplicate) { 2 + inner.random.below(3) } else { 1 };
                for _ in 0..copies {
                    let mut delay = inner.random.between(1, 60);
                    if inner.occurs(Fault::Delay) {
                        let longest = [2_000, 60_000, 900_000][inner.random.index(3)];
                        delay = inner.random.between(0, longest);
                    }
                    if overtaken {
                        delay += inner.random.between(500, 30_000);
                    }
                    inner.in_flight += 1;
                    let delivery = deliver_later(Arc::clone(&self.roster), Arc::clone(&event), group, delay);
                    inner.spawn(SimService::Outside, delivery);
                }
            }
        };
        match self.effects.call(EffectKind::Bus, || what.clone(), effect).await {
            EffectResult::Done(()) => Ok(()),
            EffectResult::Lost(()) | EffectResult::Refused => {
                Err(BusError { id, why: "deadline exceeded".to_owned() })
            }
        }
    }
}

/// Real duration of the work; the simulation does not depend on it.
struct Timed<F> {
    work: F,
    spent: Duration,
}

impl<F: Future + Unpin> Future for Timed<F> {
    type Output = (F::Output, Duration);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let started = Instant::now();
        let polled = Pin::new(&mut self.work).poll(context);
        self.spent += started.elapsed();
        polled.map(|output| (output, self.spent))
    }
}

/// Delivers an event to one member of a group until it is acknowledged.
pub async fn deliver_later(roster: Arc<RunningProcesses>, event: Arc<Event>, group: Group, delay: i64) {
    let world = roster.world();
    world.sleep(delay).await;
    let mut wait = FIRST_RETRY;
    loop {
        if let Some((service, handler)) = roster.pick(group) {
            world.inner().trace(SimService::Outside, || {
                format!("delivers {} to {service}", event.ty().trim_start_matches("dev.burnin."))
            });
            let (sender, receiver) = oneshot::channel();
            let (at, delivered, dead_letters) =
                (Arc::clone(&world), Arc::clone(&event), roster.dead_letters(service));
            let early = failpoint_is_active("ack_before_handling");
            if early {
                world.inner().note(service, ExternalEvent::Acked { by: service, event: Arc::clone(&event) });
            }
            world.spawn(service, async move {
                let handled = Timed { work: handler.handle(&delivered), spent: Duration::ZERO };
                let (answer, spent) = handled.await;
                if let (SimService::Conductor(_), Some(busy)) = (service, &mut at.inner().busy) {
                    busy.push(u32::try_from(spent.as_nanos()).unwrap_or(u32::MAX));
                }
                let acked = match answer {
                    Disposition::Done => Some(ExternalEvent::Acked { by: service, event: delivered }),
                    Disposition::Retry(why) if failpoint_is_active("ack_on_retry") => {
                        at.inner().trace(service, || format!("swallows: {why}"));
                        Some(ExternalEvent::Acked { by: service, event: delivered })
                    }
                    Disposition::Retry(why) => {
                        at.inner().trace(service, || format!("requests redelivery: {why}"));
                        None
                    }
                    Disposition::Park(why) => {
                        let raw = serde_json::to_vec(&*delivered).unwrap_or_default();
                        let parked = dead_letters.park(delivered.id(), &why, &raw).await;
                        parked.ok().map(|()| ExternalEvent::Parked { by: service, event: delivered })
                    }
                };
                let done = acked.is_some();
                if let Some(happening) = acked.filter(|_| !early) {
                    at.inner().note(service, happening);
                }
                // No receiver exists after the deadline.
                sender.send(done).ok();
            });
            if early {
                break;
            }
            let answered = match select(receiver, world.sleep(ACK_DEADLINE)).await {
                Either::Left((answer, _)) => answer.unwrap_or(false),
                Either::Right(_) => false,
            };
            if answered && !world.inner().occurs(Fault::AckLost) {
                break;
            }
        }
        let jitter = world.inner().random.between(0, wait / 2);
        world.sleep(wait + jitter).await;
        wait = (wait * 2).min(SLOWEST_RETRY);
    }
    world.inner().in_flight -= 1;
}
