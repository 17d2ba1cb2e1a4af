//! Table of systems by night: which clusters are good, bad, or not validated.

use std::{collections::BTreeMap, sync::Arc};

use model::{Money, RunId, Timestamp, Verdict};
use run_index::{RunStatus, RunSummary};
use serde::Serialize;
use verdict::{Fingerprint, fingerprint::Difference};

use crate::WorkflowPlan;

/// Number of nights shown.
pub const NIGHTS: usize = 14;
/// Maximum number of systems shown.
const MOST: usize = 200;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// A system: a workflow on a cluster.
#[derive(Debug, Serialize)]
pub struct SystemRow {
    pub workflow: String,
    /// Cluster: its name if it exists, its kind if it is provisioned per run.
    pub place: String,
    /// One cell per night, oldest first.
    pub cells: Vec<Cell>,
    /// Newest run with a verdict.
    pub latest: Option<NightRun>,
    /// Age of that run.
    pub age: Option<String>,
    /// Last change of verdict or fingerprint.
    pub changed: Option<FingerprintChange>,
    /// Total cost of the nights shown.
    pub cost: Option<NightsCost>,
    /// Next scheduled start.
    pub next: Option<String>,
    /// Whether its validation is overdue.
    pub stale: bool,
    /// Whether errors in its file keep it from starting.
    pub broken: bool,
}

/// A change between two consecutive judged runs.
#[derive(Debug, Serialize)]
pub struct FingerprintChange {
    /// First run after the change.
    pub run: RunId,
    /// Date of that run.
    pub date: String,
    /// Description of the change.
    pub what: String,
}

/// Total cost of several nights.
#[derive(Debug, Serialize)]
pub struct NightsCost {
    /// One amount per currency.
    pub money: Vec<String>,
    /// Node hours.
    pub hours: String,
}

/// One night of a system.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cell {
    /// Date of the night.
    pub date: String,
    /// Last run of the night.
    pub run: Option<NightRun>,
    /// Number of runs.
    pub runs: usize,
    /// Results of all runs of the night, if they differ: `2 pass, 1 fail`.
    pub mixed: Option<String>,
    #[serde(skip)]
    words: BTreeMap<String, usize>,
}

/// Short form of a run.
#[derive(Clone, Debug, Serialize)]
pub struct NightRun {
    pub run: RunId,
    /// `good`, `bad`, `unsure` or `busy`.
    pub tone: &'static str,
    /// Sign for readers who do not see colours.
    pub mark: &'static str,
    /// Result in a word.
    pub word: String,
}

impl NightRun {
    pub fn of(line: &RunSummary) -> Self {
        let (tone, mark, word) = match (line.verdict, line.state, line.conclusion.as_str()) {
            (Some(Verdict::Pass), ..) => ("good", "✓", "pass"),
            (Some(Verdict::Fail), ..) => ("bad", "✗", "fail"),
            (Some(Verdict::Inconclusive), ..) => ("unsure", "?", "inconclusive"),
            (None, RunStatus::Open, _) => ("busy", "…", "running"),
            (None, _, "completed") => ("good", "·", "done"),
            (None, _, "cancelled") => ("unsure", "–", "cancelled"),
            (None, _, "timed_out") => ("bad", "!", "timed out"),
            (None, ..) => ("bad", "!", "failed"),
        };
        Self { run: line.run.clone(), tone, mark, word: word.to_owned() }
    }
}

/// Dates of the nights, oldest first.
pub fn dates(now: Timestamp) -> Vec<String> {
    let midnight = |back| Timestamp::from_millis((day(now) - back as i64) * DAY_MS);
    (0..NIGHTS).rev().map(|back| date(midnight(back))).collect()
}

