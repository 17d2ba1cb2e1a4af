//! The ports of a kind of cluster. One crate implements each kind; `clusters` lists them.
//!
//! | part | responsibility |
//! |---|---|
//! | [`Settings`] | the settings in workflow files: schema, rules, number of nodes and ranks |
//! | [`ClusterKind`] | the settings of one kind, the probe of an existing cluster, and its scheduler |
//! | [`Scheduler`] | submits, polls and cancels jobs, reads their output, drains nodes |
//! | [`ClusterProvider`] | creates and deletes clusters |
//!
//! [`scheduler_conformance`] and [`provider_conformance`] check every adapter.

#![deny(missing_docs)]

pub mod evidence;
pub mod fake_provider;
pub mod fake_scheduler;
mod kind;
mod layout;
pub mod output_folder;
pub mod pairs;
mod poll_pace;
pub mod program;
pub mod provider;
pub mod provider_conformance;
pub mod rank_environment;
pub mod scheduler;
pub mod scheduler_conformance;
pub mod settings;
pub mod shell;
mod stage;
mod unwritable;

pub use kind::{ClusterKind, SettingsForm};
pub use layout::{ClusterLayout, Substitution};
pub use poll_pace::PollPace;
pub use provider::{ClusterListing, ClusterProvider, ClusterStatus, LeaseRequest, ListedCluster};
pub use scheduler::{FileTail, JobSpec, JobStatus, Outputs, Scheduler, SubmittedText, WrittenFile};
pub use settings::{FileReader, Settings, SettingsProblems};
pub use stage::stage;
pub use unwritable::unwritable;
