//! Failures of requests, for clients to handle.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageRequest {
    /// A whole object in one request.
    Insert,
    /// Start of a resumable upload.
    Start,
    /// Chunk of a resumable upload.
    Chunk,
    /// Query of a resumable upload's progress.
    Status,
    /// Read of metadata.
    Get,
    /// Read of content.
    Media,
    /// List of object names.
    List,
    Delete,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Response with this status; no effect.
    Refuse(u16),
    /// The request takes effect; response with this status.
    FailAfter(u16),
    /// The connection ends; no effect.
    CutBefore,
    /// The connection ends after this many bytes of the request's body.
    CutWithin(usize),
    /// The request takes effect; the connection ends without a response.
    CutAfter,
    /// No effect and no response.
    StallBefore,
    /// The request takes effect; no response.
    StallAfter,
    /// The request takes effect this many milliseconds later, without a response.
    Late(u64),
    /// The connection ends after half of the response's body.
    HalfAnswer,
    /// The response stalls after half of its body.
    HalfThenStall,
    /// One byte of the returned content is changed.
    Flip,
    /// The returned checksum is changed.
    WrongCrc,
}

/// A fault and the requests it applies to.
#[derive(Clone, Debug, Deserialize)]
pub struct Fault {
    /// Kind of the requests.
    pub on: StorageRequest,
    /// Effect on a matching request.
    pub kind: FaultKind,
    /// Number of requests with this fault.
    #[serde(default = "once")]
    pub times: u32,
    /// Number of requests of this kind that succeed first.
    #[serde(default)]
    pub after: u32,
}

fn once() -> u32 {
    1
}

#[derive(Debug, Default)]
pub struct PendingFaults(Mutex<VecDeque<Fault>>);

impl PendingFaults {
    /// Queues a fault for the next matching request.
    pub fn add(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(fault);
    }

    /// Removes all faults; returns the number of unused faults.
    pub fn clear(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).count()
    }

    /// Effect of the first fault for this kind of request, if the fault is due. Counts the request.
    pub fn take(&self, wants: StorageRequest) -> Option<FaultKind> {
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
