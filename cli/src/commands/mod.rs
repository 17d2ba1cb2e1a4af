//! One file per kind of command.

mod baseline;
mod bundles;
mod explain;
mod groups;
mod judge;
mod locate;
mod logs;
mod notify;
mod parse;
mod pins;
mod plan;
mod run;
mod show;
mod sweep;
mod up;

use std::path::Path;

use clap::CommandFactory;
use service::telemetry::{self, Format};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    args::{Channels, Cli, Command, Host},
    exit::{Error, Exit},
    local::Data,
    output::{note, print, print_json, print_plain, style, write_with},
};

pub fn dispatch(cli: Cli) -> Result<Exit, Error> {
    let _telemetry = telemetry::init("burnin", Format::Compact, &cli.log);
    let data = || Data::open(&cli.data);
    match cli.command {
        Command::Run { workflow: Some(workflow), set, output, .. } => {
            let resolved = workflow::resolve(&workflow, &set).map_err(Error::usage)?;
            block_on(run::begin(data()?, resolved, output))
        }
        Command::Run { resume, output, .. } => block_on(run::resume(data()?, resume.flatten(), output)),
        Command::Up { workflows, port, look, rates, link, github } => {
            let asked = up::Asked { workflows, port, look, rates, secrets: up::secrets()?, link, github };
            block_on(async { up::up(data()?, asked).await })
        }
        Command::Check { workflow, set, strict } => plan::check(&workflow, &set, strict),
        Command::Plan { workflow, set } => plan::plan(&workflow, &set),
        Command::Runs { output } => block_on(show::runs(readable(&cli.data)?, output)),
        Command::Show { run, output } => block_on(show::show(readable(&cli.data)?, &run, output)),
        Command::Export { run, key, save } => {
            block_on(bundles::export(readable(&cli.data)?, &run, &key, save))
        }
        Command::Verify { bundle, key } => bundles::verify(&bundle, key.as_deref()),
        Command::Explain { run } => block_on(explain::explain(readable(&cli.data)?, &run)),
        Command::Replay { run } => block_on(explain::replay(readable(&cli.data)?, &run)),
        Command::Cancel { run, reason } => block_on(run::cancel(existing(&cli.data)?, run, reason)),
        Command::Sweep { grace, dry_run } => block_on(sweep::sweep(existing(&cli.data)?, grace, dry_run)),
        Command::Parse { logs, output } => parse::parse(&logs, output),
        Command::Judge { logs, series, criteria, baseline, output } => {
            judge::judge(&logs, criteria.as_deref(), baseline.as_deref(), series, output)
        }
        Command::Baseline { decide: Some(decide), .. } => {
            block_on(pins::decide(existing(&cli.data)?, decide))
        }
        Command::Baseline { logs, save, drop_outliers, .. } => {
            baseline::baseline(&logs, &save.unwrap_or_default(), drop_outliers)
        }
        Command::Compare { a, b, output } => judge::compare(&a, &b, output),
        Command::Locate { groups: Some(file), suspected, tests, output, .. } => {
            groups::groups(&file, suspected, tests, output)
        }
        Command::Locate { files, reference, output, .. } => locate::locate(&files, &reference, output),
        Command::Notify(Channels::Test { channel, workflows }) => {
            block_on(notify::test(&cli.data.join("channels"), &workflows, &channel))
        }
        Command::Completions { shell } => {
            // `generate` panics on a failed write.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "burnin", &mut script);
            print(&String::from_utf8_lossy(&script));
            Ok(Exit::Pass)
        }
        Command::Host(Host::Build { folder }) => block_on(async {
            supervisor::supervise(&folder).await.map(|()| Exit::Pass).map_err(Error::infrastructure)
        }),
        Command::Host(Host::Node { folder, name }) => {
            supervisor::serve(&folder, &name).map(|()| Exit::Pass).map_err(Error::infrastructure)
        }
    }
}

/// An existing data folder; commands that only read must not create one.
fn existing(root: &Path) -> Result<Data, Error> {
    must_exist(root).and_then(|()| Data::open(root))
}

/// An existing data folder, opened for reading only: it may be on a read-only medium.
fn readable(root: &Path) -> Result<Data, Error> {
    must_exist(root).and_then(|()| Data::open_existing(root))
}

fn must_exist(root: &Path) -> Result<(), Error> {
    if root.is_dir() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "data folder {} does not exist; name it with --data, or start a run with `burnin run`",
        root.display()
    )))
}

/// Signal for a file that exceeds its size limit; the same number on every Linux architecture.
const SIGXFSZ: i32 = 25;

fn block_on(work: impl Future<Output = Result<Exit, Error>>) -> Result<Exit, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(Error::infrastructure)?.block_on(async {
        // With this handler a write beyond a file size limit (`ulimit -f`) fails instead of killing the process.
        let _beyond = signal(SignalKind::from_raw(SIGXFSZ)).map_err(Error::infrastructure)?;
        work.await
    })
}
