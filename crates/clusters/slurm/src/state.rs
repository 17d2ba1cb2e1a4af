//! Combines Slurm's state of a job and the job's own record into one state. Pure.
//!
//! Slurm is read as text. The words of `scontrol show job` have not changed since before 22.05, while the JSON forms of 22.05 and 24.11
//! share hardly any field, and `sacct --json` of 22.05 reports a job with exit code 3 as a success.

use chrono::{DateTime, NaiveDateTime};
use model::{JobEnd, Timestamp};
use serde::{Deserialize, Serialize};

/// Meaning of a Slurm state for a job that must run once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlurmStateKind {
    /// The job has ended on its own, at a limit or by a cancel, or was cancelled before its start.
    Ended,
    /// Ended by the infrastructure.
    Lost,
    /// Waiting for its first start.
    Waiting,
    /// The job has nodes, or is releasing them.
    Active,
    /// Requeued: Slurm will run it again.
    Requeued,
}

/// Kind of a state word, in any spelling: `CANCELLED by 0`, `CANCELLED+`, `node_fail`.
///
/// An unknown word means running: a job wrongly taken for ended would run twice, while a job wrongly taken for running ends at
/// the stage's limit.
pub fn kind(word: &str) -> SlurmStateKind {
    match canonical(word).as_str() {
        "COMPLETED" | "FAILED" | "TIMEOUT" | "OUT_OF_MEMORY" | "CANCELLED" | "DEADLINE" => {
            SlurmStateKind::Ended
        }
        "NODE_FAIL" | "BOOT_FAIL" | "PREEMPTED" | "REVOKED" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => {
            SlurmStateKind::Lost
        }
        "PENDING" => SlurmStateKind::Waiting,
        "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" => SlurmStateKind::Requeued,
        // All other words: RUNNING, CONFIGURING, COMPLETING, SUSPENDED, STOPPED, SIGNALING, RESIZING, STAGE_OUT, POWER_UP_NODE, and unknown
        // ones.
        _ => SlurmStateKind::Active,
    }
}

/// A state word as spelled in Slurm's documentation.
pub fn canonical(word: &str) -> String {
    let word = word.trim().to_ascii_uppercase();
    if word.replace([' ', '-'], "_").starts_with("LAUNCH_FAILED") {
        return "LAUNCH_FAILED".to_owned();
    }
    let word = word.split_whitespace().next().unwrap_or_default().trim_end_matches('+');
    word.to_owned()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmJobRow {
    /// Number that Slurm assigned to the job.
    pub id: u64,
    /// State word, as printed by Slurm.
    pub state: String,
    /// Reason for waiting or for the end.
    pub reason: String,
    pub restarts: u32,
    /// Exit code and signal of the script.
    pub exit: (i32, i32),
    /// `None` if Slurm reports no start.
    pub started_at: Option<Timestamp>,
    /// `None` if Slurm reports no end.
    pub ended_at: Option<Timestamp>,
    /// Allocated nodes, as a Slurm node list.
    pub nodes: String,
}

impl SlurmJobRow {
    /// Parses one record of `scontrol --oneliner show job`.
    pub fn from_scontrol(text: &str) -> Option<Self> {
        let field = |name| field(text, name);
        let nodes = match field("FailedNode") {
            "" => field("NodeList"),
            failed => failed,
        };
        Some(Self {
            id: field("JobId").parse().ok()?,
            state: canonical(field("JobState")),
            reason: field("Reason").to_owned(),
            restarts: field("Restarts").parse().unwrap_or(0),
            exit: parse_exit(field("ExitCode")),
            started_at: parse_time(field("StartTime")),
            ended_at: parse_time(field("EndTime")),
            nodes: node_list(nodes),
        })
    }

    /// Columns for `sacct --format`; the free text is last.
    pub const ACCOUNTING_COLUMNS: &'static str = "JobIDRaw,State,ExitCode,Start,End,NodeList,Reason";

    /// Parses one line of `sacct --parsable2 --noheader` with these columns.
    pub fn from_accounting(line: &str) -> Option<Self> {
        let mut columns = line.split('|');
        let mut next = || columns.next().unwrap_or_default();
        Some(Self {
            id: next().parse().ok()?,
            state: canonical(next()),
            exit: parse_exit(next()),
            started_at: parse_time(next()),
            ended_at: parse_time(next()),
            nodes: node_list(next()),
            reason: next().to_owned(),
            restarts: 0,
        })
    }

    /// Meaning of the state for Burnin.
    pub fn kind(&self) -> SlurmStateKind {
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
            nodes: Vec::new(),
        }
    }
}

