//! Exit codes: an interface, as documented in the README.

use std::{fmt, process::ExitCode};

use lifecycle::RunState;
use model::{Conclusion, Verdict};

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Pass, or done.
    Pass = 0,
    /// The verdict is fail.
    Fail = 1,
    /// The verdict is inconclusive.
    Inconclusive = 2,
    /// The infrastructure failed.
    Infrastructure = 3,
    /// The run was cancelled.
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
    /// What a closed run comes to.
    pub fn of(state: &RunState) -> Self {
        let conclusion = state.settled.as_ref().map(|(conclusion, _)| conclusion);
        match (conclusion, state.verdict().map(|reached| reached.verdict)) {
            (Some(Conclusion::Cancelled { .. }), _) => Self::Cancelled,
            (Some(Conclusion::Failed { .. } | Conclusion::TimedOut { .. }) | None, _) => Self::Infrastructure,
            (Some(Conclusion::Completed), Some(Verdict::Fail)) => Self::Fail,
            (Some(Conclusion::Completed), Some(Verdict::Inconclusive)) => Self::Inconclusive,
            (Some(Conclusion::Completed), Some(Verdict::Pass) | None) => Self::Pass,
        }
    }
}

/// What went wrong and what to do next, and how the command ends with it.
#[derive(Debug)]
pub struct Error {
    /// For people.
    pub message: String,
    /// For scripts.
    pub exit: Exit,
}

impl Error {
    /// The caller asked for something that cannot be.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), exit: Exit::Usage }
    }

    /// Something around us does not work.
    pub fn infrastructure(error: impl std::error::Error) -> Self {
        Self { message: service::worker::chain(&error), exit: Exit::Infrastructure }
    }
}
