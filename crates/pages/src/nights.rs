//! Table of systems by night, with the state of each cluster: good, bad, or not validated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::{Money, RunId, Timestamp, Verdict};
use run_index::{KnownValues, RunStatus, RunSummary};
use serde::Serialize;
use verdict::{Fingerprint, fingerprint::Difference};

use crate::{
    WorkflowPlan,
    numbers::{CheckMetric, ShownValue, described, main_metric},
    times::{DisplayTime, date},
};

/// Number of nights shown.
pub const NIGHTS: usize = 14;
/// Maximum number of systems shown.
const MAX_SYSTEMS: usize = 200;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// A system: a workflow on a cluster.
#[derive(Debug, Serialize)]
pub struct SystemRow {
    pub workflow: String,
    /// Name of an existing cluster; kind of a cluster that is provisioned per run.
    pub place: String,
    /// Metric of the numbers in the cells.
    pub metric: Option<String>,
    /// One cell per night, newest first.
    pub cells: Vec<NightCell>,
    /// Newest run with a verdict.
    pub latest: Option<NightRun>,
    pub value: Option<ShownValue>,
    pub at: Option<DisplayTime>,
    /// Last change of verdict or fingerprint.
    pub changed: Option<FingerprintChange>,
    /// Total cost of the nights shown.
    pub cost: Option<NightsCost>,
    /// Next scheduled start.
    pub next: Option<DisplayTime>,
    /// Whether its validation is overdue.
    pub stale: bool,
    /// Whether errors in the workflow's file prevent a start.
    pub broken: bool,
    /// Whether the system has runs, and therefore its own page.
    pub runs: bool,
}

/// A change between two consecutive judged runs.
#[derive(Debug, Serialize)]
pub struct FingerprintChange {
    /// First run after the change.
    pub run: RunId,
    pub date: String,
    pub what: String,
}

#[derive(Debug, Serialize)]
pub struct NightsCost {
    /// One amount per currency.
    pub money: Vec<String>,
    /// Node hours, as text.
    pub hours: String,
}

/// One night of a system.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NightCell {
    pub date: String,
    /// Results, most severe first, each with its number of runs; empty without a run.
    pub marks: Vec<CellMark>,
    /// The run, if the night has only one.
    pub run: Option<RunId>,
    /// Value of the last run with a value.
    pub number: Option<String>,
    /// All runs of the night in words.
    pub described: String,
}

/// Runs of a night with the same result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellMark {
    /// `good`, `bad`, `unsure` or `busy`.
    pub tone: &'static str,
    /// Symbol that replaces the colour for colour-blind readers.
    pub mark: &'static str,
    pub word: String,
    pub runs: usize,
}

/// A run as shown in a cell: its result as tone, mark and word.
#[derive(Clone, Debug, Serialize)]
pub struct NightRun {
    pub run: RunId,
    /// `good`, `bad`, `unsure` or `busy`.
    pub tone: &'static str,
    /// Symbol that replaces the colour for colour-blind readers.
    pub mark: &'static str,
    pub word: String,
}

impl NightRun {
    pub fn of(summary: &RunSummary) -> Self {
        let (tone, mark, word) = match (summary.verdict, summary.state, summary.conclusion.as_str()) {
            (Some(Verdict::Pass), ..) => ("good", "✓", "pass"),
            (Some(Verdict::Fail), ..) => ("bad", "✗", "fail"),
            (Some(Verdict::Inconclusive), ..) => ("unsure", "?", "inconclusive"),
            (None, RunStatus::Open, _) => ("busy", "…", "running"),
            (None, _, "completed") => ("good", "·", "done"),
            (None, _, "cancelled") => ("unsure", "–", "cancelled"),
            (None, _, "yielded") => ("unsure", "–", "yielded"),
            (None, _, "timed_out") => ("bad", "!", "timed out"),
            (None, ..) => ("bad", "!", "failed"),
        };
        Self { run: summary.run.clone(), tone, mark, word: word.to_owned() }
    }
}

/// Dates of the nights, newest first: the newest one is visible on a narrow screen.
pub fn dates(now: Timestamp) -> Vec<String> {
    let midnight = |back| Timestamp::from_millis((day(now) - back as i64) * DAY_MS);
    (0..NIGHTS).map(|back| date(midnight(back))).collect()
}

