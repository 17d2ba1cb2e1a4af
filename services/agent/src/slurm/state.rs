//! What Slurm says of a job and what the job says of itself, as one standing. Pure.
//!
//! Slurm is read as text: `scontrol show job` has said the same words since long before 22.05, while the JSON forms of
//! 22.05 and 24.11 have hardly a field in common (and `sacct --json` of 22.05 calls a job that failed with 3 a success).

use chrono::{DateTime, NaiveDateTime};
use model::{JobEnd, Timestamp};
use serde::{Deserialize, Serialize};

/// What a state means for a job that must run once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It ran to an end: its own, or one that somebody set.
    Ended,
    /// The infrastructure took it away.
    Lost,
    /// It waits for its first start.
    Waiting,
    /// It has nodes, or gives them back.
    Going,
    /// Slurm means to run it again.
    Again,
}

/// The kind of a state word, in any spelling: `CANCELLED by 0`, `CANCELLED+`, `node_fail`.
///
/// A word that nobody knows means going: a job that is taken for ended would be run beside itself, and one that is taken
/// for going ends at the stage's limit at the latest.
pub fn kind(word: &str) -> Kind {
    match canonical(word).as_str() {
        "COMPLETED" | "FAILED" | "TIMEOUT" | "OUT_OF_MEMORY" | "CANCELLED" | "DEADLINE" => Kind::Ended,
        "NODE_FAIL" | "BOOT_FAIL" | "PREEMPTED" | "REVOKED" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => Kind::Lost,
        "PENDING" => Kind::Waiting,
        "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" => Kind::Again,
        // RUNNING, CONFIGURING, COMPLETING, SUSPENDED, STOPPED, SIGNALING, RESIZING, STAGE_OUT, POWER_UP_NODE, ...
        _ => Kind::Going,
    }
}

/// The kind of several words that hold at once: newer versions give a state and its flags as a list.
pub fn kind_of_all<'a>(words: impl IntoIterator<Item = &'a str>) -> Kind {
    words.into_iter().map(kind).max().unwrap_or(Kind::Going)
}

/// As Slurm's documentation spells it.
pub fn canonical(word: &str) -> String {
    let word = word.trim().to_ascii_uppercase();
    if word.replace([' ', '-'], "_").starts_with("LAUNCH_FAILED") {
        return "LAUNCH_FAILED".to_owned();
    }
    let word = word.split_whitespace().next().unwrap_or_default().trim_end_matches('+');
    word.to_owned()
}

/// A job as Slurm shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Its number.
    pub id: u64,
    /// Its state.
    pub state: String,
    /// Why it waits, or ended.
    pub reason: String,
    /// How often Slurm has begun it again.
    pub restarts: u32,
    /// Exit code and signal of the script.
    pub exit: (i32, i32),
    /// When it began, by Slurm's clock.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Nodes it has or had.
    pub nodes: String,
}

impl Row {
    /// Reads one record of `scontrol --oneliner show job`.
    pub fn shown(text: &str) -> Option<Self> {
        // The first of each word counts: behind them come paths, which may hold anything.
        let field = |name: &str| {
            text.split_whitespace()
                .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
                .unwrap_or_default()
        };
        let nodes = match field("FailedNode") {
            "" => field("NodeList"),
            failed => failed,
        };
        Some(Self {
            id: field("JobId").parse().ok()?,
            state: canonical(field("JobState")),
            reason: field("Reason").to_owned(),
            restarts: field("Restarts").parse().unwrap_or(0),
            exit: exit(field("ExitCode")),
            started_at: moment(field("StartTime")),
            ended_at: moment(field("EndTime")),
            nodes: no_null(nodes),
        })
    }

    /// Columns for `sacct --format`; the free text comes last.
    pub const ACCOUNTED: &'static str = "JobIDRaw,State,ExitCode,Start,End,NodeList,Reason";

    /// Reads one line of `sacct --parsable2 --noheader` with these columns.
    pub fn accounted(line: &str) -> Option<Self> {
        let mut columns = line.split('|');
        let mut next = || columns.next().unwrap_or_default();
        Some(Self {
            id: next().parse().ok()?,
            state: canonical(next()),
            exit: exit(next()),
            started_at: moment(next()),
            ended_at: moment(next()),
            nodes: no_null(next()),
            reason: next().to_owned(),
            restarts: 0,
        })
    }

    /// What its state means.
    pub fn kind(&self) -> Kind {
        kind(&self.state)
    }

    fn end(&self, state: &str) -> JobEnd {
        let (code, signal) = self.exit;
        JobEnd {
            state: state.to_owned(),
            exit_code: (signal == 0).then_some(code),
            signal: (signal != 0).then_some(signal),
            started_at: self.started_at,
            ended_at: self.ended_at,
        }
    }
}

