//! Events outside the services, in order. The checks read only this and the bucket.

use std::{fmt, sync::Arc};

use cloudevents::{AttributesReader, Event};
use model::{Attempt, RunId, Stage, Timestamp};

use crate::process::SimService;

/// An event outside the services.
#[derive(Clone, Debug)]
pub enum ExternalEvent {
    /// The bus accepted an event.
    Published {
        /// Process that published the event.
        by: SimService,
        event: Arc<Event>,
    },
    /// A process acknowledged an event.
    Acked {
        /// Process that acknowledged the event.
        by: SimService,
        event: Arc<Event>,
    },
    /// A process parked and acknowledged an event.
    Parked {
        /// Process that parked the event.
        by: SimService,
        event: Arc<Event>,
    },
    /// An object was created in the bucket.
    Stored {
        name: String,
    },
    /// A hint was removed from the bucket.
    Removed {
        name: String,
    },
    BuildBegan {
        name: String,
    },
    /// A build reached a final status.
    BuildEnded {
        name: String,
    },
    /// A cluster was created and costs money.
    ClusterBegan {
        name: String,
        run: RunId,
        /// Time at which the cluster ends without a request.
        expires_at: Timestamp,
        /// Whether the cluster appeared after its confirmed deletion, so that no caller could detect it.
        late: bool,
    },
    /// The deletion of an existing cluster was requested.
    DeleteRequested {
        name: String,
    },
    ClusterEnded {
        name: String,
        why: &'static str,
    },
    /// The scheduler received a request to end a job, and not to start it if it is submitted later.
    StopRequested {
        name: String,
    },
    JobBegan {
        name: String,
    },
    JobEnded {
        name: String,
        /// Result, with the scheduler's code.
        how: String,
    },
    /// Rows were loaded into the warehouse.
    Loaded {
        load: String,
        rows: usize,
    },
    /// A false message about a stage was published.
    Contradicted {
        run: RunId,
        stage: Stage,
    },
    /// From here on, every acknowledged event is redelivered.
    Replayed,
}

/// The run in a resource name: `{run}-{stage}-{attempt}`.
pub fn run_of(name: &str) -> &str {
    // A pair's name starts with the name of its search.
    let name = if is_pair(name) { name.rsplit_once('-').map_or(name, |(search, _)| search) } else { name };
    name.rsplitn(3, '-').nth(2).unwrap_or(name)
}

/// Attempt in the name of a job or cluster.
pub fn attempt_of(name: &str) -> Option<Attempt> {
    name.rsplit('-').next()?.parse().ok()
}

/// Whether a job of this name is a pair of a search for bad nodes.
pub fn is_pair(name: &str) -> bool {
    name.contains("-locate-")
}

impl fmt::Display for ExternalEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |event: &Event| {
            let event_type = event.ty().trim_start_matches("dev.burnin.");
            format!("{event_type} {}", event.id())
        };
        match self {
            Self::Published { event, .. } => write!(f, "published: {}", short(event)),
            Self::Acked { event, .. } => write!(f, "acknowledged: {}", short(event)),
            Self::Parked { event, .. } => write!(f, "parked: {}", short(event)),
            Self::Stored { name } => write!(f, "stored: {name}"),
            Self::Removed { name } => write!(f, "removed: {name}"),
            Self::BuildBegan { name } => write!(f, "build begins: {name}"),
            Self::BuildEnded { name } => write!(f, "build ends: {name}"),
            Self::ClusterBegan { name, expires_at, late, .. } => {
                let late = if *late { ", after its deletion was confirmed" } else { "" };
                write!(f, "cluster starts: {name}, until {expires_at}{late}")
            }
            Self::DeleteRequested { name } => write!(f, "cluster deletion requested: {name}"),
            Self::ClusterEnded { name, why } => write!(f, "cluster ends: {name}, {why}"),
            Self::StopRequested { name } => write!(f, "job stop requested: {name}"),
            Self::JobBegan { name } => write!(f, "job begins: {name}"),
            Self::JobEnded { name, how } => write!(f, "job ends: {name}, {how}"),
            Self::Loaded { load, rows } => write!(f, "loaded: {rows} rows as {load}"),
            Self::Replayed => f.write_str("every event is redelivered"),
            Self::Contradicted { run, stage } => {
                write!(f, "a false end of the {stage} stage of {run} was published")
            }
        }
    }
}
