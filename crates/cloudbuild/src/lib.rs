//! Cloud Build configs, and a runner that executes them on this host.
//!
//! The file that Cloud Build executes in the cloud is executed here step by step, so that the steps that
//! provision for real are the steps that are tested. Three layers, each usable without the next:
//!
//! 1. [`Config`] is the file as it is written: Cloud Build's own names, unknown fields refused.
//! 2. [`plan::check`] is pure. It applies substitutions, orders the steps and reports *every* problem at once,
//!    each as a [`Problem`] with the path of the field.
//! 3. [`local::run`] executes a [`Plan`] with real processes and answers with an [`Outcome`].
//!
//! # What the local runner does not do
//!
//! There are no containers. A step's image is mapped to a tool on the `PATH` (see [`image`]), nothing is pulled
//! and nothing is pushed: `images` are listed and artefacts are measured, for the caller to store. `/workspace` is
//! a folder of the host, so a step must use relative paths to stay portable; the path `/workspace` itself does not
//! exist here, except in `dir`.

pub mod config;
pub mod image;
pub mod local;
pub mod plan;
mod problem;
mod secret;
mod status;
pub mod substitution;

pub use config::Config;
pub use local::{Artifact, Event, Outcome, Request, StepOutcome};
pub use plan::{Inputs, Plan};
pub use problem::Problem;
pub use secret::Secret;
pub use status::Status;
