//! What goes wrong.

use std::time::Duration;

use crate::Inner;

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum On {
    /// A job is to begin.
    Insert,
    /// How a job is.
    Get,
    /// A statement is to be executed.
    Query,
    /// A table's schema.
    Table,
    /// Not a request: a load job, while it runs.
    Job,
}

/// What goes wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and the answer is this status.
    Refused(u16),
    /// It happens, and the answer is this status.
    LandsAndAnswers(u16),
    /// Nothing happens, and the connection ends.
    Cut,
    /// It happens, and the connection ends within the answer.
    LandsAndTears,
    /// It happens so much later; the answer is 503 at once.
    Late(Duration),
    /// Of a load job: it ends with this reason, and writes nothing.
    Fails(&'static str),
    /// Of a query: it is not complete when it is first answered.
    Slow,
}

/// Chance.
pub struct Storm {
    /// Whose chance: the same seed throws the same dice.
    pub dice: fastrand::Rng,
    /// How much of everything goes wrong, in percent.
    pub percent: u8,
}

impl Inner {
    /// What goes wrong with this one.
    pub(crate) fn fault(&mut self, on: On) -> Option<Fault> {
        *self.asked.entry(on).or_default() += 1;
        if let Some(at) = self.faults.iter().position(|(wanted, _)| *wanted == on) {
            return Some(self.faults.remove(at).1);
        }
        let storm = self.storm.as_mut()?;
        let dice = &mut storm.dice;
        if dice.u8(0..100) >= storm.percent {
            return None;
        }
        Some(match (on, dice.u8(0..6)) {
            (On::Job, 0..2) => Fault::Fails("backendError"),
            (On::Job, 2..4) => Fault::Fails("rateLimitExceeded"),
            (On::Job, _) => Fault::Fails("internalError"),
            (_, 0) => Fault::Refused(503),
            (_, 1) => Fault::Refused(429),
            (_, 2) => Fault::Cut,
            (_, 3) => Fault::LandsAndAnswers(503),
            (On::Insert, 4) => Fault::Late(Duration::from_millis(dice.u64(1..60))),
            (_, _) => Fault::LandsAndTears,
        })
    }
}
