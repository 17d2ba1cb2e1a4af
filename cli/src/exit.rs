//! Exit codes: an interface, as documented in the README.

use std::{fmt, process::ExitCode};

use lifecycle::RunState;
use model::Verdict;
use workflow::{FileProblem, FileProblems};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Verdict pass, or command done.
    Pass = 0,
    /// Verdict fail.
    Fail = 1,
    /// Verdict inconclusive.
    Inconclusive = 2,
    /// The infrastructure failed.
    Infrastructure = 3,
    /// The run was cancelled, or yielded to other jobs.
    Cancelled = 4,
    /// Wrong usage or input.
    Usage = 64,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// Exit code for the conclusion and the verdict of a closed run.
    pub fn of(state: &RunState) -> Self {
        let conclusion = state.settled.as_ref().map_or("open", |(conclusion, _)| conclusion.as_str());
        Self::of_result(conclusion, state.verdict().map(|reached| reached.verdict))
    }

    /// Exit code of a run with this conclusion, as returned by [`model::Conclusion::as_str`].
    pub fn of_result(conclusion: &str, verdict: Option<Verdict>) -> Self {
        match (conclusion, verdict) {
            ("cancelled", _) => Self::Cancelled,
            // A check that failed before the run yielded decides the exit code.
            ("yielded", Some(Verdict::Fail)) => Self::Fail,
            ("yielded", _) => Self::Cancelled,
            ("completed", Some(Verdict::Fail)) => Self::Fail,
            ("completed", Some(Verdict::Inconclusive)) => Self::Inconclusive,
            ("completed", Some(Verdict::Pass) | None) => Self::Pass,
            _ => Self::Infrastructure,
        }
    }
}

/// Error message with the next step, and the exit code.
#[derive(Debug)]
pub struct CliError {
    pub message: String,
    /// Problems of files; if present, they are reported instead of `message`.
    pub problems: Vec<FileProblem>,
    pub exit: Exit,
}

impl CliError {
    pub const fn new(message: String, exit: Exit) -> Self {
        Self { message, problems: vec![], exit }
    }

    /// Problems of files, shown with their lines.
    pub fn files(problems: FileProblems) -> Self {
        Self { message: problems.to_string(), problems: problems.0, exit: Exit::Usage }
    }

    /// Error in arguments or input.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(message.to_string(), Exit::Usage)
    }

    /// Error of the environment: file system, database or network.
    pub fn infrastructure(error: impl std::error::Error) -> Self {
        Self::new(service::worker::chain(&error), Exit::Infrastructure)
    }
}