fn no_null(text: &str) -> String {
    if ["(null)", "None", "None assigned"].contains(&text) { String::new() } else { text.to_owned() }
}

fn exit(text: &str) -> (i32, i32) {
    let (code, signal) = text.split_once(':').unwrap_or((text, "0"));
    (code.parse().unwrap_or(0), signal.parse().unwrap_or(0))
}

/// Slurm writes local time; it is asked with UTC as the local zone.
fn moment(text: &str) -> Option<Timestamp> {
    Some(NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok()?.and_utc().into())
}

/// What the folder of a job tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Somebody asked for its end.
    pub cancelled: bool,
    /// The number that `sbatch` gave, if it was heard.
    pub submitted: Option<u64>,
    /// Which start of which job runs the benchmark: `{number}.{restarts}`.
    pub claim: Option<String>,
    /// Starts that found it claimed.
    pub refused: Vec<String>,
    /// How it ended.
    pub end: Option<End>,
}

/// A job's own word of its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Which start of which job.
    pub attempt: String,
    /// The benchmark was begun.
    pub launched: bool,
    /// Exit code of the benchmark, or of what kept it from beginning.
    pub exit_code: i32,
    /// First moment.
    pub started_at: DateTime<chrono::Utc>,
    /// Last moment.
    pub ended_at: DateTime<chrono::Utc>,
    /// Its nodes, as Slurm writes a list of them.
    #[serde(default)]
    pub nodes: String,
}

impl End {
    fn end(&self, state: &str) -> JobEnd {
        // A shell says 128 + signal.
        let signal = (129..160).contains(&self.exit_code).then_some(self.exit_code - 128);
        JobEnd {
            state: state.to_owned(),
            exit_code: Some(self.exit_code),
            signal,
            started_at: Some(self.started_at.into()),
            ended_at: Some(self.ended_at.into()),
        }
    }
}

/// What is found when both are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Nobody knows it, and nothing of it ran.
    Absent,
    /// It waits, for this reason.
    Waiting(String),
    /// It runs, or what is missing may still show.
    Going,
    /// It ran to an end.
    Ended(JobEnd),
    /// It is gone, or has to be ended because it cannot come to an end of its own.
    Lost {
        /// Slurm's word.
        code: String,
        /// What happened.
        why: String,
    },
    /// It will never start unless somebody changes the cluster or the workflow.
    Never {
        /// Slurm's reason.
        reason: String,
    },
}

/// How long after a job's end its own word may take to be seen on a shared folder, milliseconds.
const VISIBLE_AFTER: i64 = 60_000;

/// Where a job stands, by everything that Slurm knows under its name and by its folder.
pub fn standing(rows: &[Row], marks: &Marks, now: Timestamp) -> Finding {
    if let Some(end) = &marks.end
        && end.launched
        && end.exit_code == 0
    {
        return Finding::Ended(end.end("COMPLETED")); // whatever happened to its nodes afterwards
    }
    match &marks.claim {
        Some(claim) => {
            let (id, restarts) = claim.split_once('.').unwrap_or((claim, "0"));
            let row = rows.iter().find(|row| row.id.to_string() == id);
            row.map_or_else(|| forgotten(marks, claim), |row| claimed(row, restarts, marks, now))
        }
        None => unclaimed(rows, marks, now),
    }
}

/// The job that runs the benchmark, as Slurm and it itself tell.
fn claimed(row: &Row, restarts: &str, marks: &Marks, now: Timestamp) -> Finding {
    let kind = row.kind();
    // Only one start of it may run the benchmark, and that one is over.
    if row.restarts.to_string() != restarts && row.restarts > 0 || matches!(kind, Kind::Again | Kind::Waiting)
    {
        return lost("REQUEUED", row, "it had begun, and Slurm began it again");
    }
    match (kind, row.state.as_str(), &marks.end) {
        (Kind::Lost, word, _) => lost(word, row, "Slurm took it away"),
        (Kind::Ended, "COMPLETED" | "FAILED", Some(end)) => own_word(end, marks),
        (Kind::Ended, "COMPLETED", None) if young(row, now) => Finding::Going,
        (Kind::Ended, "COMPLETED", None) => lost("NO_END", row, "it ended without a word of its own"),
        (Kind::Ended, word, _) => Finding::Ended(row.end(word)),
        _ => Finding::Going,
    }
}

/// Slurm has no memory of the job that ran the benchmark.
fn forgotten(marks: &Marks, claim: &str) -> Finding {
    match &marks.end {
        Some(end) => own_word(end, marks),
        None => Finding::Lost {
            code: "FORGOTTEN".to_owned(),
            why: format!("Slurm no longer knows the job, whose start {claim} left no end"),
        },
    }
}

