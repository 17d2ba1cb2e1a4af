//! What the notifier needs of the outside world.

use model::Span;

use crate::notice::Notice;

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is there.
    Delivered,
    /// It may get there later; what is said of it holds no secret.
    Later {
        /// Why it is not there, as far as is known.
        why: String,
        /// How long to wait at least, where somebody said so.
        after: Option<Span>,
    },
    /// It never will.
    Never {
        /// Why.
        why: String,
    },
}

impl Reply {
    /// It may get there later.
    pub fn later(why: impl Into<String>) -> Self {
        Self::Later { why: why.into(), after: None }
    }

    /// It never will.
    pub fn never(why: impl Into<String>) -> Self {
        Self::Never { why: why.into() }
    }
}

/// Brings notices to people and programs. One that is brought twice bears the same id both times, and where the other side
/// can tell, it is there once.
#[async_trait::async_trait]
pub trait Courier: Send + Sync + 'static {
    /// Tries once, within half a minute.
    async fn deliver(&self, notice: &Notice) -> Reply;

    /// Missing address, key or token of a receiver, and where to put it.
    fn lacks(&self, _notice: &Notice) -> Option<String> {
        None
    }
}