/// All systems with runs, and all available workflows, by name. `lines` are newest first.
pub fn rows(lines: &[Arc<RunSummary>], plans: &[WorkflowPlan], now: Timestamp) -> Vec<SystemRow> {
    let mut systems: BTreeMap<(&str, &str), Vec<&RunSummary>> = BTreeMap::new();
    for line in lines {
        systems.entry((&line.workflow, place(line))).or_default().push(line);
    }
    for plan in plans {
        if !systems.keys().any(|(workflow, _)| *workflow == plan.workflow) {
            systems.insert((&plan.workflow, ""), Vec::new());
        }
    }
    let of = |((workflow, place), lines): ((&str, &str), Vec<&RunSummary>)| {
        let plan = plans.iter().find(|plan| plan.workflow == workflow);
        let latest = lines.iter().find(|line| line.verdict.is_some());
        SystemRow {
            cells: cells(&lines, now),
            latest: latest.map(|line| NightRun::of(line)),
            age: latest.map(|line| ago(now, line.requested_at)),
            changed: changed(&lines),
            cost: cost(&lines, now),
            next: plan.and_then(|plan| plan.next).map(moment),
            stale: plan.is_some_and(|plan| plan.stale),
            broken: plan.is_some_and(|plan| plan.broken),
            workflow: workflow.to_owned(),
            place: place.to_owned(),
        }
    };
    systems.into_iter().take(MOST).map(of).collect()
}

/// The cluster as shown: a provisioned cluster has a new name for each run.
pub fn place(line: &RunSummary) -> &str {
    let rented = line.cluster.as_deref().is_none_or(|name| name.starts_with(line.run.as_str()));
    match (&line.cluster, &line.system) {
        (Some(name), _) if !rented => name,
        (_, system) => system.as_deref().unwrap_or_default(),
    }
}

fn cells(lines: &[&RunSummary], now: Timestamp) -> Vec<Cell> {
    let today = day(now);
    let mut cells: Vec<Cell> = dates(now).into_iter().map(|date| Cell { date, ..Cell::default() }).collect();
    for line in lines {
        let back = usize::try_from(today - day(line.requested_at)).unwrap_or(0);
        let Some(cell) = NIGHTS.checked_sub(back + 1).and_then(|at| cells.get_mut(at)) else { continue };
        cell.runs += 1;
        let run = NightRun::of(line);
        *cell.words.entry(run.word.clone()).or_default() += 1;
        cell.run.get_or_insert(run);
    }
    for cell in cells.iter_mut().filter(|cell| cell.words.len() > 1) {
        let words: Vec<_> = cell.words.iter().map(|(word, count)| format!("{count} {word}")).collect();
        cell.mixed = Some(words.join(", "));
    }
    cells
}

/// Maximum number of fingerprint fields listed in a change.
const FIELDS: usize = 2;
/// Maximum length of a value, characters.
const VALUE: usize = 24;

/// Newest change of verdict or fingerprint between judged runs. `lines` are newest first.
fn changed(lines: &[&RunSummary]) -> Option<FingerprintChange> {
    let mut judged = lines.iter().filter(|line| line.verdict.is_some());
    let mut after = judged.next()?;
    for before in judged {
        if let Some(what) = difference(before, after) {
            return Some(FingerprintChange { run: after.run.clone(), date: date(after.requested_at), what });
        }
        after = before;
    }
    None
}

/// The differences between two runs.
fn difference(before: &RunSummary, after: &RunSummary) -> Option<String> {
    let verdict = (after.verdict != before.verdict)
        .then(|| format!("{} after {}", NightRun::of(after).word, NightRun::of(before).word));
    let mut what: Vec<_> = verdict.into_iter().collect();
    let fields = setup_changes(before, after);
    let more = fields.len().saturating_sub(FIELDS);
    what.extend(fields.into_iter().take(FIELDS));
    if more > 0 {
        what.push(format!("{more} more"));
    }
    (!what.is_empty()).then(|| what.join("; "))
}

/// Differences of the setup of two runs.
pub fn setup_changes(before: &RunSummary, after: &RunSummary) -> Vec<String> {
    // Nearly always equal, and there are thousands of them.
    if before.setup == after.setup {
        return Vec::new();
    }
    let (was, is) = (Fingerprint(before.setup.clone()), Fingerprint(after.setup.clone()));
    was.differences(&is).map(|field| field_of(&field)).collect()
}

/// Versions are shown; digests are of no use to readers.
fn field_of(field: &Difference<'_>) -> String {
    let short = |text: &str| text.chars().take(VALUE).collect::<String>();
    match field.name {
        "blueprint" | "image" => format!("another {}", field.name),
        name => format!("{name} {}, was {}", short(field.after), short(field.before)),
    }
}

