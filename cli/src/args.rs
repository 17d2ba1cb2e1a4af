//! What the command understands.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use model::{RunId, Span};
use workflow::Override;

/// Proves that a GPU cluster is good, and keeps proving it.
#[derive(Debug, Parser)]
#[command(name = "burnin", version, propagate_version = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Folder that holds ledger, artefacts, warehouse and reports.
    #[arg(long, global = true, env = "BURNIN_DATA", default_value = ".burnin", value_name = "DIR")]
    pub data: PathBuf,

    /// What to log to standard error, in the language of RUST_LOG.
    #[arg(long, global = true, env = "RUST_LOG", default_value = "error", value_name = "FILTER")]
    pub log: String,
}

const EXIT_CODES: &str = "Exit codes: 0 pass or done, 1 fail, 2 inconclusive, 3 infrastructure failed, \
                          4 cancelled, 64 wrong usage or input";

/// One thing to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a workflow from beginning to end on this machine.
    Run {
        /// The workflow file.
        #[arg(required_unless_present = "resume", conflicts_with = "resume", value_name = "WORKFLOW")]
        workflow: Option<PathBuf>,
        /// Replace a field of the file, such as limits.job=10m. May be given several times.
        #[arg(long, value_name = "KEY=VALUE", conflicts_with = "resume")]
        set: Vec<Override>,
        /// Finish a run that was cut short: the one named, or the only one there is.
        #[arg(long, value_name = "RUN", num_args = 0..=1)]
        resume: Option<Option<RunId>>,
        /// What to print at the end.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Serve everything on this machine: the front door, every service, schedules and looks at repositories. Goes on with
    /// what was running, and ends with SIGTERM or Ctrl-C; what runs then goes on, and the next one finds it.
    Up {
        /// Folder of the workflows that may be asked for.
        #[arg(long, default_value = "workflows", value_name = "DIR")]
        workflows: PathBuf,
        /// Port on 127.0.0.1; 0 is any that is free.
        #[arg(long, default_value_t = 8080, value_name = "PORT")]
        port: u16,
        /// How often the refs of repositories are looked at.
        #[arg(long, default_value = "1m", value_name = "SPAN")]
        look: Span,
        /// Requests a second and changes a second that a caller may ask for.
        #[arg(long, default_value = "50,5", value_name = "RATES")]
        rates: gateway::Rates,
        /// Where people find a run, with {run} in it; without it, here.
        #[arg(long, env = "BURNIN_LINK", value_name = "URL")]
        link: Option<notifier::Link>,
        /// GitHub's REST API.
        #[arg(
            long,
            env = "BURNIN_GITHUB_API",
            default_value = "https://api.github.com",
            value_name = "URL",
            hide_env = true
        )]
        github: notifier::courier::Api,
    },
    /// Check a workflow file and everything it names, and whether a run of it can succeed. Exit code 64 for errors; warnings
    /// are errors with --strict.
    Check {
        /// The workflow file.
        workflow: PathBuf,
        /// Replace a field of the file.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<Override>,
        /// Treat warnings as errors.
        #[arg(long)]
        strict: bool,
    },
    /// Say what a workflow would do, what would exist, and for how long at most.
    Plan {
        /// The workflow file.
        workflow: PathBuf,
        /// Replace a field of the file.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<Override>,
    },
    /// List the runs of this data folder, newest first.
    Runs {
        /// What to print.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Show one run.
    Show {
        /// The run.
        run: RunId,
        /// What to print.
        #[arg(long, value_enum, default_value_t = ReportForm::Human)]
        output: ReportForm,
    },
    /// Write a closed run as one signed file: ledger, logs, measurements, verdict and report.
    Export {
        /// The run.
        run: RunId,
        /// An Ed25519 private key, as `openssl genpkey -algorithm ed25519 -out KEY` writes it.
        #[arg(long, value_name = "KEY")]
        key: PathBuf,
        /// The file to write; `RUN.burnin.tar` where none is named.
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
    },
    /// Check such a file, offline: the signature, every byte, and that its ledger says what it says. Exit code 1 when it
    /// does not hold.
    Verify {
        /// The file.
        bundle: PathBuf,
        /// The public key that is trusted, as `openssl pkey -in KEY -pubout` writes it.
        #[arg(long, value_name = "KEY")]
        key: Option<PathBuf>,
    },
    /// Say why a run is where it is, and what is owed to it.
    Explain {
        /// The run.
        run: RunId,
    },
    /// End a run and give back everything it holds.
    Cancel {
        /// The run.
        run: RunId,
        /// Why.
        #[arg(long, default_value = "asked for on the command line")]
        reason: String,
    },
    /// Give back every cluster that outlived its lease, without asking any ledger. Exit code 3 when one is still there.
    Sweep {
        /// How long after the end of its lease a cluster is left alone.
        #[arg(long, default_value = "2m", value_name = "SPAN")]
        grace: Span,
        /// Only say what would be given back.
        #[arg(long)]
        dry_run: bool,
    },
    /// Fold a run's ledger record by record.
    Replay {
        /// The run.
        run: RunId,
    },
    /// Read logs of nccl-tests or rccl-tests. Exit code 2 when one of them holds no table.
    Parse {
        /// Logs, text or JSON, plain or gzip; `-` is standard input.
        #[arg(required = true, value_name = "FILE")]
        logs: Vec<PathBuf>,
        /// What to print.
        #[arg(long, value_enum, default_value_t = Form::Table)]
        output: Form,
    },
    /// Judge logs by criteria, by a baseline, or by both. The exit code is the verdict's.
    #[command(group = clap::ArgGroup::new("by").args(["criteria", "baseline"]).multiple(true).required(true))]
    Judge {
        /// Logs, each judged on its own; the gravest verdict counts. A folder stands for every file in it. Logs that all
        /// state when they were made are a series in time.
        #[arg(required = true, value_name = "LOG")]
        logs: Vec<PathBuf>,
        /// The logs are a series in time: a small change that lasts is found beside a baseline. In the order of their own
        /// times when all state them, otherwise in the order given, oldest first.
        #[arg(long, requires = "baseline")]
        series: bool,
        /// A criteria file, as workflows name them.
        #[arg(long, value_name = "FILE")]
        criteria: Option<PathBuf>,
        /// A baseline that was learned with `burnin baseline`.
        #[arg(long, value_name = "FILE")]
        baseline: Option<PathBuf>,
        /// What to print.
        #[arg(long, value_enum, default_value_t = ReportForm::Human)]
        output: ReportForm,
    },
    /// Learn a baseline from healthy logs that repeat; five are enough. Or decide which run is one from now on.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Baseline {
        /// Pin a run, or release it.
        #[command(subcommand)]
        decide: Option<Decide>,
        /// Healthy logs of the same thing. A folder stands for every file in it.
        #[arg(required = true, value_name = "LOG")]
        logs: Vec<PathBuf>,
        /// Leave out logs that are not on the level of the others, at most a fifth of them.
        #[arg(long)]
        drop_outliers: bool,
        /// Where to write the baseline.
        #[arg(long, required = true, value_name = "FILE")]
        save: Option<PathBuf>,
    },
    /// Say what differs between two logs. Exit code 1 when the second is slower, 2 when they measure different things.
    Compare {
        /// The log before.
        #[arg(value_name = "A")]
        a: PathBuf,
        /// The log after.
        #[arg(value_name = "B")]
        b: PathBuf,
        /// What to print.
        #[arg(long, value_enum, default_value_t = ComparisonForm::Human)]
        output: ComparisonForm,
    },
    /// Name the slow rank, GPU or node. Exit code 0 healthy, 1 somebody is named, 2 it cannot be told.
    Locate {
        /// One nccl-tests JSON file with per-process times (`-I 1 -J`, best with `-z 3`), or the logs of pair tests.
        #[arg(required_unless_present = "groups", value_name = "FILE")]
        files: Vec<PathBuf>,
        /// A healthy run of the same shape. May be given several times.
        #[arg(long, value_name = "HEALTHY")]
        reference: Vec<PathBuf>,
        /// Search by group tests: a JSON file of the `members` and the `tests` run so far, each with its `members` and
        /// whether it was `degraded`. Says whom to test next, or who is bad.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "reference"])]
        groups: Option<PathBuf>,
        /// How many bad members are suspected.
        #[arg(long, value_name = "COUNT", requires = "groups", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        suspected: u32,
        /// No more group tests than this; as many as finding the suspected number usually takes where it is not given.
        #[arg(long, value_name = "COUNT", requires = "groups")]
        tests: Option<usize>,
        /// What to print.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
    /// Test channels that workflows notify.
    #[command(subcommand)]
    Notify(Channels),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Be a part of the local cloud: a build's supervisor or a node. Started by other commands.
    #[command(hide = true, subcommand)]
    Host(Host),
}

