//! What happened outside of the services, in order. The checks read this, the bucket and nothing else.

use std::{fmt, sync::Arc};

use cloudevents::{AttributesReader, Event};
use model::{RunId, Stage, Timestamp};

use crate::world::Service;

/// Something that happened outside of the services.
#[derive(Clone, Debug)]
pub enum Happening {
    /// The bus took an event.
    Published {
        /// From whom.
        by: Service,
        /// What.
        event: Arc<Event>,
    },
    /// A process acknowledged an event.
    Acked {
        /// Who.
        by: Service,
        /// What.
        event: Arc<Event>,
    },
    /// A process put an event aside, and acknowledged it.
    Parked {
        /// Who.
        by: Service,
        /// What.
        event: Arc<Event>,
    },
    /// An object was created in the bucket.
    Stored {
        /// Its name.
        name: String,
    },
    /// A hint was removed from the bucket.
    Removed {
        /// Its name.
        name: String,
    },
    /// A build began.
    BuildBegan {
        /// Its name.
        name: String,
    },
    /// A build ended.
    BuildEnded {
        /// Its name.
        name: String,
    },
    /// A cluster began to exist, and to cost.
    ClusterBegan {
        /// Its name.
        name: String,
        /// Whose it is.
        run: RunId,
        /// When it ends by itself.
        expires_at: Timestamp,
        /// It appeared after it had been confirmed gone: no caller could have known.
        late: bool,
    },
    /// Somebody asked for the end of a cluster that exists.
    DeleteAsked {
        /// Its name.
        name: String,
    },
    /// Nothing of a cluster is left.
    ClusterEnded {
        /// Its name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The scheduler was told to end a benchmark, and never to begin it.
    StopAsked {
        /// Its name.
        name: String,
    },
    /// A benchmark began to run.
    JobBegan {
        /// Its name.
        name: String,
    },
    /// A benchmark ended.
    JobEnded {
        /// Its name.
        name: String,
        /// How, in the scheduler's word.
        how: String,
    },
    /// Rows came into the warehouse.
    Loaded {
        /// The load's id.
        load: String,
        /// How many.
        rows: usize,
    },
    /// Somebody said something untrue about a stage.
    Contradicted {
        /// Of which run.
        run: RunId,
        /// Which stage.
        stage: Stage,
    },
    /// From here on everything that was ever acknowledged is delivered once more.
    Replayed,
}

/// The run that a resource is named after: `{run}-{stage}-{attempt}`.
pub fn run_of(name: &str) -> &str {
    // A pair of a search is called after the search.
    let name = if is_pair(name) { name.rsplit_once('-').map_or(name, |(search, _)| search) } else { name };
    name.rsplitn(3, '-').nth(2).unwrap_or(name)
}

/// A job of this name is a pair of nodes that is run to find the bad one.
pub fn is_pair(name: &str) -> bool {
    name.contains("-locate-")
}

impl fmt::Display for Happening {
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
                let late = if *late { ", after it was confirmed gone" } else { "" };
                write!(f, "cluster begins: {name}, until {expires_at}{late}")
            }
            Self::DeleteAsked { name } => write!(f, "cluster is to end: {name}"),
            Self::ClusterEnded { name, why } => write!(f, "cluster ends: {name}, {why}"),
            Self::StopAsked { name } => write!(f, "job is to end: {name}"),
            Self::JobBegan { name } => write!(f, "job begins: {name}"),
            Self::JobEnded { name, how } => write!(f, "job ends: {name}, {how}"),
            Self::Loaded { load, rows } => write!(f, "loaded: {rows} rows as {load}"),
            Self::Replayed => f.write_str("everything is delivered once more"),
            Self::Contradicted { run, stage } => write!(f, "the {stage} stage of {run} is contradicted"),
        }
    }
}