/// Runs by system, in the order of the names; runs newest first.
pub fn systems(summaries: &[Arc<RunSummary>]) -> BTreeMap<(&str, &str), Vec<&RunSummary>> {
    let mut systems: BTreeMap<(&str, &str), Vec<&RunSummary>> = BTreeMap::new();
    for summary in summaries {
        systems.entry((&summary.workflow, shown_cluster(summary))).or_default().push(summary);
    }
    systems
}

/// The runs whose values the table shows, newest first: those of the nights shown, and the newest judged run of each system.
pub fn valued(summaries: &[Arc<RunSummary>], now: Timestamp) -> Vec<&RunSummary> {
    let first = first_day(now);
    let mut latest = BTreeSet::new();
    let mut shown = Vec::new();
    for summary in summaries.iter().filter(|summary| summary.verdict.is_some()) {
        if latest.insert((summary.workflow.as_str(), shown_cluster(summary)))
            || day(summary.requested_at) >= first
        {
            shown.push(&**summary);
        }
    }
    shown
}

/// All systems with runs, then the workflows without a run, by name. `summaries` are newest first.
pub fn rows(
    summaries: &[Arc<RunSummary>],
    values: &KnownValues,
    plans: &[WorkflowPlan],
    now: Timestamp,
) -> Vec<SystemRow> {
    let mut systems = systems(summaries);
    for plan in plans {
        if !systems.keys().any(|(workflow, _)| *workflow == plan.workflow) {
            systems.insert((&plan.workflow, ""), Vec::new());
        }
    }
    let of = |((workflow, cluster), summaries): ((&str, &str), Vec<&RunSummary>)| {
        let plan = plans.iter().find(|plan| plan.workflow == workflow);
        let latest = summaries.iter().find(|summary| summary.verdict.is_some());
        // Only these runs have values: those of the nights shown, and the newest judged run of the system.
        let of_nights = summaries.iter().take_while(|summary| day(summary.requested_at) >= first_day(now));
        let metric = of_nights.chain(latest).find_map(|summary| main_metric(values.of(&summary.run)?));
        let metric = metric.map(CheckMetric::of);
        SystemRow {
            cells: cells(&summaries, values, metric.as_ref(), now),
            latest: latest.map(|summary| NightRun::of(summary)),
            value: latest.and_then(|summary| ShownValue::of(values.of(&summary.run))),
            at: latest.map(|summary| DisplayTime::of(summary.requested_at, now)),
            metric: metric.map(|metric| metric.title()),
            changed: changed(&summaries),
            cost: cost(&summaries, now),
            next: plan.and_then(|plan| plan.next).map(|next| DisplayTime::of(next, now)),
            stale: plan.is_some_and(|plan| plan.stale),
            broken: plan.is_some_and(|plan| plan.broken),
            runs: !summaries.is_empty(),
            workflow: workflow.to_owned(),
            place: cluster.to_owned(),
        }
    };
    let (with_runs, without): (Vec<_>, Vec<_>) =
        systems.into_iter().partition(|(_, summaries)| !summaries.is_empty());
    with_runs.into_iter().chain(without).take(MAX_SYSTEMS).map(of).collect()
}

/// The cluster as shown: a provisioned cluster has a new name for each run.
pub fn shown_cluster(summary: &RunSummary) -> &str {
    let is_provisioned = summary.cluster.as_deref().is_none_or(|name| name.starts_with(summary.run.as_str()));
    match (&summary.cluster, &summary.system) {
        (Some(name), _) if !is_provisioned => name,
        (_, system) => system.as_deref().unwrap_or_default(),
    }
}

/// One cell per night, newest first. Every run of a night is visible: a system with passed and failed runs has both
/// marks.
fn cells(
    summaries: &[&RunSummary],
    values: &KnownValues,
    metric: Option<&CheckMetric>,
    now: Timestamp,
) -> Vec<NightCell> {
    let today = day(now);
    let mut nights: Vec<Vec<&RunSummary>> = vec![Vec::new(); NIGHTS];
    for summary in summaries {
        let back = usize::try_from(today - day(summary.requested_at)).unwrap_or(0);
        nights.get_mut(back).into_iter().for_each(|night| night.push(summary));
    }
    let of = |(date, night): (String, Vec<&RunSummary>)| NightCell {
        described: night_in_words(&date, &night, values),
        number: night.iter().find_map(|summary| metric?.number(values.of(&summary.run)?)),
        run: if let [summary] = night[..] { Some(summary.run.clone()) } else { None },
        marks: marks(&night),
        date,
    };
    dates(now).into_iter().zip(nights).map(of).collect()
}

