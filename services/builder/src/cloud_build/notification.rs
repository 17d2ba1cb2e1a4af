//! What the topic `cloud-builds` tells: that a build of the project is in another status than before.
//!
//! Messages come late, twice and in any order, for builds of everybody in the project, and whoever may publish to the
//! topic may claim what they like. So one is only a reason to look: what is told of a build is what a look shows. It has
//! one other use. It names a build that the list may not show yet.

use std::sync::Arc;

use google_cloud_build_v1::model;
use kit::{
    AttributesReader, Disposition, Event, Handler, Look, Outbox, PortError, Trouble, push::BUILD_CHANGED,
};
use serde_json::Value;
use terms::{CommandId, Stage, Verb};
use tracing::debug;

use super::{CloudBuilds, tags};
use crate::port::Builds;

/// A build that somebody's command is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The command, as if it began something.
    pub command: CommandId,
    /// The build's id.
    pub build: String,
}

/// Reads a notification; none when the build is nobody's command.
///
/// # Errors
/// What is wrong with the message.
pub fn read(event: &Event) -> Result<Option<Told>, String> {
    let data = event.data().cloned().ok_or("a notification without a build")?;
    let data: Value = data.try_into().map_err(|error| format!("a notification that is no JSON: {error}"))?;
    let build: model::Build =
        serde_json::from_value(data).map_err(|error| format!("a notification of no build: {error}"))?;
    if build.id.is_empty() {
        return Err("a notification of a build without an id".to_owned());
    }
    Ok(tags::owner(&build)
        .map(|(command, _)| Told { command: command.with_verb(Verb::Start), build: build.id }))
}

/// Takes notifications, and leaves everything else to the handler of commands.
pub struct Notified {
    builds: Arc<CloudBuilds>,
    outbox: Outbox,
    commands: Arc<dyn Handler>,
}

impl Notified {
    /// The event type it takes itself, as Google calls it.
    pub const TAKES: &'static str = BUILD_CHANGED;

    /// Before this handler, telling through this outbox.
    pub fn new(builds: Arc<CloudBuilds>, outbox: Outbox, commands: Arc<dyn Handler>) -> Self {
        Self { builds, outbox, commands }
    }

    async fn look(&self, told: &Told) -> Result<(), Trouble> {
        let Told { command, build } = told;
        let seen = async {
            self.builds.submissions().told_of(command, build).await?;
            self.builds.look(command).await
        };
        match seen.await.map(|seen| seen.map(crate::ended)) {
            Ok(Some(Look::Ended(fact))) => Ok(self.outbox.tell(command, fact).await?),
            Ok(_) => Ok(()),
            Err(error @ PortError::Final(_)) => self.outbox.answer(command, Err(error)).await,
            Err(PortError::Passing(why)) => Err(Trouble::Retry(why)),
        }
    }
}

#[async_trait::async_trait]
impl Handler for Notified {
    async fn handle(&self, event: &Event) -> Disposition {
        if event.ty() != Self::TAKES {
            return self.commands.handle(event).await;
        }
        match read(event) {
            Err(why) => Disposition::Park(why),
            Ok(Some(told)) if told.command.stage == Stage::Image => match self.look(&told).await {
                Ok(()) => Disposition::Done,
                Err(Trouble::Retry(why)) => Disposition::Retry(why),
                Err(Trouble::Park(why)) => Disposition::Park(why),
            },
            Ok(_) => {
                debug!(event.id = event.id(), "a build that is not the builder's");
                Disposition::Done
            }
        }
    }
}
