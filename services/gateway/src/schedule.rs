//! Schedules: exactly one run for each scheduled time, for any number of gateways that check it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use ledger::{Store, StoreError};
use model::{EventKey, RunId, Span, Timestamp, Trigger};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing::{error, info};
use triggers::OnSchedule;

use crate::{Gateway, StartError, StartRequest, start};

/// Maximum age of a scheduled time that is still handled.
const WEEK: Span = Span::from_secs(7 * 24 * 3600);
/// Maximum number of missed times that are handled; only the newest times are handled.
const MAX_TIMES: usize = 500;
/// Maximum delay of a punctual run; a run with a longer delay is late.
const PUNCTUAL: Span = Span::from_secs(120);

/// A scheduled time that was handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Night {
    /// Scheduled time.
    pub moment: Timestamp,
    /// Id of the started run; null if the time was missed.
    pub run: Option<RunId>,
    /// Reason why the time was missed; null if a run was started.
    #[serde(default)]
    pub missed: Option<String>,
    #[serde(default)]
    pub late: bool,
}

/// Record of handled times.
pub struct ScheduleRecords {
    store: Arc<dyn Store>,
    /// Workflows already logged as stale.
    alarmed: Mutex<BTreeSet<String>>,
}

#[derive(Deserialize, Serialize)]
struct FirstSeen {
    since: Timestamp,
}

impl ScheduleRecords {
    /// `store`: bucket of the marks.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, alarmed: Mutex::default() }
    }

    /// Handled times of the last week, newest first.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn nights(&self, workflow: &str, now: Timestamp) -> Result<Vec<Night>, StoreError> {
        let marks = self.mark_names(workflow, now).await?.into_iter();
        let reads = stream::iter(marks).map(|name| async move { self.store.read(&name).await });
        let bodies: Vec<_> = reads.buffer_unordered(16).try_collect().await?;
        let night = |body: Option<Bytes>| serde_json::from_slice::<Night>(&body?).ok();
        let mut nights: Vec<_> = bodies.into_iter().filter_map(night).collect();
        nights.retain(|night| now.since(night.moment) <= WEEK);
        nights.sort_by_key(|night| std::cmp::Reverse(night.moment));
        Ok(nights)
    }

    /// Names of the marks in the months of the last week: one or two months.
    async fn mark_names(&self, workflow: &str, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let months: BTreeSet<_> = [now, subtract(now, WEEK)].iter().map(|at| month(*at)).collect();
        let mut names = Vec::new();
        for month in months {
            names.extend(self.store.list(&format!("schedules/{workflow}/{month}/")).await?);
        }
        Ok(names)
    }

    /// Time of the first check of this schedule: scheduled times before it do not count as missed.
    async fn since(&self, workflow: &str, on: &OnSchedule, now: Timestamp) -> Result<Timestamp, StoreError> {
        let digest = hex::encode(start::digest(&[&on.cron, &on.zone]));
        self.known_since(workflow, digest.get(..12).unwrap_or(&digest), now).await
    }

    /// Time since which the workflow has been overdue for a verdict; `None` if it is not overdue. A new
    /// workflow has the full interval.
    ///
    /// # Errors
    /// Returns an error if the store request fails.
    pub async fn overdue(
        &self,
        workflow: &str,
        every: Span,
        validated: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        let since = match validated {
            Some(validated) => validated,
            None => self.known_since(workflow, "workflow", now).await?,
        };
        Ok((now.since(since) > every).then_some(since + every))
    }

    async fn known_since(&self, workflow: &str, what: &str, now: Timestamp) -> Result<Timestamp, StoreError> {
        let name = format!("schedules/{workflow}/since/{what}.json");
        let mut known = self.store.read(&name).await?;
        if known.is_none() {
            self.store.create_json(&name, &FirstSeen { since: now }).await?;
            known = self.store.read(&name).await?;
        }
        let body = known.unwrap_or_default();
        Ok(serde_json::from_slice::<FirstSeen>(&body).map_or(now, |since| since.since))
    }

    async fn record(&self, workflow: &str, night: &Night) -> Result<(), StoreError> {
        self.store.create_json(&mark_path(workflow, night.moment), night).await.map(drop)
    }
}

fn subtract(now: Timestamp, span: Span) -> Timestamp {
    Timestamp::from_millis(now.as_millis() - i64::try_from(span.0.as_millis()).unwrap_or(0))
}

fn month(at: Timestamp) -> String {
    at.to_string().chars().take(7).collect()
}

fn mark_path(workflow: &str, scheduled_at: Timestamp) -> String {
    format!("schedules/{workflow}/{}/{}.json", month(scheduled_at), scheduled_at.as_millis() / 1000)
}

