//! Typed configuration from the environment; reports all problems together.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// Reads variables and collects their problems.
///
/// ```
/// # use service::config::VariableReader;
/// struct Config { port: u16, bucket: String }
/// let mut env = VariableReader::new([("PORT", "80000")]);
/// let (port, bucket) = (env.or("PORT", 8080), env.required("LEDGER_BUCKET"));
/// let problems = env.finish(|| Some(Config { port: port?, bucket: bucket? })).err().unwrap();
/// assert_eq!(problems.0.len(), 2);
/// ```
#[derive(Debug)]
pub struct VariableReader {
    variables: BTreeMap<String, String>,
    problems: Vec<VariableProblem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableProblem {
    pub variable: &'static str,
    /// The problem and the expected value.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableProblems(pub Vec<VariableProblem>);

impl std::error::Error for VariableProblems {}

impl fmt::Display for VariableProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.0.len() == 1 { "problem" } else { "problems" };
        write!(f, "{} {noun} in the environment:", self.0.len())?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {}: {}", problem.variable, problem.message))
    }
}

impl VariableReader {
    pub fn new<K: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (K, V)>) -> Self {
        let variables = variables.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self { variables, problems: Vec::new() }
    }

    /// Reads the process's environment. Variables that are not UTF-8 are ignored.
    pub fn from_env() -> Self {
        Self::new(
            std::env::vars_os()
                .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    fn read<T: FromStr<Err: fmt::Display>>(&mut self, variable: &'static str) -> Option<Option<T>> {
        match self.variables.get(variable).map(|text| (text, text.parse())) {
            None => Some(None),
            Some((_, Ok(value))) => Some(Some(value)),
            Some((text, Err(error))) => {
                let message = format!("`{text}` is invalid: {error}");
                self.problems.push(VariableProblem { variable, message });
                None
            }
        }
    }

    pub fn required<T: FromStr<Err: fmt::Display>>(&mut self, variable: &'static str) -> Option<T> {
        let value = self.read(variable)?;
        if value.is_none() {
            self.problems
                .push(VariableProblem { variable, message: "is not set and has no default".to_owned() });
        }
        value
    }

    pub fn or<T: FromStr<Err: fmt::Display>>(&mut self, variable: &'static str, default: T) -> Option<T> {
        self.read(variable).map(|value| value.unwrap_or(default))
    }

    pub fn optional<T: FromStr<Err: fmt::Display>>(&mut self, variable: &'static str) -> Option<Option<T>> {
        self.read(variable)
    }

    /// The configuration, if it has no problems.
    ///
    /// # Errors
    /// Returns an error if a variable is missing or invalid, with all problems.
    pub fn finish<T>(self, build: impl FnOnce() -> Option<T>) -> Result<T, VariableProblems> {
        match build() {
            Some(config) if self.problems.is_empty() => Ok(config),
            _ => Err(VariableProblems(self.problems)),
        }
    }
}
