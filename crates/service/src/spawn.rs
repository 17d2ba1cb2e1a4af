//! The one door to concurrency: work that goes on after its request was answered.

use std::pin::Pin;

/// Work that ends by itself.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Somewhere work goes on. It ends with its process.
pub trait Spawn: Send + Sync + 'static {
    /// Begins `work`, beside whoever called.
    fn spawn(&self, work: Work);
}

/// The runtime this is called in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runtime;

impl Spawn for Runtime {
    fn spawn(&self, work: Work) {
        tokio::spawn(work);
    }
}
