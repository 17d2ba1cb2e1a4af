//! Messages of the topic `cloud-builds`: each one triggers a poll of its deployment or teardown, see
//! [`notification`].

use std::sync::Arc;

use build_service::{
    BuildKey,
    cloud_build::{
        CloudBuilds,
        notification::{self, BuildNotification},
    },
};
use cluster_api::ClusterProvider;
use model::{Fact, Stage};
use service::{
    AttributesReader, CommandError, Disposition, Event, Handler, PollResult, PortError, Publisher,
    push::BUILD_CHANGED,
};

/// Handles notifications, and passes other events to the handler of commands.
pub struct NotificationHandler {
    builds: Arc<CloudBuilds>,
    clusters: Arc<dyn ClusterProvider>,
    publisher: Publisher,
    commands: Arc<dyn Handler>,
}

impl NotificationHandler {
    /// Event type of the notifications, as named by Google.
    pub const HANDLED_EVENT: &'static str = BUILD_CHANGED;

    /// `builds` run the steps of `clusters`; `commands`: handler of all other events; facts are published through `publisher`.
    pub fn new(
        builds: Arc<CloudBuilds>,
        clusters: Arc<dyn ClusterProvider>,
        publisher: Publisher,
        commands: Arc<dyn Handler>,
    ) -> Self {
        Self { builds, clusters, publisher, commands }
    }

    async fn poll(&self, notification: &BuildNotification) -> Result<(), CommandError> {
        let BuildNotification { key, build } = notification;
        let (command, name) = (key.command(), key.command().resource_name());
        let noted = self.builds.submissions().on_notification(key, build).await;
        let seen = match noted {
            Err(error) => Err(error),
            Ok(()) if key.is_whole() => self.clusters.poll(&name).await.map(crate::poll_result),
            // A teardown has builds only after it was requested, so this call continues a requested teardown.
            Ok(()) => match self.clusters.delete(&name).await {
                Ok(deleted) => Ok(PollResult::Ended(Fact::ClusterDeleted(deleted))),
                Err(PortError::Transient(_)) => Ok(PollResult::Running),
                Err(error) => Err(error),
            },
        };
        match seen {
            Ok(PollResult::Ended(fact)) => Ok(self.publisher.publish_fact(command, fact).await?),
            Ok(PollResult::Running) => Ok(()),
            Err(PortError::Transient(why)) => Err(CommandError::Transient(why)),
            Err(PortError::Permanent(failure)) => Err(CommandError::Transient(failure.message)),
        }
    }
}

#[async_trait::async_trait]
impl Handler for NotificationHandler {
    async fn handle(&self, event: &Event) -> Disposition {
        if event.ty() != Self::HANDLED_EVENT {
            return self.commands.handle(event).await;
        }
        // The teardown of kept parts does not have the name of a cluster in a command, so the sweeper polls it.
        let is_own = |key: &BuildKey| {
            key.command().stage == Stage::Cluster && (key.is_whole() || key.to_string().contains(".destroy-"))
        };
        notification::handle(event, is_own, async |notification| self.poll(&notification).await).await
    }
}
