//! Outages around a run: full disks, missing programs, a ledger that cannot be written. Each is reported after it has
//! lasted 1 s.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use service::{AttributesReader, Disposition, Handler};

use crate::output::note;

/// Delay before a failure outside this program, such as a full disk or a missing program, is reported: most such failures are transient.
/// Each failure is reported once.
const SILENT: Duration = Duration::from_secs(1);

/// Prints a failing operation and the reason on standard error, if `since`, the duration of the failure, is at least
/// [`SILENT`].
pub fn report(what: &str, since: Duration, why: &str) {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    /// Maximum number of reported messages: messages that contain a changing number are all different.
    const MAX_MESSAGES: usize = 20;
    if since < SILENT {
        return;
    }
    let what = what.trim_start_matches("dev.burnin.").trim_end_matches(".v1");
    let line = format!("  ! {what}: {}; trying again", redact::redacted(why));
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.len() < MAX_MESSAGES && reported.insert(line.clone()) {
        note(line);
    }
}

/// Current outages: start and reason.
#[derive(Default)]
pub struct Outages(Mutex<BTreeMap<String, (Instant, String)>>);

impl Outages {
    /// Records that an operation fails, or (`None`) that it works again. Returns the duration of the uninterrupted
    /// outage, and the reason.
    pub fn note(&self, what: &str, why: Option<String>) -> Option<(Duration, String)> {
        let mut outages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(why) = why else {
            outages.remove(what);
            return None;
        };
        let since = outages.get(what).map_or_else(Instant::now, |(since, _)| *since);
        outages.insert(what.to_owned(), (since, why.clone()));
        Some((since.elapsed(), why))
    }

    /// Reason for an outage of `patience` or longer.
    pub fn lasting(&self, patience: Duration) -> Option<String> {
        let outages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lasting = outages.values().find(|(since, _)| since.elapsed() >= patience);
        lasting.map(|(_, why)| why.clone())
    }
}

/// Wraps the conductor, and records an outage for each fact that the conductor cannot record. On a full disk the ledger is still readable,
/// so a tick without new records succeeds although every fact is lost.
pub struct WatchedConductor {
    pub handler: Arc<dyn Handler>,
    /// Failures of the conductor, by the id of the event.
    pub outages: Arc<Outages>,
}

#[service::async_trait]
impl Handler for WatchedConductor {
    async fn handle(&self, event: &service::Event) -> Disposition {
        let handled = self.handler.handle(event).await;
        let why = match &handled {
            Disposition::Retry(why) => Some(why.clone()),
            _ => None,
        };
        self.outages.note(event.id(), why);
        handled
    }
}
