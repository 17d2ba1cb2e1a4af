//! Polls operations that take longer than one request.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use model::{CommandId, Fact, Span, Verb};
use tracing::{Instrument, warn};

use crate::{CommandError, PortError, Publisher};

/// Progress of an external operation.
#[derive(Debug)]
pub enum PollResult {
    Running,
    Ended(Fact),
}

/// Pollers in this process, at most one per command. Not needed if the external system sends notifications.
#[derive(Clone, Default)]
pub struct Pollers {
    watched: Arc<Mutex<BTreeSet<CommandId>>>,
}

impl Pollers {
    /// Polls at an interval until the operation has ended, then publishes its fact. Has no effect while a poller of
    /// this command is running. After a restart of the process, the next `observe` starts the poller again.
    pub fn poll<F>(
        &self,
        id: &CommandId,
        publisher: &Publisher,
        every: Span,
        mut poll: impl FnMut() -> F + Send + 'static,
    ) where
        F: Future<Output = Result<PollResult, PortError>> + Send,
    {
        // Start and observe share one poller.
        let id = id.with_verb(Verb::Start);
        let (publisher, watched) = (publisher.clone(), Arc::clone(&self.watched));
        let spawner = Arc::clone(publisher.spawner());
        if !watched.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone()) {
            return;
        }
        let watch = async move {
            loop {
                publisher.clock().sleep(every).await;
                // Boxed, so that a poller uses little memory between polls.
                let answered = match Box::pin(poll()).await {
                    Ok(PollResult::Running) => continue,
                    Ok(PollResult::Ended(fact)) => publisher.publish_result(&id, Ok(Some(fact))).await,
                    Err(error) => publisher.publish_result(&id, Err(error)).await,
                };
                match answered {
                    Ok(()) => break,
                    Err(CommandError::Transient(why) | CommandError::Permanent(why)) => {
                        warn!(command = %id, "poll failed, will be retried: {why}")
                    }
                }
            }
            watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        };
        spawner.spawn(Box::pin(watch.in_current_span()));
    }
}
