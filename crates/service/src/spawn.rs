//! All background concurrency: work that continues after its request was answered.

use std::pin::Pin;

/// A finite unit of work.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts background work. Work that is running when the process ends is lost.
pub trait Spawn: Send + Sync + 'static {
    /// Starts `work` concurrently.
    fn spawn(&self, work: Work);
}

/// The current Tokio runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runtime;

impl Spawn for Runtime {
    fn spawn(&self, work: Work) {
        tokio::spawn(work);
    }
}
