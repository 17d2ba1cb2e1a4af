//! The notifier's port to receivers.

use model::Span;

use crate::notice::Notice;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The receiver accepted the notice.
    Delivered,
    /// Transient error; retry later.
    Transient {
        /// Reason of the failure; contains no secret.
        why: String,
        /// Minimum delay requested by the receiver.
        after: Option<Span>,
    },
    Permanent {
        /// Reason; contains no secret.
        why: String,
    },
}

impl Reply {
    pub fn transient(why: impl Into<String>) -> Self {
        Self::Transient { why: why.into(), after: None }
    }

    pub fn permanent(why: impl Into<String>) -> Self {
        Self::Permanent { why: why.into() }
    }
}

/// Delivers notices. Repeated deliveries carry the same id, so a receiver that checks the id receives the notice once.
#[async_trait::async_trait]
pub trait Sender: Send + Sync + 'static {
    /// Makes one attempt, within 30 s.
    async fn deliver(&self, notice: &Notice) -> Reply;

    /// Missing address, key or token of a receiver, with the variable or file to set.
    fn missing_setting(&self, _notice: &Notice) -> Option<String> {
        None
    }
}
