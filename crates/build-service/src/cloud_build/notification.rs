//! What the topic `cloud-builds` tells: that a build of the project is in another status than before.
//!
//! Messages come late, twice and in any order, for builds of everybody in the project, and whoever may publish to the
//! topic may claim what they like. So one is only a reason to look: what is told of a build is what a look shows. It has
//! one other use. It names a build that the list may not show yet.

use google_cloud_build_v1::model;
use serde_json::Value;
use service::Event;

use super::tags;
use crate::Key;

/// A build that somebody wished for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whose.
    pub key: Key,
    /// The build's id.
    pub build: String,
}

/// Reads a notification; none when the build is nobody's wish.
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
    Ok(tags::owner(&build).map(|(key, _)| Told { key, build: build.id }))
}
