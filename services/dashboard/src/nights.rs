//! Systems by nights: one look says which cluster is good, which is not, and which nobody looked at.

use std::collections::BTreeMap;

use serde::Serialize;
use terms::{RunId, Timestamp, Verdict};
use view::{Line, State};

use crate::Plan;

/// Nights that are shown.
pub const NIGHTS: usize = 14;
/// Systems that are shown.
const MOST: usize = 200;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// One system: a workflow on a cluster.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The workflow's name.
    pub workflow: String,
    /// Its cluster: the name of one that is there, the kind of one that is rented.
    pub place: String,
    /// One cell a night, oldest first.
    pub cells: Vec<Cell>,
    /// The newest run with a verdict.
    pub latest: Option<Shown>,
    /// How long ago that was.
    pub age: Option<String>,
    /// When it starts by itself next.
    pub next: Option<String>,
    /// Nobody validated it for longer than it should be.
    pub stale: bool,
}

/// A night of a system.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cell {
    /// The night's date.
    pub date: String,
    /// Its last run.
    pub run: Option<Shown>,
    /// How many there were.
    pub runs: usize,
}

/// A run as it is shown in a few letters.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// The run.
    pub run: RunId,
    /// `good`, `bad`, `unsure` or `busy`.
    pub tone: &'static str,
    /// A letter-sized sign for those who do not see colours.
    pub mark: &'static str,
    /// What it came to.
    pub word: String,
}

impl Shown {
    /// A run.
    pub fn of(line: &Line) -> Self {
        let (tone, mark, word) = match (line.verdict, line.state, line.conclusion.as_str()) {
            (Some(Verdict::Pass), ..) => ("good", "✓", "pass"),
            (Some(Verdict::Fail), ..) => ("bad", "✗", "fail"),
            (Some(Verdict::Inconclusive), ..) => ("unsure", "?", "inconclusive"),
            (None, State::Open, _) => ("busy", "…", "goes on"),
            (None, _, "completed") => ("good", "·", "done"),
            (None, _, "cancelled") => ("unsure", "–", "cancelled"),
            (None, _, "timed_out") => ("bad", "!", "timed out"),
            (None, ..) => ("bad", "!", "failed"),
        };
        Self { run: line.run.clone(), tone, mark, word: word.to_owned() }
    }
}

/// The dates of the nights, oldest first.
pub fn dates(now: Timestamp) -> Vec<String> {
    (0..NIGHTS).rev().map(|back| date(day(now) - back as i64)).collect()
}

/// Every system that ran, and every workflow that may, by name. `lines` come newest first.
pub fn rows(lines: &[Line], plans: &[Plan], now: Timestamp) -> Vec<Row> {
    let mut systems: BTreeMap<(String, String), Vec<&Line>> = BTreeMap::new();
    for line in lines {
        systems.entry((line.workflow.clone(), place(line))).or_default().push(line);
    }
    for plan in plans {
        if !systems.keys().any(|(workflow, _)| *workflow == plan.workflow) {
            systems.insert((plan.workflow.clone(), String::new()), Vec::new());
        }
    }
    let of = |((workflow, place), lines): ((String, String), Vec<&Line>)| {
        let plan = plans.iter().find(|plan| plan.workflow == workflow);
        let latest = lines.iter().find(|line| line.verdict.is_some());
        Row {
            cells: cells(&lines, now),
            latest: latest.map(|line| Shown::of(line)),
            age: latest.map(|line| ago(now, line.requested_at)),
            next: plan.and_then(|plan| plan.next).map(crate::overview::moment),
            stale: plan.is_some_and(|plan| plan.stale),
            workflow,
            place,
        }
    };
    systems.into_iter().take(MOST).map(of).collect()
}

/// A rented cluster has another name each time.
pub fn place(line: &Line) -> String {
    let rented = line.cluster.as_deref().is_none_or(|name| name.starts_with(line.run.as_str()));
    match (&line.cluster, &line.system) {
        (Some(name), _) if !rented => name.clone(),
        (_, system) => system.clone().unwrap_or_default(),
    }
}

fn cells(lines: &[&Line], now: Timestamp) -> Vec<Cell> {
    let today = day(now);
    let mut cells: Vec<Cell> = dates(now).into_iter().map(|date| Cell { date, ..Cell::default() }).collect();
    for line in lines {
        let back = usize::try_from(today - day(line.requested_at)).unwrap_or(0);
        let Some(cell) = NIGHTS.checked_sub(back + 1).and_then(|at| cells.get_mut(at)) else { continue };
        cell.runs += 1;
        cell.run.get_or_insert_with(|| Shown::of(line));
    }
    cells
}

fn day(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MS)
}

fn date(day: i64) -> String {
    Timestamp::from_millis(day * DAY_MS).to_string().chars().take(10).collect()
}

/// How long ago, to one unit.
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
