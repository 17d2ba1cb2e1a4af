//! Filters and pages of the list of runs.

use std::{fmt, str::FromStr, sync::Arc};

use model::{RunId, Timestamp, Verdict};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{RunStatus, RunSummary};

/// Maximum number of runs per page.
pub const MAX_PAGE: usize = 200;

/// Filters; `None` matches all runs.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    pub workflow: Option<String>,
    /// System of the cluster, such as `slurm`.
    pub system: Option<String>,
    pub cluster: Option<String>,
    /// Open or closed.
    pub state: Option<RunStatus>,
    /// Conclusion: `completed`, `failed`, `timed_out`, `cancelled` or `yielded`.
    pub conclusion: Option<String>,
    pub verdict: Option<Verdict>,
    /// Earliest time of the request.
    pub since: Option<Timestamp>,
    /// Position after which the page starts.
    pub after: Option<ListCursor>,
    /// Maximum number of runs: 1 to [`MAX_PAGE`]; default 50.
    pub limit: Option<usize>,
}

/// One page of the runs that match a filter.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunPage {
    /// Newest first.
    pub runs: Vec<RunSummary>,
    /// Start of the next page; null on the last page.
    pub next: Option<ListCursor>,
}

/// A cursor in the list of runs, directly after one of them. Newer runs do not move it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCursor {
    requested_at: Timestamp,
    run: RunId,
}

impl ListCursor {
    /// Syntax of a cursor, as a regular expression. Every match is a valid position.
    pub const PATTERN: &str = r"^[0-9]{1,15}\.[a-z]([a-z0-9-]{0,48}[a-z0-9])?$";

    fn after(summary: &RunSummary) -> Self {
        Self { requested_at: summary.requested_at, run: summary.run.clone() }
    }

    fn is_before(&self, summary: &RunSummary) -> bool {
        // Newest first: later positions are older, or have the same time and a greater name.
        (std::cmp::Reverse(summary.requested_at), &summary.run)
            > (std::cmp::Reverse(self.requested_at), &self.run)
    }
}

impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.requested_at.as_millis(), self.run)
    }
}

impl FromStr for ListCursor {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (millis, run) = text.split_once('.')?;
            let written =
                (1..=15).contains(&millis.len()) && millis.bytes().all(|byte| byte.is_ascii_digit());
            let requested_at = Timestamp::from_millis(millis.parse().ok().filter(|_| written)?);
            Some(Self { requested_at, run: run.parse().ok()? })
        };
        read().ok_or("expected the value of `next` from an earlier page")
    }
}

impl Serialize for ListCursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for ListCursor {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cursor".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": Self::PATTERN})
    }
}

impl RunFilter {
    fn matches(&self, summary: &RunSummary) -> bool {
        fn is<T: PartialEq + ?Sized>(wanted: Option<&T>, there: Option<&T>) -> bool {
            wanted.is_none() || wanted == there
        }
        is(self.workflow.as_deref(), Some(summary.workflow.as_str()))
            && is(self.system.as_deref(), summary.system.as_deref())
            && is(self.cluster.as_deref(), summary.cluster.as_deref())
            && is(self.state.as_ref(), Some(&summary.state))
            && is(self.conclusion.as_deref(), Some(summary.conclusion.as_str()))
            && is(self.verdict.as_ref(), summary.verdict.as_ref())
            && self.since.is_none_or(|since| summary.requested_at >= since)
            && self.after.as_ref().is_none_or(|after| after.is_before(summary))
    }
}

/// A page of `summaries`, which are sorted newest first.
pub(crate) fn page<'a>(summaries: impl Iterator<Item = &'a Arc<RunSummary>>, wanted: &RunFilter) -> RunPage {
    let limit = wanted.limit.unwrap_or(50).clamp(1, MAX_PAGE);
    let summaries = summaries.filter(|summary| wanted.matches(summary)).take(limit + 1);
    let mut runs: Vec<RunSummary> = summaries.map(|summary| RunSummary::clone(summary)).collect();
    let more = runs.len() > limit;
    runs.truncate(limit);
    let next = if more { runs.last().map(ListCursor::after) } else { None };
    RunPage { runs, next }
}

/// Whether a text in lower case is in the run's id, workflow, cluster or cause.
pub(crate) fn contains(summary: &RunSummary, text: &str) -> bool {
    let cluster = summary.cluster.as_deref().unwrap_or_default();
    let fields =
        [summary.run.as_str(), &summary.workflow, cluster, &summary.trigger.kind, &summary.trigger.by];
    fields.iter().any(|field| field.to_lowercase().contains(text))
}
