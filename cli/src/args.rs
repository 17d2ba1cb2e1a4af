//! Command-line arguments; their doc comments are the texts of `--help`.

mod choices;
#[cfg(test)]
mod documented;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use model::{RunId, Span};
use workflow::Override;

use crate::complete;

pub use choices::{
    ColourChoice, ComparisonForm, InitKind, Output, ParseForm, ReportForm, RunChoice, SchemaKind,
};

/// Validates GPU clusters with NCCL benchmarks, once or continuously.
#[derive(Debug, Parser)]
#[command(name = "burnin", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// Without a command, `burnin` prints the first commands to try.
    #[command(subcommand)]
    pub command: Option<CliCommand>,

    /// Data folder: ledger, artefacts, warehouse and reports.
    #[arg(long, global = true, env = "BURNIN_DATA", default_value = ".burnin", value_name = "DIR")]
    pub data: PathBuf,

    /// Execute the command on a server instead of this machine: the deployed gateway, or a `burnin up`. Supported by run, runs, show,
    /// explain, replay, cancel, logs, and baseline pin, unpin and pins; commands that use no runs, such as check, ignore the environment
    /// variable. The token comes from BURNIN_TOKEN, or from your own `burnin up`.
    #[arg(long, global = true, env = "BURNIN_SERVER", value_name = "URL", value_parser = crate::server::address)]
    pub server: Option<reqwest::Url>,

    /// Print errors and results only, without progress.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Log more to standard error; repeat the flag for more detail.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Colours: auto uses them on a terminal unless NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t = ColourChoice::Auto, value_name = "WHEN")]
    pub color: ColourChoice,

    /// Log filter for standard error, in RUST_LOG syntax.
    #[arg(long, global = true, env = "RUST_LOG", default_value = "error", value_name = "FILTER")]
    pub log: String,
}

