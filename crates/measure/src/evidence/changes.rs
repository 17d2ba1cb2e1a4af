//! Findings of changes during a job.

use std::sync::Arc;

use model::metric::{Finding, Severity, Subject};

/// Maximum length of a finding's text, characters.
const TEXT: usize = 400;
/// Maximum number of findings of a node. A fault may repeat in the kernel log any number of times.
const MAX_FINDINGS: usize = 1000;

/// The findings of one node.
#[derive(Debug)]
pub(super) struct Changes {
    node: Arc<str>,
    pub findings: Vec<Finding>,
    /// Changes that do not affect the verdict.
    pub recorded: Vec<Finding>,
}

impl Changes {
    pub const fn of(node: Arc<str>) -> Self {
        Self { node, findings: Vec::new(), recorded: Vec::new() }
    }

    pub fn add(&mut self, code: &str, severity: Severity, subject: Subject, text: &str, line: u64) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(self.finding(code, severity, subject, text, line));
        }
    }

    /// Adds a change that does not affect the verdict.
    pub fn record(&mut self, code: &str, subject: Subject, text: &str, line: u64) {
        if self.recorded.len() < MAX_FINDINGS {
            self.recorded.push(self.finding(code, Severity::Unknown, subject, text, line));
        }
    }

    fn finding(&self, code: &str, severity: Severity, subject: Subject, text: &str, line: u64) -> Finding {
        let subject = Subject { node: Some(self.node.clone()), ..subject };
        Finding { code: code.to_owned(), severity, subject, text: text.chars().take(TEXT).collect(), line }
    }
}