/// A field of a record of `scontrol --oneliner show`; empty if absent. Returns the first match, because paths at the end may contain any
/// text.
pub fn field<'a>(record: &'a str, name: &str) -> &'a str {
    let mut words = record.split_whitespace();
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
}

fn node_list(text: &str) -> String {
    if ["(null)", "None", "None assigned"].contains(&text) { String::new() } else { text.to_owned() }
}

fn parse_exit(text: &str) -> (i32, i32) {
    let (code, signal) = text.split_once(':').unwrap_or((text, "0"));
    (code.parse().unwrap_or(0), signal.parse().unwrap_or(0))
}

/// Slurm prints local time; its commands run with UTC as the local zone.
fn parse_time(text: &str) -> Option<Timestamp> {
    Some(NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok()?.and_utc().into())
}

/// Marks in the folder of a job, written by the agent and by the job's script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub cancelled: bool,
    /// Job id returned by `sbatch`, unless its response was lost.
    pub submitted: Option<u64>,
    /// The execution of the job script that runs the benchmark: job id and restart count, `{id}.{restarts}`.
    pub claim: Option<String>,
    /// The job's own record of its end.
    pub end: Option<LauncherEnd>,
}

/// A job's own record of its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LauncherEnd {
    /// The execution of the job script: job id and restart count, `{id}.{restarts}`. For operators.
    pub attempt: String,
    /// Whether the benchmark was started.
    pub launched: bool,
    /// Exit code of the benchmark, or of the error that prevented its start.
    pub exit_code: i32,
    /// Whether the benchmark was stopped at its time limit.
    #[serde(default)]
    pub timed_out: bool,
    /// Start, from the job's own record.
    pub started_at: DateTime<chrono::Utc>,
    /// End, from the job's own record.
    pub ended_at: DateTime<chrono::Utc>,
    /// Nodes, as a Slurm node list.
    #[serde(default)]
    pub nodes: String,
}

impl LauncherEnd {
    /// Whether the benchmark was started and succeeded.
    pub fn succeeded(&self) -> bool {
        self.launched && self.exit_code == 0
    }

    fn end(&self, state: &str) -> JobEnd {
        // A shell reports 128 + signal.
        let signal = (129..160).contains(&self.exit_code).then_some(self.exit_code - 128);
        JobEnd {
            state: state.to_owned(),
            exit_code: Some(self.exit_code),
            signal,
            started_at: Some(self.started_at.into()),
            ended_at: Some(self.ended_at.into()),
            nodes: Vec::new(),
        }
    }
}

/// State derived from Slurm's records and the job's marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlurmFinding {
    /// Unknown to Slurm, and never started.
    Absent,
    /// Waiting, with the reason.
    Waiting(String),
    /// Running, or undecided because Slurm or the job may still write a missing record.
    Active,
    /// The job ran and has ended.
    Ended(JobEnd),
    /// Ended by the infrastructure; or held or requeued by Slurm after its start, so that the job must be cancelled.
    Lost { code: String, why: String },
    /// The job cannot start without a change of the cluster or the workflow.
    Unschedulable { reason: String },
}

/// Delay until a job's own record is visible on a shared folder, milliseconds.
const VISIBLE_AFTER: i64 = 60_000;

