use std::fmt;

/// A problem of a build config or its local execution.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuildProblem {
    /// The field, such as `steps[2].timeout`.
    pub path: String,
    /// The expectation and the next step.
    pub message: String,
}

impl BuildProblem {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for BuildProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl std::error::Error for BuildProblem {}
