//! What the builder needs of the outside world.

use kit::PortError;
use terms::{BuildSpec, CommandId, Failure, Image, Span};

/// Where a build stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Build {
    /// Queued or at work.
    Going,
    /// It left this image, which is safe in the bucket or the registry.
    Built(Image),
    /// It left none.
    Failed(Failure),
}

/// Somewhere builds run. A build is named by run, stage and attempt of a command; the verb does not matter.
#[async_trait::async_trait]
pub trait Builds: Send + Sync + 'static {
    /// Starts the build unless it was started before, and says what it is called.
    ///
    /// # Errors
    /// [`PortError::Final`] when it can never be started.
    async fn start(&self, id: &CommandId, build: &BuildSpec, timeout: Span) -> Result<String, PortError>;

    /// Where the build stands; none when it is not known.
    ///
    /// # Errors
    /// When the outside world does not answer.
    async fn look(&self, id: &CommandId) -> Result<Option<Build>, PortError>;

    /// Asks the build to end. One that was not started yet must not start afterwards, and is found as cancelled.
    ///
    /// # Errors
    /// When the outside world does not answer.
    async fn cancel(&self, id: &CommandId) -> Result<(), PortError>;
}
