//! Watching what takes longer than a request may.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use model::{CommandId, Fact, Span, Verb};
use tracing::{Instrument, warn};

use crate::{Outbox, PortError, Trouble};

/// What a look at the outside world showed.
#[derive(Debug)]
pub enum Look {
    /// It goes on.
    Going,
    /// This is how it ended.
    Ended(Fact),
}

/// Watches under way in this process, one for each command. Where the outside world notifies, none are needed.
#[derive(Clone, Default)]
pub struct Watches {
    watched: Arc<Mutex<BTreeSet<CommandId>>>,
}

impl Watches {
    /// Looks every so often until the thing has ended, and tells it. A watch that is under way already is not doubled;
    /// one that dies with its process is begun anew by the next `observe`.
    pub fn follow<F>(
        &self,
        id: &CommandId,
        outbox: &Outbox,
        every: Span,
        mut look: impl FnMut() -> F + Send + 'static,
    ) where
        F: Future<Output = Result<Look, PortError>> + Send,
    {
        // Whoever asked, start or observe, it is one thing that is watched.
        let id = id.with_verb(Verb::Start);
        let (outbox, watched) = (outbox.clone(), Arc::clone(&self.watched));
        let spawner = Arc::clone(outbox.spawner());
        if !watched.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone()) {
            return;
        }
        let watch = async move {
            loop {
                outbox.clock().sleep(every).await;
                // In a box of its own: between looks, which is nearly always, the watch is small.
                let told = match Box::pin(look()).await {
                    Ok(Look::Going) => continue,
                    Ok(Look::Ended(fact)) => outbox.answer(&id, Ok(Some(fact))).await,
                    Err(error) => outbox.answer(&id, Err(error)).await,
                };
                match told {
                    Ok(()) => break,
                    Err(Trouble::Retry(why) | Trouble::Park(why)) => {
                        warn!(command = %id, "will be looked at again: {why}")
                    }
                }
            }
            watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        };
        spawner.spawn(Box::pin(watch.in_current_span()));
    }
}