impl Gateway {
    /// Handles every scheduled time that is due, and logs workflows whose validation is overdue.
    /// Any number of gateways may call it.
    ///
    /// # Errors
    /// Returns an error if a workflow failed temporarily, after all workflows were handled.
    pub async fn start_due_runs(&self) -> Result<(), StartError> {
        let read = self.catalogue.read().await.map_err(StartError::transient)?;
        let mut result = Ok(());
        for (name, entry) in &read.workflows {
            let mut due = BTreeMap::new();
            for on in &entry.offered.on.schedule {
                result = result.and(self.due(name, on, &mut due).await.map_err(StartError::transient));
            }
            // Only the newest of several due times starts a run: no clusters are provisioned to catch up.
            let newest = due.keys().next_back().copied();
            for (scheduled_at, window) in due {
                result = result.and(
                    self.start_scheduled(name, scheduled_at, window, newest == Some(scheduled_at)).await,
                );
            }
        }
        let validated = self.run_index.last_verdict_times().await.map_err(StartError::transient)?;
        for (name, entry) in &read.workflows {
            if let Some(every) = entry.offered.on.validated_every {
                let last = validated.get(name).copied();
                let overdue = self.schedule_records.overdue(name, every, last, self.clock.now()).await;
                match overdue.map_err(StartError::transient) {
                    Ok(since) => self.log_overdue(name, every, last, since),
                    Err(later) => result = result.and(Err(later)),
                }
            }
        }
        result
    }

    /// Unhandled times that are due, each with its maximum delay.
    async fn due(
        &self,
        workflow: &str,
        on: &OnSchedule,
        due: &mut BTreeMap<Timestamp, Span>,
    ) -> Result<(), StoreError> {
        let Ok(zoned) = on.read() else { return Ok(()) }; // the catalogue reports invalid schedules
        let now = self.clock.now();
        let since = self.schedule_records.since(workflow, on, now).await?;
        let marks: BTreeSet<_> = self.schedule_records.mark_names(workflow, now).await?.into_iter().collect();
        let times = zoned.between(since.max(subtract(now, WEEK)), now, MAX_TIMES);
        let open = times.into_iter().filter(|time| !marks.contains(&mark_path(workflow, *time)));
        due.extend(open.map(|time| (time, on.window)));
        Ok(())
    }

    async fn start_scheduled(
        &self,
        workflow: &str,
        scheduled_at: Timestamp,
        window: Span,
        newest: bool,
    ) -> Result<(), StartError> {
        let after = self.clock.now().since(scheduled_at);
        let missed = if !newest {
            Some("a later scheduled time was also due".to_owned())
        } else if after > window {
            Some(format!("the scheduled time was detected {after} late; the maximum delay is {window}"))
        } else {
            None
        };
        let mut night = Night { moment: scheduled_at, run: None, missed, late: after > PUNCTUAL };
        if night.missed.is_none() {
            let request = StartRequest {
                key: EventKey { source: "//burnin/schedules".to_owned(), id: scheduled_at.to_string() },
                workflow: workflow.to_owned(),
                set: BTreeMap::new(),
                image: None,
                cluster: None,
                trigger: Trigger { kind: "schedule".to_owned(), by: scheduled_at.to_string() },
                origin: None,
            };
            match self.starter.start(&request).await {
                Ok(started) => night.run = Some(started.run),
                Err(refused) if refused.is_permanent() => night.missed = Some(refused.to_string()),
                Err(later) => return Err(later),
            }
        }
        match (&night.run, &night.missed) {
            (Some(run), _) => {
                info!(workflow, moment = %scheduled_at, run.id = %run, late = night.late, "scheduled run started")
            }
            (None, missed) => {
                let why = missed.as_deref().unwrap_or_default();
                error!(workflow, moment = %scheduled_at, "a scheduled run was missed: {why}");
            }
        }
        self.schedule_records.record(workflow, &night).await.map_err(StartError::transient)
    }

    /// Logs once that a workflow is overdue, until it has a verdict again.
    fn log_overdue(&self, workflow: &str, every: Span, last: Option<Timestamp>, overdue: Option<Timestamp>) {
        let mut alarmed = self.schedule_records.alarmed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(since) = overdue else {
            alarmed.remove(workflow);
            return;
        };
        if alarmed.insert(workflow.to_owned()) {
            let last = last.map_or_else(|| "never".to_owned(), |last| last.to_string());
            error!(workflow, %every, last, %since, "stale: no verdict for longer than `validated_every`");
        }
    }
}