/// Cost of the nights shown: money by currency, and node hours.
fn cost(lines: &[&RunSummary], now: Timestamp) -> Option<NightsCost> {
    let first = day(now) - NIGHTS as i64 + 1;
    let costs = lines.iter().filter(|line| day(line.requested_at) >= first);
    let costs: Vec<_> = costs.filter_map(|line| line.cost.as_ref()).collect();
    let mut money: BTreeMap<&str, Money> = BTreeMap::new();
    for cost in &costs {
        if let (Some(spent), Some(currency)) = (cost.spent, &cost.currency) {
            let sum = money.entry(currency).or_default();
            *sum = *sum + spent;
        }
    }
    // Rounded up to cents.
    let cents = |money: Money| Money::from_micros(money.as_micros().div_ceil(10_000) * 10_000);
    let money = money.into_iter().map(|(currency, spent)| format!("{} {currency}", cents(spent))).collect();
    let node_seconds: f64 = costs.iter().map(|cost| cost.held.0.as_secs_f64() * f64::from(cost.nodes)).sum();
    let hours = format!("{:.1} node h", node_seconds / 3600.0);
    (!costs.is_empty()).then_some(NightsCost { money, hours })
}

fn day(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MS)
}

/// UTC date.
pub fn date(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

/// UTC time with minute precision.
pub fn moment(at: Timestamp) -> String {
    at.to_string().chars().take(16).collect::<String>().replace('T', " ")
}

/// Age in one unit.
pub fn ago(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.since(at).0.as_secs();
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "min"),
        3600..86_400 => (seconds / 3600, "h"),
        _ => (seconds / 86_400, "d"),
    };
    format!("{count} {unit} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A judged run `back` days ago.
    fn line(back: i64, verdict: &str, driver: &str, cost: serde_json::Value) -> RunSummary {
        let at = Timestamp::from_millis((20_000 - back) * DAY_MS);
        let line = serde_json::json!({
            "run": format!("w-{back}"), "workflow": "w", "system": "slurm", "cluster": null,
            "trigger": {"kind": "schedule", "by": "cron"}, "requested_at": at, "state": "closed",
            "conclusion": "completed", "verdict": verdict, "stage": null, "settled_at": at, "closed_at": at,
            "setup": {"driver": driver, "image": format!("sha256:{driver}"), "ranks": "16"}, "cost": cost,
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn the_last_change_is_shown_with_its_run() {
        let none = || serde_json::Value::Null;
        let told = |lines: &[RunSummary]| changed(&lines.iter().collect::<Vec<_>>());
        let same = [line(0, "pass", "13.0", none()), line(1, "pass", "13.0", none())];
        assert!(told(&same).is_none());
        let since = [
            line(0, "fail", "13.1", none()),
            line(1, "fail", "13.1", none()),
            line(2, "pass", "13.0", none()),
            line(3, "fail", "13.0", none()),
        ];
        let change = told(&since).unwrap();
        assert_eq!((change.run.as_str(), change.date), ("w-1", date(since[1].requested_at)));
        assert_eq!(change.what, "fail after pass; driver 13.1, was 13.0; another image");
    }

    #[test]
    fn the_cost_of_the_nights_shown_is_summed_by_currency() {
        let held = |spent: &str, currency: &str| serde_json::json!({"nodes": 2, "held": "30m", "idle": "1m", "spent": spent, "currency": currency});
        let lines = [
            line(0, "pass", "1", held("10.001", "USD")),
            line(1, "pass", "1", held("5", "CHF")),
            line(2, "pass", "1", serde_json::json!({"nodes": 2, "held": "30m", "idle": "1m"})),
            line(NIGHTS as i64, "pass", "1", held("1000", "USD")),
        ];
        let now = lines[0].requested_at;
        let cost = cost(&lines.iter().collect::<Vec<_>>(), now).unwrap();
        assert_eq!(
            (cost.money, cost.hours.as_str()),
            (vec!["5.00 CHF".to_owned(), "10.01 USD".to_owned()], "3.0 node h")
        );
        assert!(super::cost(&[], now).is_none());
    }
}
