//! One file per kind of command.

mod audit;
mod baseline;
mod bundles;
mod explain;
mod follow;
mod groups;
mod init;
mod judge;
mod locate;
mod logs;
mod nodes;
mod notify;
mod parse;
mod pins;
mod plan;
pub(crate) mod remote;
mod retest;
mod run;
mod script;
mod show;
mod sweep;
mod up;

use std::path::Path;

use clap::CommandFactory;
use model::RunId;
use service::telemetry::{self, LogFormat};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{Channels, Cli, CliCommand, HostCommand},
    complete,
    exit::{CliError, Exit},
    local::DataFolder,
    output::{self, note, note_styled, print, print_json, print_plain, screen, status, write_with},
    server::Server,
};

pub fn dispatch(cli: Cli) -> Result<Exit, CliError> {
    output::choose(cli.color, cli.quiet);
    let log = match cli.verbose {
        0 => cli.log,
        1 => "info".to_owned(),
        2 => "debug".to_owned(),
        _ => "trace".to_owned(),
    };
    let _telemetry = telemetry::init("burnin", LogFormat::Compact, &log);
    let data = || DataFolder::open(&cli.data);
    let Some(mut command) = cli.command else { return Ok(Exit::Pass) };
    if let Some(url) = &cli.server {
        let server = Server::new(url, &cli.data)?;
        return block_on(remote::execute(server, command));
    }
    if let Some(run) = command.run_mut() {
        let data = readable(&cli.data)?;
        *run = resolve(&data, run.clone())?;
    }
    match command {
        CliCommand::Init { kind, folder, force } => init::init(kind, &folder, force),
        CliCommand::Schema { kind } => Ok(init::schema(kind)),
        CliCommand::Run { workflow: Some(workflow), values, set, output, .. } => {
            let resolved =
                workflow::resolve_with_values(&workflow, values.as_deref(), &set).map_err(CliError::files)?;
            block_on(run::begin(data()?, resolved, output))
        }
        CliCommand::Run { resume, output, .. } => block_on(run::resume(data()?, resume.flatten(), output)),
        CliCommand::Up { workflows, port, poll_interval, rates, link, github } => {
            let options = up::UpOptions {
                workflows,
                port,
                poll_interval,
                rates,
                secrets: up::secrets()?,
                link,
                github,
            };
            block_on(async { up::up(data()?, options).await })
        }
        CliCommand::Check { workflow, values, set, strict } => {
            plan::check(&workflow, values.as_deref(), &set, strict)
        }
        CliCommand::Plan { workflow, values, set, script: true } => {
            script::script(&workflow, values.as_deref(), &set)
        }
        CliCommand::Plan { workflow, values, set, .. } => plan::plan(&workflow, values.as_deref(), &set),
        CliCommand::Runs { choice, output } => block_on(show::runs(readable(&cli.data)?, &choice, output)),
        CliCommand::Show { run, check, output } => {
            block_on(show::show(readable(&cli.data)?, &run, check.as_deref(), output))
        }
        CliCommand::Logs { run, name, check: None, follow: false } => {
            block_on(show::logs(readable(&cli.data)?, &run, name.as_deref()))
        }
        CliCommand::Logs { run, check, follow, .. } => {
            block_on(follow::logs(readable(&cli.data)?, &run, check.as_deref(), follow))
        }
        CliCommand::Handover { run } => block_on(bundles::handover(readable(&cli.data)?, &run)),
        CliCommand::Export { run, key, save } => {
            block_on(bundles::export(readable(&cli.data)?, &run, &key, save))
        }
        CliCommand::Verify { bundle, key } => bundles::verify(&bundle, key.as_deref()),
        CliCommand::Explain { what } => match explain::code(&what)? {
            Some(done) => Ok(done),
            None => {
                let data = readable(&cli.data)?;
                let run = resolve(&data, what.parse().map_err(CliError::usage)?)?;
                block_on(explain::explain(data, &run))
            }
        },
        CliCommand::Replay { run } => block_on(explain::replay(readable(&cli.data)?, &run)),
        CliCommand::Cancel { run, reason } => block_on(run::cancel(existing(&cli.data)?, run, reason)),
        CliCommand::Sweep { release: Some(name), .. } => {
            block_on(sweep::release(existing(&cli.data)?, &name))
        }
        CliCommand::Sweep { grace, dry_run, .. } => {
            block_on(sweep::sweep(existing(&cli.data)?, grace, dry_run))
        }
        CliCommand::Parse { logs, read, output } => {
            parse::parse(&logs, &parse::ReadFormat::of(read.as_deref())?, output)
        }
        CliCommand::Judge { logs, series, one_run, read, criteria, baseline, output } => {
            let relation = match (series, one_run) {
                (_, true) => judge::LogRelation::NodesOfOneRun,
                (true, _) => judge::LogRelation::Series,
                _ => judge::LogRelation::Unknown,
            };
            judge::judge(
                &logs,
                &parse::ReadFormat::of(read.as_deref())?,
                criteria.as_deref(),
                baseline.as_deref(),
                relation,
                output,
            )
        }
        CliCommand::Baseline { decide: Some(decide), .. } => {
            block_on(pins::decide(existing(&cli.data)?, decide))
        }
        CliCommand::Baseline { logs, read, save, drop_outliers, .. } => {
            let format = parse::ReadFormat::of(read.as_deref())?;
            baseline::baseline(&logs, &format, &save.unwrap_or_default(), drop_outliers)
        }
        CliCommand::Audit { sources, output } => match sources.as_slice() {
            [one] if !one.exists() => {
                let name = one.to_string_lossy();
                let run = name.parse().map_err(|_| {
                    CliError::usage(format!(
                        "{name} is neither a file nor the id of a run; see `burnin runs`"
                    ))
                })?;
                let data = readable(&cli.data)?;
                let run = resolve(&data, run)?;
                block_on(audit::run(data, &run, output))
            }
            logs => audit::logs(logs, output),
        },
        CliCommand::Nodes { cluster, last, all, output } => {
            block_on(nodes::nodes(readable(&cli.data)?, cluster.as_deref(), last, all, output))
        }
        CliCommand::Retest { nodes, cluster, workflow, values, set, partners, return_after_pass, output } => {
            let given = workflow.map(|path| workflow::resolve_with_values(&path, values.as_deref(), &set));
            let given = given.transpose().map_err(CliError::files)?;
            let request = retest::RetestRequest { nodes, cluster, partners, return_after_pass };
            block_on(retest::retest(existing(&cli.data)?, &request, given, output))
        }
        CliCommand::Compare { a, b, output } => judge::compare(&a, &b, output),
        CliCommand::Locate { groups: Some(file), suspected, tests, output, .. } => {
            groups::groups(&file, suspected, tests, output)
        }
        CliCommand::Locate { files, reference, read, metrics, output, .. } => {
            locate::locate(&locate::LocateInput { files, reference, read, metrics }, output)
        }
        CliCommand::Notify(Channels::Test { channel, workflows }) => {
            block_on(notify::test(&cli.data.join("channels"), &workflows, &channel))
        }
        CliCommand::Completions { shell } => {
            let script = complete::script(shell).ok_or_else(|| {
                CliError::usage(format!("completions for {shell} are not available; name another shell"))
            })?;
            print(&script);
            Ok(Exit::Pass)
        }
        CliCommand::Man { save } => manual(save.as_deref()),
        CliCommand::Host(HostCommand::Build { folder }) => block_on(async {
            supervisor::supervise(&folder).await.map(|()| Exit::Pass).map_err(CliError::infrastructure)
        }),
        CliCommand::Host(HostCommand::Node { folder, name }) => {
            supervisor::serve(&folder, &name).map(|()| Exit::Pass).map_err(CliError::infrastructure)
        }
    }
}

