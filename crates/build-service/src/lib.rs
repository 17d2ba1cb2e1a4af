//! One build for each wish: a Cloud Build config, executed by Cloud Build or on this host.
//!
//! Whoever wants something built, an image or a cluster, asks for it under a [`Key`] as often as they like. There is one
//! build for each, whatever gets lost on the way, and what it left lies in the artefacts bucket when it is told.

#[cfg(feature = "gcp")]
pub mod cloud_build;
pub mod conformance;
pub mod fake;
mod files;
mod limit;
pub mod local;
#[cfg(feature = "gcp")]
pub mod place;
mod port;
mod redacted;

pub use local::LocalBuilds;
pub use port::{Build, Builds, Key};
