//! Messages of the topic `cloud-builds`: each one triggers a poll of its build, see [`notification`].

use std::sync::Arc;

use build_service::{
    BuildKey, Builds,
    cloud_build::{
        CloudBuilds,
        notification::{self, BuildNotification},
    },
};
use model::Stage;
use service::{
    AttributesReader, CommandError, Disposition, Event, Handler, PollResult, PortError, Publisher,
    push::BUILD_CHANGED,
};

/// Handles notifications, and passes other events to the handler of commands.
pub struct NotificationHandler {
    builds: Arc<CloudBuilds>,
    publisher: Publisher,
    commands: Arc<dyn Handler>,
}

impl NotificationHandler {
    /// Event type of the notifications, as named by Google.
    pub const HANDLED_EVENT: &'static str = BUILD_CHANGED;

    /// `commands`: handler of all other events; facts are published through `publisher`.
    pub fn new(builds: Arc<CloudBuilds>, publisher: Publisher, commands: Arc<dyn Handler>) -> Self {
        Self { builds, publisher, commands }
    }

    async fn poll(&self, notification: &BuildNotification) -> Result<(), CommandError> {
        let BuildNotification { key, build } = notification;
        let command = key.command();
        let seen = async {
            self.builds.submissions().on_notification(key, build).await?;
            self.builds.poll(key).await
        };
        match seen.await.map(|seen| seen.map(crate::poll_result)) {
            Ok(Some(PollResult::Ended(fact))) => Ok(self.publisher.publish_fact(command, fact).await?),
            Ok(_) => Ok(()),
            Err(error @ PortError::Permanent(_)) => self.publisher.publish_result(command, Err(error)).await,
            Err(PortError::Transient(why)) => Err(CommandError::Transient(why)),
        }
    }
}

#[async_trait::async_trait]
impl Handler for NotificationHandler {
    async fn handle(&self, event: &Event) -> Disposition {
        if event.ty() != Self::HANDLED_EVENT {
            return self.commands.handle(event).await;
        }
        let is_own = |key: &BuildKey| key.is_whole() && key.command().stage == Stage::Image;
        notification::handle(event, is_own, async |notification| self.poll(&notification).await).await
    }
}
