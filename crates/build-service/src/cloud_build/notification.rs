//! Messages of the topic `cloud-builds`: status changes of the project's builds.
//!
//! Messages arrive late, repeatedly and in any order, for all builds of the project, and any publisher of the
//! topic can forge them. Therefore a message only triggers a poll, and the poll's result is authoritative. A
//! message also names a build that the list may not contain yet.

use google_cloud_build_v1::model;
use serde_json::Value;
use service::{AttributesReader, CommandError, Disposition, Event};
use tracing::debug;

use super::tags;
use crate::BuildKey;

/// A build that a command of Burnin started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildNotification {
    /// Command that the build belongs to, by the build's tags.
    pub key: BuildKey,
    /// Cloud Build's id of the build.
    pub build: String,
}

/// Reads a notification; `None` for a build that Burnin did not create.
///
/// # Errors
/// Returns an error that describes the problem if the message is invalid.
pub fn read(event: &Event) -> Result<Option<BuildNotification>, String> {
    let data = event.data().cloned().ok_or("the notification has no build")?;
    let data: Value = data.try_into().map_err(|error| format!("the notification is not JSON: {error}"))?;
    let build: model::Build = serde_json::from_value(data)
        .map_err(|error| format!("the notification has no valid build: {error}"))?;
    if build.id.is_empty() {
        return Err("the notification's build has no id".to_owned());
    }
    Ok(tags::owner(&build).map(|(key, _)| BuildNotification { key, build: build.id }))
}

/// Handles a build notification: `is_own` selects the builds of this service; `poll` polls the build and publishes its state.
pub async fn handle(
    event: &Event,
    is_own: impl Fn(&BuildKey) -> bool,
    poll: impl AsyncFnOnce(BuildNotification) -> Result<(), CommandError>,
) -> Disposition {
    match read(event) {
        Err(why) => Disposition::Park(why),
        Ok(Some(notification)) if is_own(&notification.key) => match poll(notification).await {
            Ok(()) => Disposition::Done,
            Err(CommandError::Transient(why)) => Disposition::Retry(why),
            Err(CommandError::Permanent(why)) => Disposition::Park(why),
        },
        Ok(_) => {
            debug!(event.id = event.id(), "not a build of this service");
            Disposition::Done
        }
    }
}
