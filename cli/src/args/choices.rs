//! Values of options: forms of output, filters and kinds.

use clap::ValueEnum;
use model::Span;

use crate::complete;

/// Use of colours in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColourChoice {
    /// Use colours on a terminal only.
    #[default]
    Auto,
    /// Use colours everywhere, also in a pipe.
    Always,
    /// Use no colours.
    Never,
}

/// Filters of the list of runs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RunChoice {
    /// Only runs of this workflow.
    #[arg(long, value_name = "NAME", add = complete::workflow_names())]
    pub workflow: Option<String>,
    /// Only runs with this verdict.
    #[arg(long, value_enum, value_name = "VERDICT")]
    pub verdict: Option<VerdictChoice>,
    /// Only runs requested within this time, such as 12h or 7d.
    #[arg(long, value_name = "SPAN")]
    pub since: Option<Span>,
    /// Maximum number of runs, newest first.
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<usize>,
}

/// Verdict of the selected runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerdictChoice {
    /// Pass.
    Pass,
    /// Fail.
    Fail,
    /// Inconclusive.
    Inconclusive,
}

impl RunChoice {
    /// Selects runs from a list that is ordered newest first.
    pub fn of<T: std::borrow::Borrow<run_index::RunSummary>>(
        &self,
        runs: Vec<T>,
        now: model::Timestamp,
    ) -> Vec<T> {
        let verdict = self.verdict.map(|choice| match choice {
            VerdictChoice::Pass => model::Verdict::Pass,
            VerdictChoice::Fail => model::Verdict::Fail,
            VerdictChoice::Inconclusive => model::Verdict::Inconclusive,
        });
        let chosen = |run: &T| {
            let run = run.borrow();
            self.workflow.as_ref().is_none_or(|workflow| *workflow == run.workflow)
                && verdict.is_none_or(|verdict| run.verdict == Some(verdict))
                && self.since.is_none_or(|since| now.since(run.requested_at) <= since)
        };
        runs.into_iter().filter(chosen).take(self.limit.unwrap_or(usize::MAX)).collect()
    }
}

/// Kind of cluster for the workflow that `init` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InitKind {
    /// This host, with or without GPUs.
    Quickstart,
    /// An existing Slurm cluster.
    Slurm,
    /// An existing Kubernetes cluster.
    Kubernetes,
    /// Machines reached by ssh.
    Hosts,
    /// A3 Mega on Google Cloud, deployed for each run.
    #[value(name = "a3-mega")]
    A3Mega,
    /// A4 on Google Kubernetes Engine, deployed for each run.
    A4,
    /// DGX machines with only an operating system, deployed by Ansible.
    Dgx,
    /// Logs that another program wrote.
    Logs,
}

/// A kind of file with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// Workflow.
    Workflow,
    /// Suite of checks.
    Suite,
    /// Criteria of a verdict: floors, references and tolerances.
    Criteria,
    /// Config of a build.
    Build,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text for a terminal.
    Human,
    /// JSON.
    Json,
}

/// Output format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportForm {
    /// Text for a terminal.
    Human,
    /// JSON.
    Json,
    /// CSV: one line per size and placement, with the reference values, or per metric, finding and suspect.
    Csv,
    /// Markdown, for a pull request or an issue.
    Markdown,
    /// JUnit XML, for a CI system.
    Junit,
    /// One self-contained HTML page.
    Html,
}

/// Output format of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ComparisonForm {
    /// Text for a terminal.
    Human,
    /// JSON.
    Json,
    /// Markdown, for a pull request or an issue.
    Markdown,
    /// One self-contained HTML page.
    Html,
}

/// Output format of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ParseForm {
    /// Text table.
    Table,
    /// One JSON document per log.
    Json,
    /// CSV: one line per size and placement, or per metric.
    Csv,
}