/// Results of a night, most severe first.
fn marks(night: &[&RunSummary]) -> Vec<CellMark> {
    let mut marks: Vec<CellMark> = Vec::new();
    for NightRun { tone, mark, word, .. } in night.iter().map(|summary| NightRun::of(summary)) {
        match marks.iter_mut().find(|known| known.word == word) {
            Some(known) => known.runs += 1,
            None => marks.push(CellMark { tone, mark, word, runs: 1 }),
        }
    }
    let severity = |mark: &CellMark| ["bad", "unsure", "busy", "good"].iter().position(|it| *it == mark.tone);
    marks.sort_by_key(severity);
    marks
}

/// Text of a night, such as `2026-11-20: 1 fail, 2 pass; the last: all_reduce plateau 351 GB/s`.
fn night_in_words(date: &str, night: &[&RunSummary], values: &KnownValues) -> String {
    let of = |mark: &CellMark| match night.len() {
        1 => mark.word.clone(),
        _ => format!("{} {}", mark.runs, mark.word),
    };
    let results = marks(night).iter().map(of).collect::<Vec<_>>().join(", ");
    let measured = night.iter().find_map(|summary| values.of(&summary.run)).map(described);
    let last = if night.len() > 1 { "the last: " } else { "" };
    match measured.filter(|measured| !measured.is_empty()) {
        Some(measured) => format!("{date}: {results}; {last}{measured}"),
        None => format!("{date}: {results}"),
    }
}

/// Maximum number of fingerprint fields listed in a change.
const FIELDS: usize = 2;
/// Maximum length of a value, characters.
const VALUE: usize = 24;

/// Newest change of verdict or fingerprint between judged runs. `summaries` are newest first.
fn changed(summaries: &[&RunSummary]) -> Option<FingerprintChange> {
    let mut judged = summaries.iter().filter(|summary| summary.verdict.is_some());
    let mut after = judged.next()?;
    for before in judged {
        if let Some(what) = difference(before, after) {
            return Some(FingerprintChange { run: after.run.clone(), date: date(after.requested_at), what });
        }
        after = before;
    }
    None
}

/// Changes of the verdict and the setup, as text; `None` without a change.
fn difference(before: &RunSummary, after: &RunSummary) -> Option<String> {
    let verdict = (after.verdict != before.verdict)
        .then(|| format!("{} after {}", NightRun::of(after).word, NightRun::of(before).word));
    let mut what: Vec<_> = verdict.into_iter().collect();
    // A page compares thousands of pairs, and most setups are equal: build fingerprints only for different ones.
    if before.setup != after.setup {
        let (was, is) = (Fingerprint(before.setup.clone()), Fingerprint(after.setup.clone()));
        let fields: Vec<_> = was.differences(&is).map(|field| field_of(&field)).collect();
        let more = fields.len().saturating_sub(FIELDS);
        what.extend(fields.into_iter().take(FIELDS));
        if more > 0 {
            what.push(format!("{more} more"));
        }
    }
    (!what.is_empty()).then(|| what.join("; "))
}

/// Versions are shown; digests are not useful to readers.
pub fn field_of(field: &Difference<'_>) -> String {
    let short = |text: &str| text.chars().take(VALUE).collect::<String>();
    match field.name {
        "blueprint" | "image" => format!("another {}", field.name),
        name => format!("{name} {}, was {}", short(field.after), short(field.before)),
    }
}

/// Cost of the nights shown: money by currency, and node hours.
fn cost(summaries: &[&RunSummary], now: Timestamp) -> Option<NightsCost> {
    let first = first_day(now);
    let costs = summaries.iter().filter(|summary| day(summary.requested_at) >= first);
    let costs: Vec<_> = costs.filter_map(|summary| summary.cost.as_ref()).collect();
    let mut money: BTreeMap<&str, Money> = BTreeMap::new();
    for cost in &costs {
        if let (Some(spent), Some(currency)) = (cost.spent, &cost.currency) {
            let sum = money.entry(currency).or_default();
            *sum = *sum + spent;
        }
    }
    // Sums are rounded up to cents.
    let cents = |money: Money| Money::from_micros(money.as_micros().div_ceil(10_000) * 10_000);
    let money = money.into_iter().map(|(currency, spent)| format!("{} {currency}", cents(spent))).collect();
    let node_seconds: f64 = costs.iter().map(|cost| cost.held.0.as_secs_f64() * f64::from(cost.nodes)).sum();
    let hours = format!("{:.1} node h", node_seconds / 3600.0);
    (!costs.is_empty()).then_some(NightsCost { money, hours })
}

