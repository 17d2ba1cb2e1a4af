//! Effects of a process on its world. Every await point of a handler that is not a lock is a [`Effects::call`].

use std::sync::Arc;

use model::{Span, Timestamp};
use service::{Clock, Spawn, spawn::Work};

use crate::{
    Fault,
    process::{CrashPhase, SimService},
    world::{START, SimWorld, WorldState},
};

/// Target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// A read of the bucket.
    Read,
    /// A write to the bucket.
    Write,
    /// Publication of an event.
    Bus,
    /// A provider: builds, clusters, jobs, warehouse.
    Provider,
}

pub enum EffectResult<T> {
    /// The call had its effect, with this result.
    Done(T),
    /// The call had its effect, but reports a failure.
    Lost(T),
    /// The call had no effect.
    Refused,
}

/// Effect port of one process.
#[derive(Clone)]
pub struct Effects {
    /// World that the calls affect.
    pub world: Arc<SimWorld>,
    /// Process that performs the calls.
    pub service: SimService,
}

impl Effects {
    /// Performs a call, with possible faults before, during or after it.
    pub async fn call<T>(
        &self,
        kind: EffectKind,
        what: impl Fn() -> String,
        effect: impl FnOnce(&mut WorldState) -> T,
    ) -> EffectResult<T> {
        let wait = {
            let inner = &mut *self.world.inner();
            let condition = inner.conditions.get(&self.service).copied().unwrap_or_default();
            let latency = match kind {
                EffectKind::Read => inner.random.between(0, 5),
                EffectKind::Write | EffectKind::Bus => inner.random.between(1, 40),
                EffectKind::Provider => inner.random.between(5, 400),
            };
            let silence = if inner.now < inner.heals_at { condition.silent_until - inner.now } else { 0 };
            let out = condition.out_until - inner.now;
            latency * condition.slowness.max(1) + silence.max(out).max(0)
        };
        self.world.sleep(wait).await;
        let done = {
            let inner = &mut *self.world.inner();
            let can_fail = self.service != SimService::Outside;
            inner.calls += u64::from(can_fail);
            let call = inner.calls;
            if can_fail && kind != EffectKind::Read && inner.heals_at == START && inner.busy.is_none() {
                inner.effects.push(call); // used only by enumerations of crashes, which have no other faults
            }
            let dies = |inner: &mut WorldState, phase, fault| {
                can_fail && (inner.crash_at.contains(&(call, phase)) || inner.occurs(fault))
            };
            if dies(inner, CrashPhase::Before, Fault::CrashBefore) {
                inner.trace(self.service, || format!("before: {}", what()));
                inner.kill(self.service);
                None
            } else if refuses(kind).is_some_and(|fault| inner.occurs(fault)) {
                inner.trace(self.service, || format!("{} -> refused", what()));
                return EffectResult::Refused;
            } else {
                inner.trace(self.service, &what);
                let value = effect(inner);
                let crashes = dies(inner, CrashPhase::After, Fault::CrashAfter);
                if crashes {
                    inner.kill(self.service);
                }
                (!crashes).then_some(value)
            }
        };
        let Some(value) = done else { return std::future::pending().await };
        let lost_response = {
            let inner = &mut *self.world.inner();
            let lost_response = lost_response(kind).is_some_and(|fault| inner.occurs(fault));
            if lost_response {
                inner.trace(self.service, || format!("{} -> its response is lost", what()));
            }
            lost_response
        };
        if kind != EffectKind::Read {
            let back = self.world.inner().random.between(0, 20);
            self.world.sleep(back).await;
        }
        if lost_response { EffectResult::Lost(value) } else { EffectResult::Done(value) }
    }
}

const fn refuses(kind: EffectKind) -> Option<Fault> {
    Some(match kind {
        EffectKind::Read | EffectKind::Write => Fault::StoreRefuses,
        EffectKind::Bus => Fault::BusRefuses,
        EffectKind::Provider => Fault::ProviderRefuses,
    })
}

const fn lost_response(kind: EffectKind) -> Option<Fault> {
    match kind {
        EffectKind::Read => None,
        EffectKind::Write => Some(Fault::StoreLies),
        EffectKind::Bus => Some(Fault::BusLies),
        EffectKind::Provider => Some(Fault::ProviderLies),
    }
}

/// Clock of a process: the true time with an offset.
#[async_trait::async_trait]
impl Clock for Effects {
    fn now(&self) -> Timestamp {
        let inner = self.world.inner();
        let skew = inner.conditions.get(&self.service).map_or(0, |condition| condition.skew);
        Timestamp::from_millis(inner.now + skew)
    }

    async fn sleep(&self, span: Span) {
        self.world.sleep(i64::try_from(span.0.as_millis()).unwrap_or(i64::MAX)).await;
    }
}

impl Spawn for Effects {
    fn spawn(&self, work: Work) {
        self.world.spawn(self.service, work);
    }
}
