//! What goes wrong on demand.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use serde::Deserialize;

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wants {
    /// A whole object in one request.
    Insert,
    /// A resumable upload is begun.
    Start,
    /// A piece of a resumable upload.
    Chunk,
    /// How far a resumable upload is.
    Status,
    /// An object's metadata.
    Get,
    /// An object's bytes.
    Media,
    /// Names.
    List,
    /// An object is removed.
    Delete,
    /// Anything else.
    Other,
}

/// How it goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Answered with a status; nothing happens.
    Refuse(u16),
    /// It happens, and is answered with a status.
    FailAfter(u16),
    /// The connection ends; nothing happens.
    CutBefore,
    /// So many bytes of the body arrive, then the connection ends.
    CutWithin(usize),
    /// It happens, and the connection ends without an answer.
    CutAfter,
    /// Nothing happens and nobody answers.
    StallBefore,
    /// It happens and nobody answers.
    StallAfter,
    /// The request takes effect this many milliseconds later, without a response.
    Late(u64),
    /// Half of the answer's body, then the connection ends.
    HalfAnswer,
    /// Half of the answer's body, then nothing.
    HalfThenStall,
    /// A byte of the answered object is another one.
    Flip,
    /// The checksum in the answer is another one.
    WrongCrc,
}

/// One thing to go wrong, a number of times.
#[derive(Clone, Debug, Deserialize)]
pub struct Fault {
    /// Of requests that want this.
    pub on: Wants,
    /// How.
    pub kind: Kind,
    /// For how many requests.
    #[serde(default = "once")]
    pub times: u32,
    /// So many requests of this kind go well first.
    #[serde(default)]
    pub after: u32,
}

fn once() -> u32 {
    1
}

/// Faults that wait for their request.
#[derive(Debug, Default)]
pub struct Faults(Mutex<VecDeque<Fault>>);

impl Faults {
    /// One more.
    pub fn add(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(fault);
    }

    /// None any more; how many had not come to pass.
    pub fn clear(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).count()
    }

    /// What goes wrong with this request.
    pub fn take(&self, wants: Wants) -> Option<Kind> {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = faults.iter().position(|fault| fault.on == wants)?;
        let fault = &mut faults[at];
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        fault.times = fault.times.saturating_sub(1);
        let (kind, spent) = (fault.kind, fault.times == 0);
        if spent {
            faults.remove(at);
        }
        Some(kind)
    }
}