fn own_word(end: &End, marks: &Marks) -> Finding {
    match (end.launched, end.exit_code) {
        (false, 0) => Finding::Ended(JobEnd { exit_code: None, ..end.end("CANCELLED") }),
        (false, code) => Finding::Lost {
            code: "LAUNCH_FAILED".to_owned(),
            why: format!(
                "not every node could be reached before the benchmark (exit code {code}); see hosts.log"
            ),
        },
        (true, _) if marks.cancelled => Finding::Ended(end.end("CANCELLED")),
        (true, _) => Finding::Ended(end.end("FAILED")),
    }
}

/// No job of the name has begun.
fn unclaimed(rows: &[Row], marks: &Marks, now: Timestamp) -> Finding {
    // The first to be submitted goes first: the others wait for it.
    let mut rows: Vec<&Row> = rows.iter().filter(|row| !refused(row)).collect();
    rows.sort_by_key(|row| (matches!(row.kind(), Kind::Ended | Kind::Lost), row.id));
    let Some(row) = rows.first() else {
        return match marks.cancelled {
            true => Finding::Ended(cancelled()),
            false => Finding::Absent,
        };
    };
    if row.state == "FAILED" && row.reason == "JobLaunchFailure" {
        return lost("LAUNCH_FAILED", row, "its first node could not begin it");
    }
    if launch_failed(row) {
        return lost("LAUNCH_FAILED", row, "a node could not begin it, and Slurm holds it");
    }
    match (row.kind(), row.state.as_str()) {
        (Kind::Waiting, _) if never(&row.reason) => Finding::Never { reason: row.reason.clone() },
        (Kind::Waiting, _) => Finding::Waiting(row.reason.clone()),
        (Kind::Going, _) => Finding::Going,
        (Kind::Again, word) => lost(word, row, "Slurm took it back before it had begun"),
        (Kind::Lost, word) => lost(word, row, "Slurm took it away"),
        (Kind::Ended, "CANCELLED") if marks.cancelled => Finding::Ended(cancelled()),
        (Kind::Ended, "CANCELLED") => Finding::Ended(JobEnd { exit_code: None, ..row.end("CANCELLED") }),
        (Kind::Ended, _) if young(row, now) && row.exit == (0, 0) => Finding::Going,
        (Kind::Ended, word) => {
            lost("NOT_BEGUN", row, &format!("it is {word} and never began; see slurm.log"))
        }
    }
}

/// Nodes of a job that had some and is cancelled though nobody here asked for it. Its script may have begun on the first
/// of them while the prolog of another failed.
pub fn unexplained<'a>(rows: &'a [Row], marks: &Marks, finding: &Finding) -> Option<&'a str> {
    let ended = matches!(finding, Finding::Ended(end) if end.state == "CANCELLED");
    let row = rows.iter().find(|row| row.state == "CANCELLED" && !row.nodes.is_empty())?;
    (ended && !marks.cancelled).then_some(row.nodes.as_str())
}

fn cancelled() -> JobEnd {
    JobEnd { state: "CANCELLED".to_owned(), exit_code: None, signal: None, started_at: None, ended_at: None }
}

/// A submission that Slurm refused: 24.11 keeps a record of it in its accounts.
pub fn refused(row: &Row) -> bool {
    row.state == "FAILED" && row.started_at.is_none() && row.nodes.is_empty()
}

/// `launch failed requeued held` and its kin: a prolog failed, and the job is held after having been begun.
fn launch_failed(row: &Row) -> bool {
    let reason = row.reason.to_ascii_lowercase().replace([' ', '_'], "");
    let held = matches!(reason.as_str(), "jobheldadmin" | "jobhelduser");
    row.kind() == Kind::Waiting && (reason.contains("launchfailed") || (held && row.restarts > 0))
}

/// Reasons that waiting does not cure.
fn never(reason: &str) -> bool {
    const NEVER: [&str; 9] = [
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "AccountNotAllowed",
        "QOSNotAllowed",
        "DependencyNeverSatisfied",
        "ReservationDeleted",
    ];
    let limit_of_one_job = ["Assoc", "QOS"].iter().any(|by| reason.starts_with(by))
        && (reason.contains("PerJob") || reason.contains("WallDuration"));
    NEVER.contains(&reason) || limit_of_one_job
}

fn young(row: &Row, now: Timestamp) -> bool {
    row.ended_at.is_none_or(|ended| now.as_millis() - ended.as_millis() < VISIBLE_AFTER)
}

fn lost(code: &str, row: &Row, what: &str) -> Finding {
    let on = if row.nodes.is_empty() { String::new() } else { format!(" on {}", row.nodes) };
    let reason = match row.reason.as_str() {
        "" | "None" => String::new(),
        reason => format!(" ({reason})"),
    };
    Finding::Lost { code: code.to_owned(), why: format!("job {}{on}: {what}{reason}", row.id) }
}
