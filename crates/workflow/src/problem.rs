//! Problems of a file, with their positions.

use std::fmt;

/// A position in a file, both numbers starting at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// The line of a problem, for a caret below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line as in the file, at most 300 characters of it.
    pub line: String,
    /// First marked column, starting at 0, in characters.
    pub start: usize,
    /// Number of marked characters, at least 1.
    pub length: usize,
}

/// An invalid field or syntax error, with its position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileProblem {
    /// File name as given, or `--set`.
    pub file: String,
    /// `None` for `--set` and for problems of the whole file.
    pub position: Option<Position>,
    /// The field, such as `limits.job` or `steps[2].timeout`; empty for the whole file.
    pub field: String,
    /// The problem and the expected value.
    pub message: String,
    /// The correction, such as a similar name or a corrected value; empty if none is known.
    pub help: String,
    /// The line of the position; absent for lines that may contain a secret.
    pub excerpt: Option<Box<Excerpt>>,
}

impl FileProblem {
    #[must_use]
    pub fn with_help(mut self, help: Option<String>) -> Self {
        self.help = help.unwrap_or_default();
        self
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

/// All problems of a file and of the files it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileProblems(pub Vec<FileProblem>);

impl std::error::Error for FileProblems {}

impl fmt::Display for FileProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.0.iter();
        lines.next().map_or(Ok(()), |first| first.fmt(f))?;
        lines.try_for_each(|problem| write!(f, "\n{problem}"))
    }
}

impl From<FileProblem> for FileProblems {
    fn from(problem: FileProblem) -> Self {
        Self(vec![problem])
    }
}