const EXIT_CODES: &str = "Exit codes: 0 pass or done, 1 fail, 2 inconclusive, 3 infrastructure failed, \
                          4 cancelled, 64 wrong usage or input";

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Write a first workflow with its criteria for this host. Detects partitions, GPUs, Kubernetes contexts and
    /// nccl-tests.
    Init {
        /// Target of the workflow; default: the Slurm cluster of this host, otherwise this host.
        #[arg(value_enum, value_name = "KIND")]
        kind: Option<InitKind>,
        /// Folder for the files; `burnin up` serves the folder `workflows` by default.
        #[arg(long, default_value = "workflows", value_name = "DIR")]
        folder: PathBuf,
        /// Overwrite existing files.
        #[arg(long)]
        force: bool,
    },
    /// Print the JSON Schema of a kind of file, for editors.
    Schema {
        /// Kind of file whose schema is printed.
        #[arg(value_enum, default_value_t = SchemaKind::Workflow, value_name = "KIND")]
        kind: SchemaKind,
    },
    /// Run a workflow on this machine until the run is closed.
    Run {
        /// Workflow file; with --server the name of a workflow.
        #[arg(required_unless_present = "resume", conflicts_with = "resume", value_name = "WORKFLOW", add = complete::workflow_files_or_paths())]
        workflow: Option<PathBuf>,
        /// YAML file with your values: substitutions of the builds (`_PROJECT: ...`) and fields of the workflow.
        #[arg(long, value_name = "FILE", conflicts_with = "resume")]
        values: Option<PathBuf>,
        /// Override a field of the file, such as limits.job=10m. Repeatable.
        #[arg(long, value_name = "KEY=VALUE", conflicts_with = "resume")]
        set: Vec<Override>,
        /// Resume an interrupted run: the named one, or the only unfinished one.
        #[arg(long, value_name = "RUN", num_args = 0..=1, add = complete::runs())]
        resume: Option<Option<RunId>>,
        /// Output format of the result.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Serve the gateway, all services, schedules and repository polling on this machine. Resumes unfinished runs. Stops on
    /// SIGTERM or Ctrl-C; running jobs continue, and the next `burnin up` resumes their runs.
    Up {
        /// Folder of the workflow files.
        #[arg(long, default_value = "workflows", value_name = "DIR")]
        workflows: PathBuf,
        /// Port on 127.0.0.1; 0 picks a free port.
        #[arg(long, default_value_t = 8080, value_name = "PORT")]
        port: u16,
        /// Interval between polls of repository refs.
        #[arg(long = "look", default_value = "1m", value_name = "SPAN")]
        poll_interval: Span,
        /// Maximum rate per caller: requests per second, changes per second.
        #[arg(long, default_value = "50,5", value_name = "RATES")]
        rates: gateway::Rates,
        /// URL template of a run in messages, with {run} as placeholder; default: this server.
        #[arg(long, env = "BURNIN_LINK", value_name = "URL")]
        link: Option<notifier::RunLink>,
        /// Base URL of GitHub's REST API.
        #[arg(
            long,
            env = "BURNIN_GITHUB_API",
            default_value = "https://api.github.com",
            value_name = "URL",
            hide_env = true
        )]
        github: notifier::senders::GithubApi,
    },
    /// Check a workflow file, the files that it references, and whether a run of it can succeed. Exit code 64 for errors, and
    /// for warnings with --strict.
    Check {
        /// Workflow file.
        #[arg(add = complete::workflow_files_or_paths())]
        workflow: PathBuf,
        /// YAML file with your values.
        #[arg(long, value_name = "FILE")]
        values: Option<PathBuf>,
        /// Override a field of the file.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<Override>,
        /// Treat warnings as errors.
        #[arg(long)]
        strict: bool,
    },
    /// Print the stages of a workflow, the resources that it creates, and their maximum lifetime.
    Plan {
        /// Workflow file.
        #[arg(add = complete::workflow_files_or_paths())]
        workflow: PathBuf,
        /// YAML file with your values.
        #[arg(long, value_name = "FILE")]
        values: Option<PathBuf>,
        /// Override a field of the file.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<Override>,
        /// Print only the submission of each check: the sbatch script, the JobSet, or the command line with its
        /// files.
        #[arg(long)]
        script: bool,
    },
    /// List the runs of this data folder, newest first.
    Runs {
        #[command(flatten)]
        choice: RunChoice,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Show one run.
    Show {
        /// Run id, prefix of a run id, or `latest`.
        #[arg(add = complete::runs())]
        run: RunId,
        /// Check to show if the run has several; default: the check with the most severe verdict.
        #[arg(long, value_name = "NAME", add = complete::checks())]
        check: Option<String>,
        /// Output format.
        #[arg(long, value_enum, default_value_t = ReportForm::Human)]
        output: ReportForm,
    },
    /// Print the hand-over document of a run (Markdown): the request, the measurements with their devices, and the
    /// missing measurements. `export` signs it with the run.
    Handover {
        /// Run id, prefix of a run id, or `latest`.
        #[arg(add = complete::runs())]
        run: RunId,
    },
    /// Export a closed run as one signed file: ledger, logs, measurements, verdict, report and hand-over document.
    Export {
        /// Run id, prefix of a run id, or `latest`.
        #[arg(add = complete::runs())]
        run: RunId,
        /// Ed25519 private key, as written by `openssl genpkey -algorithm ed25519 -out KEY`.
        #[arg(long, value_name = "KEY")]
        key: PathBuf,
        /// Output file; default: `RUN.burnin.tar`.
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
    },
    /// Verify an exported file offline: the signature, every byte, and the result of the replayed ledger. Exit code 1 if verification
    /// fails.
    Verify {
        /// Exported file, as written by `burnin export`.
        bundle: PathBuf,
        /// Trusted public key, as written by `openssl pkey -in KEY -pubout`.
        #[arg(long, value_name = "KEY")]
        key: Option<PathBuf>,
    },
    /// Explain a reason code of a verdict, such as BELOW_FLOOR (its meaning and the next step), or the state of a run
    /// with its pending commands.
    Explain {
        /// Reason code, or run id.
        #[arg(value_name = "CODE|RUN", add = complete::runs())]
        what: String,
    },
    /// Cancel a run and release its cluster.
    Cancel {
        /// Run id, prefix of a run id, or `latest`.
        #[arg(add = complete::runs())]
        run: RunId,
        /// Reason, recorded in the ledger.
        #[arg(long, default_value = "requested on the command line")]
        reason: String,
    },
    /// List the logs of a run, print one log or the logs of a check, or follow a run that is in progress.
    Logs {
        /// Run id, prefix of a run id, or `latest`.
        #[arg(add = complete::runs())]
        run: RunId,
        /// Name of the log; without it the command lists the names.
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Print all logs of this check.
        #[arg(long, value_name = "NAME", conflicts_with = "name", add = complete::checks())]
        check: Option<String>,
        /// Print all logs and the output of running jobs until the run is closed. A server publishes a log when its job
        /// has ended.
        #[arg(short, long, conflicts_with = "name")]
        follow: bool,
    },
    /// Delete every cluster whose lease has expired, without reading any ledger. Exit code 3 if a
    /// cluster could not be deleted.
    Sweep {
        /// Grace period after the end of a lease.
        #[arg(long, default_value = "2m", value_name = "SPAN")]
        grace: Span,
        /// Only print the clusters that would be deleted.
        #[arg(long)]
        dry_run: bool,
        /// Delete kept parts (`CLUSTER-kept`) before their lease ends, if no run uses them.
        #[arg(long, value_name = "NAME", conflicts_with = "dry_run")]
        release: Option<String>,
    },
    /// Replay a run's ledger record by record.
    Replay {
        /// Run id, prefix of a run id, or `latest`.
        #[arg(add = complete::runs())]
        run: RunId,
    },
    /// Parse logs of nccl-tests and of the other benchmarks in docs/METRICS.md. Exit code 2 if a log contains no table, metric or finding.
    Parse {
        /// Log files, text or JSON, plain or gzip; `-` reads standard input.
        #[arg(required = true, value_name = "FILE")]
        logs: Vec<PathBuf>,
        /// Read the logs in this format of docs/METRICS.md, or by this declaration (a YAML file), and print which line each of its rules
        /// matched. Default: the detected format.
        #[arg(long, value_name = "FORMAT|RULES")]
        read: Option<PathBuf>,
        /// Output format.
        #[arg(long, value_enum, default_value_t = ParseForm::Table)]
        output: ParseForm,
    },
    /// Judge logs by criteria, by a baseline, or by both. The verdict sets the exit code.
    #[command(group = clap::ArgGroup::new("by").args(["criteria", "baseline"]).multiple(true).required(true))]
    Judge {
        /// Logs, each judged separately; the most severe verdict is the combined verdict. A folder includes all its files. Logs that all
        /// contain their start time are judged as a time series.
        #[arg(required = true, value_name = "LOG")]
        logs: Vec<PathBuf>,
        /// Judge the logs as a time series, which finds small lasting changes against the baseline. Order: by start time if every log
        /// contains one, otherwise as given, oldest first.
        #[arg(long, requires = "baseline")]
        series: bool,
        /// Judge the logs as those of one run, with one log for each node: each GPU and node is compared with those of all logs. A
        /// node is named as in its log, or by the name of the file.
        #[arg(long, conflicts_with = "series")]
        one_run: bool,
        /// Read the logs in this format of docs/METRICS.md, or by this declaration (a YAML file). Default: the detected format.
        #[arg(long, value_name = "FORMAT|RULES")]
        read: Option<PathBuf>,
        /// Criteria file, as referenced by workflows.
        #[arg(long, value_name = "FILE")]
        criteria: Option<PathBuf>,
        /// Baseline file written by `burnin baseline`.
        #[arg(long, value_name = "FILE")]
        baseline: Option<PathBuf>,
        /// Output format.
        #[arg(long, value_enum, default_value_t = ReportForm::Human)]
        output: ReportForm,
    },
    /// Learn a baseline from healthy logs that repeat (five are enough), or pin a run as the reference.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Baseline {
        /// Pin a run as the reference, or release the pin.
        #[command(subcommand)]
        decide: Option<Decide>,
        /// Healthy logs of the same benchmark and cluster. A folder includes all its files.
        #[arg(required = true, value_name = "LOG")]
        logs: Vec<PathBuf>,
        /// Read the logs in this format of docs/METRICS.md, or by this declaration (a YAML file). Default: the detected format.
        #[arg(long, value_name = "FORMAT|RULES")]
        read: Option<PathBuf>,
        /// Exclude logs at another level than the other logs, at most a fifth of all logs.
        #[arg(long)]
        drop_outliers: bool,
        /// Output file for the baseline.
        #[arg(long, required = true, value_name = "FILE")]
        save: Option<PathBuf>,
    },
    /// Compare two logs. Exit code 1 if the second is slower, 2 if their measurements are not comparable.
    Compare {
        /// Earlier log.
        #[arg(value_name = "A")]
        a: PathBuf,
        /// Later log.
        #[arg(value_name = "B")]
        b: PathBuf,
        /// Output format.
        #[arg(long, value_enum, default_value_t = ComparisonForm::Human)]
        output: ComparisonForm,
    },
    /// Compare versions and settings of the nodes and GPUs of a run or of logs: first with each other, then with minimum versions. Exit
    /// code 1 if values differ or a version is below its minimum, 2 if a part of the nodes cannot be compared.
    Audit {
        /// Run id, prefix of a run id, or `latest`; or logs with hardware evidence.
        #[arg(required = true, value_name = "RUN|LOG", add = complete::runs())]
        sources: Vec<PathBuf>,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// List the nodes of existing clusters: good, suspected, drained, in re-test, returned or failed again, with dates and evidence. Exit
    /// code 1 if at least one node is neither good nor returned.
    Nodes {
        /// Only the nodes of this cluster.
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
        /// Number of judged runs to read, newest first. Of the older runs, the last 2,000 that suspected, drained or re-tested nodes are read too.
        #[arg(long, value_name = "COUNT", default_value_t = 500)]
        last: usize,
        /// Include good nodes.
        #[arg(long)]
        all: bool,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Re-test drained nodes, alone and with good partners: run the checks of the last run on their cluster again. A node that passes
    /// returns to service with --return; otherwise the command that returns it is printed. The exit codes are those of `run`.
    Retest {
        /// Nodes of one cluster; see `burnin nodes`.
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
        /// Cluster of the nodes; required if several clusters have nodes with these names.
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
        /// Workflow on the same cluster whose checks are run instead.
        #[arg(long, value_name = "WORKFLOW")]
        workflow: Option<PathBuf>,
        /// YAML file with your values for that workflow.
        #[arg(long, value_name = "FILE", requires = "workflow")]
        values: Option<PathBuf>,
        /// Override a field of that workflow. Repeatable.
        #[arg(long, value_name = "KEY=VALUE", requires = "workflow")]
        set: Vec<Override>,
        /// Number of good partner nodes; default: enough to reach the number of nodes of the workflow.
        #[arg(long, value_name = "COUNT")]
        partners: Option<usize>,
        /// Return the nodes to service if every check passes.
        #[arg(long = "return")]
        return_after_pass: bool,
        /// Output format of the result.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Locate the slow rank, GPU or node. Exit code 0 healthy, 1 located, 2 not located.
    Locate {
        /// One nccl-tests JSON file with per-process times (`-I 1 -J`, best with `-z 3`), or the logs of pair tests of any program. Name a
        /// log without node names after its nodes: `n1,n2.log`.
        #[arg(required_unless_present = "groups", value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Healthy run of the same shape. Repeatable.
        #[arg(long, value_name = "HEALTHY")]
        reference: Vec<PathBuf>,
        /// Read the logs in this format of docs/METRICS.md, or by this declaration (a YAML file). Default: the detected format.
        #[arg(long, value_name = "FORMAT|RULES", conflicts_with = "groups")]
        read: Option<PathBuf>,
        /// Metric of the pairs, if the logs have several. Repeatable.
        #[arg(long = "metric", value_name = "NAME", conflicts_with = "groups")]
        metrics: Vec<String>,
        /// Search by group tests. The JSON file lists the `members` and the completed `tests`, each with its `members` and
        /// whether it was `degraded`, or the `log` of a program. Prints the next group to test, or the bad members.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "reference"])]
        groups: Option<PathBuf>,
        /// Expected number of bad members.
        #[arg(long, value_name = "COUNT", requires = "groups", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        suspected: u32,
        /// Maximum number of group tests; default: the usual number for the expected count of bad members.
        #[arg(long, value_name = "COUNT", requires = "groups")]
        tests: Option<usize>,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Test notification channels.
    #[command(subcommand)]
    Notify(Channels),
    /// Print a completion script for a shell; it also completes run ids, workflows and checks. For bash:
    /// `source <(burnin completions bash)` in ~/.bashrc.
    Completions {
        /// Target shell of the script.
        shell: Shell,
    },
    /// Print the manual page, or write one for each command.
    Man {
        /// Folder for the pages of all commands.
        #[arg(long, value_name = "DIR")]
        save: Option<PathBuf>,
    },
    /// Run as a local build supervisor or node. Started by other commands.
    #[command(hide = true, subcommand)]
    Host(HostCommand),
}

impl CliCommand {
    pub fn run_mut(&mut self) -> Option<&mut RunId> {
        match self {
            Self::Show { run, .. }
            | Self::Handover { run }
            | Self::Export { run, .. }
            | Self::Cancel { run, .. }
            | Self::Logs { run, .. }
            | Self::Replay { run }
            | Self::Run { resume: Some(Some(run)), .. }
            | Self::Baseline { decide: Some(Decide::Pin { run, .. }), .. } => Some(run),
            _ => None,
        }
    }

    /// Whether the command uses only files, processes or channels of this machine, so that a server cannot execute it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Audit { sources, .. } => sources.iter().all(|source| source.exists()),
            Self::Baseline { decide, .. } => decide.is_none(),
            Self::Init { .. }
            | Self::Schema { .. }
            | Self::Up { .. }
            | Self::Check { .. }
            | Self::Plan { .. }
            | Self::Verify { .. }
            | Self::Parse { .. }
            | Self::Judge { .. }
            | Self::Compare { .. }
            | Self::Locate { .. }
            | Self::Notify(_)
            | Self::Completions { .. }
            | Self::Man { .. } => true,
            _ => false,
        }
    }

    /// Whether the command executes runs: its exit code is the result of the run even if standard output fails.
    pub const fn drives_runs(&self) -> bool {
        matches!(
            self,
            Self::Run { .. } | Self::Retest { .. } | Self::Up { .. } | Self::Cancel { .. } | Self::Host(_)
        )
    }
}

#[derive(Debug, Subcommand)]
pub enum Channels {
    /// Send a test message to a channel, and print the response status. Exit code 3 if the channel refuses the message or cannot
    /// be reached, 64 if no workflow uses the channel or it has no address.
    Test {
        /// Channel name, as used in workflows under `notify`.
        channel: String,
        /// Folder of the workflow files.
        #[arg(long, default_value = "workflows", value_name = "DIR")]
        workflows: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum Decide {
    /// Pin a run as the reference for all later runs of its workflow.
    Pin {
        /// Closed run with verdict pass.
        #[arg(add = complete::runs())]
        run: RunId,
        /// Pin the baseline that judged the run instead of its measurements.
        #[arg(long)]
        learned: bool,
        /// Reason, shown in the list of pins.
        #[arg(long, default_value = "", value_name = "TEXT")]
        why: String,
    },
    /// Release the pin of a workflow: later runs are judged by the learned baseline again.
    Unpin {
        /// Workflow name.
        #[arg(add = complete::workflow_names())]
        workflow: String,
        /// Reason, shown in the list of pins.
        #[arg(long, default_value = "", value_name = "TEXT")]
        why: String,
    },
    /// List all pins and releases with user, time and reason.
    Pins {
        /// Output format.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
}

/// Processes that outlive the command that started them.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Supervise the build of a folder.
    Build {
        /// Folder of the build.
        folder: PathBuf,
    },
    /// Serve as a node of the cluster of a folder.
    Node {
        /// Folder of the cluster.
        folder: PathBuf,
        /// Name of the node in the cluster.
        name: String,
    },
}
