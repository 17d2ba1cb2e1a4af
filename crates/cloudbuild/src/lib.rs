//! Cloud Build configs, and a local runner for them.
//!
//! The local runner executes the same file as Cloud Build, step by step, so that the production steps
//! themselves are tested. Three layers, each usable without the next:
//!
//! 1. [`BuildConfig`] is the parsed file: Cloud Build's own names, unknown fields rejected.
//! 2. [`plan::check`] is pure. It applies substitutions, orders the steps and reports *all* problems together,
//!    each as a [`BuildProblem`] with the path of the field.
//! 3. [`local::run`] executes a [`Plan`] with real processes and returns a [`PlanOutcome`].
//!
//! # Limits of the local runner
//!
//! Steps run without containers. A step's image is mapped to a tool on the `PATH` (see [`image`]); nothing is
//! pulled or pushed: `images` are listed and artefacts are measured, for the caller to store. `/workspace` is
//! a folder of the host, so portable steps use relative paths; the path `/workspace` itself is only supported
//! in `dir`.

pub mod config;
pub mod image;
pub mod local;
pub mod plan;
mod problem;
mod secret;
mod status;
pub mod substitution;

pub use config::BuildConfig;
pub use local::{Artifact, BuildEvent, PlanOutcome, PlanRequest, StepOutcome};
pub use plan::{Inputs, Plan};
pub use problem::BuildProblem;
pub use secret::Secret;
pub use status::BuildStatus;
