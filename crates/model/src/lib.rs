//! Domain types. Every other crate depends on this one; it depends on no other Burnin crate.
//!
//! | word | meaning |
//! |---|---|
//! | [`Workflow`] | definition of a run: an image, a cluster, a benchmark, limits |
//! | run, [`RunId`] | one execution of a workflow, from a trigger to a [`Conclusion`] |
//! | [`Stage`], [`Attempt`] | a step of a run, and its attempt number, starting at 1 |
//! | [`Fact`] | past event of a run; published by the component that observed it |
//! | [`Command`] | requested operation; sent by the conductor |
//! | [`Record`] | an accepted fact, or a decision of the conductor, with its sequence number in the ledger |
//! | [`Verdict`] | judgement of the cluster by its measurements; independent of how the run ended |

#![deny(missing_docs)]

mod bytes;
mod cluster;
mod command;
mod conclusion;
mod count;
mod criteria;
mod fact;
mod failpoint;
mod failure;
mod ids;
mod image;
mod locate;
pub mod measurement;
pub mod metric;
mod money;
mod node_evidence;
mod notify;
mod program;
mod record;
mod retest;
mod soak;
mod split_mix;
mod system;
mod time;
mod verdict;
mod workflow;
mod workload;

pub use bytes::ByteSize;
pub use cluster::{Cluster, Node};
pub use command::{Body, Command, JobRef};
pub use conclusion::Conclusion;
pub use count::count;
pub use criteria::{
    Criteria, CurvePoint, DeviceTolerance, EvidenceRule, Floor, MetricCriterion, MetricReference, OneRank,
    PastTolerance, Peers, Reference, Settled, Tolerance, Unequal,
};
pub use fact::*;
#[cfg(debug_assertions)]
pub use failpoint::activate_failpoint;
pub use failpoint::failpoint_is_active;
pub use failure::{Class, Failure};
pub use ids::{Attempt, CheckIndex, CommandId, EventKey, InvalidId, RunId, Stage, Step, Verb};
pub use image::{FileDigest, Image};
pub use locate::{Drain, Drained, Locate, NodeSearch, SuspectNode, Suspects};
pub use money::Money;
pub use node_evidence::{GpuEvidence, GpuSamples, NodeEvidence};
pub use notify::{ChannelNotify, GithubNotify, News, Notify};
pub use program::{CommandLine, Every, OutputFormat, Program, WORLD_FORMATS, pair_rounds};
pub use record::{RECORD_FORMAT, Record, RecordEntry};
pub use retest::{AfterPass, Retest, RetestedNode, Returned};
pub use soak::{Soak, SoakRound, SoakRounds};
pub use split_mix::SplitMix64;
pub use system::{ClusterAccess, DEPLOYED, PROCESSES, System};
pub use time::{Span, Timestamp};
pub use verdict::{MeasurementsFile, Reason, Verdict, VerdictReached, VerdictSuspect};
pub use workflow::{
    Benchmark, BuildSpec, Check, ClusterCost, ClusterSpec, ImageSpec, Limits, REVISION, SourceObject,
    SourceRepository, Workflow,
};
pub use workload::{Collective, Datatype, ExtraArgs, Reduction, TimeOf, Workload};
