//! Failures of requests and load jobs, one or at random.

use std::time::Duration;

use crate::WarehouseState;

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultTarget {
    /// Start of a job.
    Insert,
    /// Status of a job.
    Get,
    /// Request for a query's result.
    Query,
    /// Read of a table's schema.
    Table,
    /// A running load job; not a request.
    Job,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No effect; the response has this status.
    Refused(u16),
    /// The request takes effect; the response has this status.
    LandsAndAnswers(u16),
    /// No effect; the connection ends.
    Cut,
    /// The request takes effect; the response is truncated.
    LandsAndTears,
    /// The response is 503; the request takes effect later.
    Late(Duration),
    /// A load job ends with this reason and writes no row.
    Fails(&'static str),
    /// The first response of a query is incomplete.
    Slow,
}

pub struct RandomFaults {
    /// State of the generator: equal seeds produce equal faults.
    pub rng: fastrand::Rng,
    /// Share of failing requests, percent.
    pub percent: u8,
}

impl WarehouseState {
    /// Fault for the next request.
    pub(crate) fn fault(&mut self, on: FaultTarget) -> Option<Fault> {
        *self.requests.entry(on).or_default() += 1;
        if let Some(at) = self.faults.iter().position(|(wanted, _)| *wanted == on) {
            return Some(self.faults.remove(at).1);
        }
        let random_faults = self.random_faults.as_mut()?;
        let dice = &mut random_faults.rng;
        if dice.u8(0..100) >= random_faults.percent {
            return None;
        }
        Some(match (on, dice.u8(0..6)) {
            (FaultTarget::Job, 0..2) => Fault::Fails("backendError"),
            (FaultTarget::Job, 2..4) => Fault::Fails("rateLimitExceeded"),
            (FaultTarget::Job, _) => Fault::Fails("internalError"),
            (_, 0) => Fault::Refused(503),
            (_, 1) => Fault::Refused(429),
            (_, 2) => Fault::Cut,
            (_, 3) => Fault::LandsAndAnswers(503),
            (FaultTarget::Insert, 4) => Fault::Late(Duration::from_millis(dice.u64(1..60))),
            (_, _) => Fault::LandsAndTears,
        })
    }
}