impl Command {
    /// Whether the command drives runs. Its exit code is then the result of the run, even if its output is lost.
    pub const fn drives_runs(&self) -> bool {
        matches!(self, Self::Run { .. } | Self::Up { .. } | Self::Cancel { .. } | Self::Host(_))
    }
}

/// Channels that workflows notify.
#[derive(Debug, Subcommand)]
pub enum Channels {
    /// Send a test message to a channel, and print its answer. Exit code 3 when it refuses the message or cannot be reached,
    /// 64 when no workflow names the channel or it has no address.
    Test {
        /// The channel's name, as workflows have it under `notify`.
        channel: String,
        /// Folder of the workflows that name it.
        #[arg(long, default_value = "workflows", value_name = "DIR")]
        workflows: PathBuf,
    },
}

/// Which run of a workflow others are held against.
#[derive(Debug, Subcommand)]
pub enum Decide {
    /// From now on, hold the runs of its workflow against this one.
    Pin {
        /// A closed run that passed.
        run: RunId,
        /// Not what it measured, but the baseline that it was judged by.
        #[arg(long)]
        learned: bool,
        /// Why, for whoever looks later.
        #[arg(long, default_value = "", value_name = "TEXT")]
        why: String,
    },
    /// From now on, hold the runs of a workflow against what is learned of them.
    Unpin {
        /// The workflow's name.
        workflow: String,
        /// Why, for whoever looks later.
        #[arg(long, default_value = "", value_name = "TEXT")]
        why: String,
    },
    /// List who pinned and released what, when and why.
    Pins {
        /// What to print.
        #[arg(long, value_enum, default_value_t = Output::Human)]
        output: Output,
    },
}

/// Processes that outlive the command that started them.
#[derive(Debug, Subcommand)]
pub enum Host {
    /// Supervise the build of a folder.
    Build {
        /// The build's folder.
        folder: PathBuf,
    },
    /// Serve as a node of the cluster of a folder.
    Node {
        /// The cluster's folder.
        folder: PathBuf,
        /// The node's name.
        name: String,
    },
}

/// For whom to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A person.
    Human,
    /// A program.
    Json,
}

/// How to report a run or logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportForm {
    /// For a person who waits.
    Human,
    /// For a program.
    Json,
    /// For a spreadsheet: one line a size and placement, with everything it is held against.
    Csv,
    /// For a pull request or an issue.
    Markdown,
    /// For a CI system: JUnit XML.
    Junit,
    /// For those who look later: one page that needs nothing else.
    Html,
}

/// How to report what differs between two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ComparisonForm {
    /// For a person who waits.
    Human,
    /// For a program.
    Json,
    /// For a pull request or an issue.
    Markdown,
    /// One page that needs nothing else.
    Html,
}

/// How to print measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For a person.
    Table,
    /// One JSON document a log.
    Json,
    /// One line a size and placement.
    Csv,
}