/// State of a job, from all Slurm records of its name and the marks of its folder.
pub fn derive(rows: &[SlurmJobRow], marks: &Marks, now: Timestamp) -> SlurmFinding {
    if let Some(end) = marks.end.as_ref().filter(|end| end.succeeded()) {
        return SlurmFinding::Ended(end.end("COMPLETED")); // later node failures do not change it
    }
    let row = row_of_job(rows, marks);
    match &marks.claim {
        Some(claim) => {
            let restarts = claim.split_once('.').map_or("0", |(_, restarts)| restarts);
            row.map_or_else(|| purged(marks, claim), |row| claimed(row, restarts, marks, now))
        }
        None => unclaimed(row, marks, now),
    }
}

/// The record of the job that has claimed the benchmark; `None` if Slurm has purged it. Without a claim, the record of the first submission:
/// Slurm lets later jobs of the same name wait for its end.
pub fn row_of_job<'a>(rows: &'a [SlurmJobRow], marks: &Marks) -> Option<&'a SlurmJobRow> {
    if let Some(claim) = &marks.claim {
        let id = claim.split_once('.').map_or(claim.as_str(), |(id, _)| id);
        return rows.iter().find(|row| row.id.to_string() == id);
    }
    let submitted = rows.iter().filter(|row| !was_rejected(row));
    submitted.min_by_key(|row| (matches!(row.kind(), SlurmStateKind::Ended | SlurmStateKind::Lost), row.id))
}

/// State of the job that runs the benchmark.
fn claimed(row: &SlurmJobRow, restarts: &str, marks: &Marks, now: Timestamp) -> SlurmFinding {
    let kind = row.kind();
    // Only one execution of the job script may run the benchmark, and that execution has ended.
    // Accounting records have no number of restarts.
    let was_restarted = row.restarts > 0 && row.restarts.to_string() != restarts;
    if was_restarted || matches!(kind, SlurmStateKind::Requeued | SlurmStateKind::Waiting) {
        return lost_finding("REQUEUED", row, "it had started, and Slurm restarted it");
    }
    match (kind, row.state.as_str(), &marks.end) {
        (SlurmStateKind::Lost, word, _) => ended_by_slurm(word, row),
        (SlurmStateKind::Ended, "COMPLETED" | "FAILED", Some(end)) => recorded_finding(end, marks),
        (SlurmStateKind::Ended, "COMPLETED", None) if is_recent(row, now) => SlurmFinding::Active,
        (SlurmStateKind::Ended, "COMPLETED", None) => {
            lost_finding("NO_END", row, "it ended without its own record")
        }
        (SlurmStateKind::Ended, word, _) => SlurmFinding::Ended(row.end(word)),
        _ => SlurmFinding::Active,
    }
}

/// Slurm has purged the job that ran the benchmark.
fn purged(marks: &Marks, claim: &str) -> SlurmFinding {
    match &marks.end {
        Some(end) => recorded_finding(end, marks),
        None => SlurmFinding::Lost {
            code: "FORGOTTEN".to_owned(),
            why: format!("Slurm has purged the job, and its start {claim} recorded no end"),
        },
    }
}

fn recorded_finding(end: &LauncherEnd, marks: &Marks) -> SlurmFinding {
    match (end.launched, end.exit_code) {
        (false, 0) => SlurmFinding::Ended(JobEnd { exit_code: None, ..end.end("CANCELLED") }),
        (false, code) => SlurmFinding::Lost {
            code: "LAUNCH_FAILED".to_owned(),
            why: format!(
                "at least one node was unreachable before the benchmark (exit code {code}); see hosts.log"
            ),
        },
        (true, _) if marks.cancelled => SlurmFinding::Ended(end.end("CANCELLED")),
        (true, _) if end.timed_out => SlurmFinding::Ended(JobEnd { exit_code: None, ..end.end("TIMEOUT") }),
        (true, _) => SlurmFinding::Ended(end.end("FAILED")),
    }
}

