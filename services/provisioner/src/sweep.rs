//! The second door: gives back what outlived its lease, whoever forgot it.
//!
//! It reads no ledger and no bus, so that it works when both are lost or wrong: the provider's list, with the labels and the
//! clock that are the provider's own, is all it knows. What a live lease covers it never touches, nor what bears no
//! expiry; and gone is only what the provider says is gone, and does not list any more.

use std::sync::Arc;

use model::{Deleted, Span, Timestamp};
use service::{PortError, serve::Chore};
use tracing::warn;

use crate::port::{Clusters, Listed};

/// What becomes of a cluster that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its lease still runs, or ended so recently that whoever holds it may be at work giving it back.
    Kept {
        /// When the grace ends.
        until: Timestamp,
    },
    /// It bears no expiry that can be read: a person has to look.
    Unlabelled,
    /// It outlived its lease, and would be given back.
    Due,
    /// It outlived its lease and is gone, by the provider's word.
    Gone(Deleted),
    /// It outlived its lease and is still there: why. The next sweep tries again.
    Left(String),
}

/// A cluster that was found, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The cluster.
    pub cluster: Listed,
    /// What became of it.
    pub fate: Fate,
}

/// The second door as a chore: whoever keeps time asks for it, and it says so when something is left.
pub struct Sweeper {
    clusters: Arc<dyn Clusters>,
    grace: Span,
}

impl Sweeper {
    /// Over a provider's clusters; what outlived its lease by more than `grace` is given back.
    pub fn new(clusters: Arc<dyn Clusters>, grace: Span) -> Self {
        Self { clusters, grace }
    }
}

#[async_trait::async_trait]
impl Chore for Sweeper {
    fn name(&self) -> &'static str {
        "sweep"
    }

    async fn run(&self) -> Result<(), String> {
        let swept = sweep(&*self.clusters, self.grace, true).await.map_err(|error| match error {
            PortError::Passing(why) => why,
            PortError::Final(failure) => failure.message,
        })?;
        let mut left = Vec::new();
        for Swept { cluster, fate } in swept {
            match fate {
                Fate::Kept { .. } => {}
                Fate::Gone(deleted) => {
                    warn!(
                        cluster = cluster.name,
                        run.id = cluster.run,
                        "outlived its lease and is gone: {}",
                        deleted.evidence
                    );
                }
                Fate::Unlabelled => warn!(cluster = cluster.name, "bears no expiry: a person has to look"),
                Fate::Due => left.push(cluster.name),
                Fate::Left(why) => left.push(format!("{}: {why}", cluster.name)),
            }
        }
        if left.is_empty() { Ok(()) } else { Err(format!("still there: {}", left.join("; "))) }
    }
}

/// Looks at every cluster there is. Those whose lease ended more than `grace` ago are given back, if `really`.
///
/// # Errors
/// When the provider does not say what there is. What could not be given back is told as its fate.
pub async fn sweep(clusters: &dyn Clusters, grace: Span, really: bool) -> Result<Vec<Swept>, PortError> {
    let listing = clusters.list().await?;
    let mut swept = Vec::new();
    for cluster in listing.clusters {
        let fate = match cluster.expires_at.map(|expires_at| expires_at + grace) {
            None => Fate::Unlabelled,
            Some(until) if listing.at < until => Fate::Kept { until },
            Some(_) if !really => Fate::Due,
            Some(_) => match clusters.delete(&cluster.name).await {
                Ok(deleted) => Fate::Gone(deleted),
                Err(PortError::Passing(why)) => Fate::Left(why),
                Err(PortError::Final(failure)) => Fate::Left(failure.message),
            },
        };
        swept.push(Swept { cluster, fate });
    }
    if swept.iter().any(|swept| matches!(swept.fate, Fate::Gone(_))) {
        doubt(&mut swept, clusters).await;
    }
    Ok(swept)
}

/// Providers have said that a cluster is gone while it was not: only what they do not list any more is.
async fn doubt(swept: &mut [Swept], clusters: &dyn Clusters) {
    let listing = clusters.list().await;
    for swept in swept.iter_mut().filter(|swept| matches!(swept.fate, Fate::Gone(_))) {
        let why = match &listing {
            Ok(listing) if listing.clusters.iter().any(|listed| listed.name == swept.cluster.name) => {
                "the provider called it gone and still lists it".to_owned()
            }
            Ok(_) => continue,
            Err(PortError::Passing(why)) => format!("whether it is gone is not known: {why}"),
            Err(PortError::Final(failure)) => {
                format!("whether it is gone is not known: {}", failure.message)
            }
        };
        swept.fate = Fate::Left(why);
    }
}
