//! One build per key: a Cloud Build config, executed by Cloud Build or on this host.
//!
//! A caller requests a build, of an image or a cluster, under a [`BuildKey`], any number of times. Each key has
//! one build, despite lost responses, and its results are in the artefacts bucket when its end is reported.

#![deny(missing_docs)]

#[cfg(feature = "gcp")]
pub mod cloud_build;
pub mod conformance;
pub mod fake;
mod files;
mod limit;
pub mod local;
#[cfg(feature = "gcp")]
pub mod location;
mod port;
mod redacted;

pub use local::LocalBuilds;
pub use port::{BuildKey, BuildPhase, Builds};
