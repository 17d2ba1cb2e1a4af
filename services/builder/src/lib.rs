//! The builder: builds images through [`Builds`], which runs Cloud Build configs.
//!
//! | command | fact |
//! |---|---|
//! | `image.build` | `image.accepted`, then `image.built` or `image.failed` |
//! | `image.observe` | the same, for the current state; no fact while the build runs |
//! | `image.cancel` | `image.failed` with `CANCELLED`, or the earlier end state |
//!
//! Idempotent by name: a build is named after its command, and a second start under that name finds the first.

#[cfg(feature = "gcp")]
pub mod notification;

use std::sync::Arc;

use build_service::{BuildKey, BuildPhase, Builds};

use model::{Body, BuildSpec, Class, Command, CommandId, Fact, Failure, Handle, Span, failpoint_is_active};
use service::{CommandError, PollResult, Pollers, PortError, Publisher, Worker};

/// The builder's handler, over any [`Builds`].
pub struct Builder {
    builds: Arc<dyn Builds>,
    pollers: Pollers,
    /// Poll interval of a build; if builds send notifications, polls only compensate for lost notifications.
    every: Span,
}

impl Builder {
    /// Event types that the builder handles.
    pub const HANDLED_EVENTS: [&'static str; 3] =
        ["dev.burnin.image.build.v1", "dev.burnin.image.observe.v1", "dev.burnin.image.cancel.v1"];

    /// `every`: poll interval of running builds.
    pub fn new(builds: Arc<dyn Builds>, every: Span) -> Self {
        Self { builds, pollers: Pollers::default(), every }
    }

    async fn build(
        &self,
        id: &CommandId,
        build: &BuildSpec,
        timeout: Span,
        publisher: &Publisher,
    ) -> Result<(), CommandError> {
        if let PollResult::Ended(fact) = self.poll(id, publisher).await? {
            return Ok(publisher.publish_fact(id, fact).await?);
        }
        match self.builds.start(&BuildKey::of(id), build, timeout).await {
            Ok(handle) => publisher.publish_fact(id, Fact::ImageAccepted(Handle { handle })).await?,
            Err(error) => return publisher.publish_result(id, Err(error)).await,
        }
        self.start_polling(id, publisher);
        Ok(())
    }

    async fn observe(
        &self,
        id: &CommandId,
        accepted: bool,
        publisher: &Publisher,
    ) -> Result<(), CommandError> {
        match self.present(id, accepted).await {
            Ok(None) => {
                let why = "the build is unknown: it was never started, or its record has expired";
                let failure = Failure::new(Class::Infrastructure, "ABSENT", why);
                Ok(publisher.publish_fact(id, Fact::ImageFailed(failure)).await?)
            }
            Ok(Some(build)) => match poll_result(build) {
                PollResult::Ended(fact) => Ok(publisher.publish_fact(id, fact).await?),
                PollResult::Running => {
                    self.start_polling(id, publisher);
                    Ok(())
                }
            },
            Err(error) => publisher.publish_result(id, Err(error)).await,
        }
    }

    /// State of a build. An absent build must stay absent: its start may still be in flight, and the build would have no owner. So an
    /// absent build is cancelled and polled again. A cancelled build that was never accepted is reported as absent, so that repeated polls
    /// return the same result.
    async fn present(&self, id: &CommandId, accepted: bool) -> Result<Option<BuildPhase>, PortError> {
        let key = BuildKey::of(id);
        let mut build = self.builds.poll(&key).await?;
        let absent = build.is_none();
        if absent && !failpoint_is_active("absent_may_still_come") {
            self.builds.cancel(&key).await?;
            build = self.builds.poll(&key).await?;
        }
        let cancelled =
            |build: &BuildPhase| matches!(build, BuildPhase::Failed(why) if why.class == Class::Cancelled);
        Ok(build.filter(|build| !((absent || !accepted) && cancelled(build))))
    }

    async fn poll(&self, id: &CommandId, publisher: &Publisher) -> Result<PollResult, CommandError> {
        match self.builds.poll(&BuildKey::of(id)).await {
            Ok(Some(build)) => Ok(poll_result(build)),
            Ok(None) => Ok(PollResult::Running),
            Err(PortError::Transient(why)) => Err(CommandError::Transient(why)),
            Err(error) => publisher.publish_result(id, Err(error)).await.map(|()| PollResult::Running),
        }
    }

    fn start_polling(&self, id: &CommandId, publisher: &Publisher) {
        let (builds, key) = (Arc::clone(&self.builds), BuildKey::of(id));
        self.pollers.poll(id, publisher, self.every, move || {
            let (builds, key) = (Arc::clone(&builds), key.clone());
            async move { Ok(builds.poll(&key).await?.map_or(PollResult::Running, poll_result)) }
        });
    }
}

fn poll_result(build: BuildPhase) -> PollResult {
    match build {
        BuildPhase::Running => PollResult::Running,
        BuildPhase::Built(image) => PollResult::Ended(Fact::ImageBuilt(image)),
        BuildPhase::Failed(failure) => PollResult::Ended(Fact::ImageFailed(failure)),
    }
}

#[async_trait::async_trait]
impl Worker for Builder {
    fn name(&self) -> &'static str {
        "builder"
    }

    async fn perform(&self, command: &Command, publisher: &Publisher) -> Result<(), CommandError> {
        let id = &command.id;
        match &command.body {
            Body::ImageBuild { build, timeout } => self.build(id, build, *timeout, publisher).await,
            Body::ImageObserve { handle } => self.observe(id, handle.is_some(), publisher).await,
            Body::ImageCancel { .. } => {
                if let Err(error) = self.builds.cancel(&BuildKey::of(id)).await {
                    return publisher.publish_result(id, Err(error)).await;
                }
                self.start_polling(id, publisher);
                Ok(())
            }
            _ => Err(CommandError::Permanent("the builder handles only the image stage".to_owned())),
        }
    }
}
