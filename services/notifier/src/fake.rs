//! A sender that keeps notices in memory, for tests.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use crate::{
    notice::{Notice, OutgoingMessage},
    port::{Reply, Sender},
};

/// Keeps delivered notices. Accepts every delivery without a planned reply.
#[derive(Default)]
pub struct FakeSender {
    answers: Mutex<VecDeque<(bool, Reply)>>,
    taken: Mutex<Vec<Notice>>,
}

impl FakeSender {
    /// Plans the reply to the next delivery that has no planned reply yet. `taken`: whether the notice arrives, regardless of the reply.
    pub fn plan_reply(&self, taken: bool, reply: Reply) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push_back((taken, reply));
    }

    /// Notices that arrived, in order, with duplicates.
    pub fn received_notices(&self) -> Vec<Notice> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of arrivals of each notice, by id.
    pub fn counted(&self) -> BTreeMap<String, usize> {
        let mut counted = BTreeMap::new();
        for notice in self.received_notices() {
            *counted.entry(notice.id).or_default() += 1;
        }
        counted
    }
}

#[async_trait::async_trait]
impl Sender for FakeSender {
    async fn deliver(&self, notice: &Notice) -> Reply {
        let planned = self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let (arrives, reply) = planned.unwrap_or((true, Reply::Delivered));
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        // An existing check run is found, as on GitHub.
        let found = matches!(notice.letter, OutgoingMessage::Check(_))
            && taken.iter().any(|known| known.id == notice.id);
        if arrives && !found {
            taken.push(notice.clone());
        }
        reply
    }
}