/// State if no job of the name has claimed the benchmark. `row`: record of the first submission.
fn unclaimed(row: Option<&SlurmJobRow>, marks: &Marks, now: Timestamp) -> SlurmFinding {
    let Some(row) = row else {
        return match marks.cancelled {
            true => SlurmFinding::Ended(JobEnd::new("CANCELLED", None)),
            false => SlurmFinding::Absent,
        };
    };
    if row.state == "FAILED" && row.reason == "JobLaunchFailure" {
        return lost_finding("LAUNCH_FAILED", row, "its first node could not start it");
    }
    if launch_failed(row) {
        return lost_finding("LAUNCH_FAILED", row, "a node could not start it, and Slurm holds it");
    }
    match (row.kind(), row.state.as_str()) {
        (SlurmStateKind::Waiting, _) if is_permanent_reason(&row.reason) => {
            SlurmFinding::Unschedulable { reason: row.reason.clone() }
        }
        (SlurmStateKind::Waiting, _) => SlurmFinding::Waiting(row.reason.clone()),
        (SlurmStateKind::Active, _) => SlurmFinding::Active,
        (SlurmStateKind::Requeued, word) => {
            lost_finding(word, row, "Slurm requeued it before it had started")
        }
        (SlurmStateKind::Lost, word) => ended_by_slurm(word, row),
        (SlurmStateKind::Ended, "CANCELLED") if marks.cancelled => {
            SlurmFinding::Ended(JobEnd::new("CANCELLED", None))
        }
        (SlurmStateKind::Ended, "CANCELLED") => {
            SlurmFinding::Ended(JobEnd { exit_code: None, ..row.end("CANCELLED") })
        }
        (SlurmStateKind::Ended, "DEADLINE") => {
            lost_finding("DEADLINE", row, "it could not start before its deadline")
        }
        (SlurmStateKind::Ended, _) if is_recent(row, now) && row.exit == (0, 0) => SlurmFinding::Active,
        (SlurmStateKind::Ended, word) => {
            lost_finding("NOT_BEGUN", row, &format!("it is {word} and never started; see slurm.log"))
        }
    }
}

/// Nodes of a cancelled job that Burnin did not cancel. The script may have started on the first node while the prolog
/// of another node failed.
pub fn unexplained<'a>(rows: &'a [SlurmJobRow], marks: &Marks, finding: &SlurmFinding) -> Option<&'a str> {
    let ended = matches!(finding, SlurmFinding::Ended(end) if end.state == "CANCELLED");
    let row = rows.iter().find(|row| row.state == "CANCELLED" && !row.nodes.is_empty())?;
    (ended && !marks.cancelled).then_some(row.nodes.as_str())
}

/// Whether Slurm rejected the submission: Slurm 24.11 keeps an accounting record of rejected submissions.
pub fn was_rejected(row: &SlurmJobRow) -> bool {
    row.state == "FAILED" && row.started_at.is_none() && row.nodes.is_empty()
}

/// Whether a prolog failed and the job is held after its start (`launch failed requeued held` and similar reasons).
fn launch_failed(row: &SlurmJobRow) -> bool {
    let reason = row.reason.to_ascii_lowercase().replace([' ', '_'], "");
    let held = matches!(reason.as_str(), "jobheldadmin" | "jobhelduser");
    row.kind() == SlurmStateKind::Waiting && (reason.contains("launchfailed") || (held && row.restarts > 0))
}

/// Whether waiting cannot resolve this reason.
fn is_permanent_reason(reason: &str) -> bool {
    const PERMANENT: [&str; 9] = [
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
    PERMANENT.contains(&reason) || limit_of_one_job
}

fn is_recent(row: &SlurmJobRow, now: Timestamp) -> bool {
    row.ended_at.is_none_or(|ended| now.as_millis() - ended.as_millis() < VISIBLE_AFTER)
}

fn ended_by_slurm(word: &str, row: &SlurmJobRow) -> SlurmFinding {
    let what = if word == "PREEMPTED" { "Slurm preempted it for another job" } else { "Slurm ended it" };
    lost_finding(word, row, what)
}

fn lost_finding(code: &str, row: &SlurmJobRow, what: &str) -> SlurmFinding {
    let on = if row.nodes.is_empty() { String::new() } else { format!(" on {}", row.nodes) };
    let reason = match row.reason.as_str() {
        "" | "None" => String::new(),
        reason => format!(" ({reason})"),
    };
    SlurmFinding::Lost { code: code.to_owned(), why: format!("job {}{on}: {what}{reason}", row.id) }
}