/// Prints the manual page of `burnin`, or writes the manual pages of all commands into a folder.
fn manual(folder: Option<&Path>) -> Result<Exit, CliError> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(CliError::infrastructure)?;
        print(&String::from_utf8_lossy(&page));
        return Ok(Exit::Pass);
    };
    let cannot = |error| CliError::usage(format!("{}: cannot be written: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(cannot)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(cannot)?;
    Ok(Exit::Pass)
}

/// The run that a user names by its id, by a prefix of the id, or by `latest`.
fn resolve(data: &DataFolder, run: RunId) -> Result<RunId, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CliError::infrastructure)?.block_on(data.resolve(run))
}

/// An existing data folder; commands that only read must not create one.
fn existing(root: &Path) -> Result<DataFolder, CliError> {
    must_exist(root).and_then(|()| DataFolder::open(root))
}

/// An existing data folder, opened for reading only: it may be on a read-only medium.
fn readable(root: &Path) -> Result<DataFolder, CliError> {
    must_exist(root).and_then(|()| DataFolder::open_existing(root))
}

fn must_exist(root: &Path) -> Result<(), CliError> {
    if root.is_dir() {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "data folder {} does not exist; name it with --data, or start a run with `burnin run`",
        root.display()
    )))
}

/// Signal for a file that exceeds its size limit; the same number on every Linux architecture.
const SIGXFSZ: i32 = 25;

fn block_on(work: impl Future<Output = Result<Exit, CliError>>) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(CliError::infrastructure)?.block_on(async {
        // With this handler a write beyond a file size limit (`ulimit -f`) fails instead of killing the process.
        let _beyond = signal(SignalKind::from_raw(SIGXFSZ)).map_err(CliError::infrastructure)?;
        work.await
    })
}

/// The user's name for records.
fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| model::UNNAMED.to_owned())
}