/// Number of the UTC day of the oldest night shown.
fn first_day(now: Timestamp) -> i64 {
    day(now) - NIGHTS as i64 + 1
}

/// Number of the UTC day, counted from 1970-01-01.
pub fn day(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A judged run `back` days ago.
    fn summary(back: i64, verdict: &str, driver: &str, cost: serde_json::Value) -> RunSummary {
        let at = Timestamp::from_millis((20_000 - back) * DAY_MS);
        let document = serde_json::json!({
            "run": format!("w-{back}"), "workflow": "w", "system": "slurm", "cluster": null,
            "trigger": {"kind": "schedule", "by": "cron"}, "requested_at": at, "state": "closed",
            "conclusion": "completed", "verdict": verdict, "stage": null, "settled_at": at, "closed_at": at,
            "setup": {"driver": driver, "image": format!("sha256:{driver}"), "ranks": "16"}, "cost": cost,
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn the_last_change_is_shown_with_its_run() {
        let none = || serde_json::Value::Null;
        let changes = |summaries: &[RunSummary]| changed(&summaries.iter().collect::<Vec<_>>());
        let same = [summary(0, "pass", "13.0", none()), summary(1, "pass", "13.0", none())];
        assert!(changes(&same).is_none());
        let since = [
            summary(0, "fail", "13.1", none()),
            summary(1, "fail", "13.1", none()),
            summary(2, "pass", "13.0", none()),
            summary(3, "fail", "13.0", none()),
        ];
        let change = changes(&since).unwrap();
        assert_eq!((change.run.as_str(), change.date), ("w-1", date(since[1].requested_at)));
        assert_eq!(change.what, "fail after pass; driver 13.1, was 13.0; another image");
    }

    #[test]
    fn every_run_of_a_night_is_visible_newest_night_first() {
        let none = || serde_json::Value::Null;
        let mut summaries = vec![summary(0, "pass", "1", none()), summary(0, "fail", "1", none())];
        summaries.extend([summary(0, "pass", "1", none()), summary(1, "fail", "1", none())]);
        let summaries: Vec<_> = summaries.iter().collect();
        let now = Timestamp::from_millis(20_000 * DAY_MS);
        let cells = cells(&summaries, &KnownValues::default(), None, now);
        let mark = |mark: &CellMark| (mark.word.clone(), mark.runs);
        let marks: Vec<_> = cells[0].marks.iter().map(mark).collect();
        assert_eq!(marks, [("fail".to_owned(), 1), ("pass".to_owned(), 2)]);
        assert_eq!(
            (cells[0].run.as_ref(), cells[0].described.as_str()),
            (None, "2024-10-04: 1 fail, 2 pass")
        );
        assert_eq!(cells[1].run.as_ref().unwrap().as_str(), "w-1");
        assert!(cells[2].marks.is_empty() && cells.len() == NIGHTS);
        assert_eq!((cells[0].date.as_str(), cells[1].date.as_str()), ("2024-10-04", "2024-10-03"));
    }

    #[test]
    fn the_cost_of_the_nights_shown_is_summed_by_currency() {
        let held = |spent: &str, currency: &str| serde_json::json!({"nodes": 2, "held": "30m", "idle": "1m", "spent": spent, "currency": currency});
        let summaries = [
            summary(0, "pass", "1", held("10.001", "USD")),
            summary(1, "pass", "1", held("5", "CHF")),
            summary(2, "pass", "1", serde_json::json!({"nodes": 2, "held": "30m", "idle": "1m"})),
            summary(NIGHTS as i64, "pass", "1", held("1000", "USD")),
        ];
        let now = summaries[0].requested_at;
        let cost = cost(&summaries.iter().collect::<Vec<_>>(), now).unwrap();
        assert_eq!(
            (cost.money, cost.hours.as_str()),
            (vec!["5.00 CHF".to_owned(), "10.01 USD".to_owned()], "3.0 node h")
        );
        assert!(super::cost(&[], now).is_none());
    }
}
