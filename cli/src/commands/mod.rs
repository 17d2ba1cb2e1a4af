//! One file a kind of command.

mod bundles;
mod explain;
mod groups;
mod judge;
mod locate;
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
use kit::telemetry::{self, Format};

use crate::{
    args::{Channels, Cli, Command, Host},
    exit::{Error, Exit},
    local::Data,
};

/// Does what was asked for.
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
        Command::Check { workflow, set } => plan::check(&workflow, &set),
        Command::Plan { workflow, set } => plan::plan(&workflow, &set),
        Command::Runs { output } => block_on(show::runs(existing(&cli.data)?, output)),
        Command::Show { run, output } => block_on(show::show(existing(&cli.data)?, &run, output)),
        Command::Export { run, key, save } => {
            block_on(bundles::export(existing(&cli.data)?, &run, &key, save))
        }
        Command::Verify { bundle, key } => bundles::verify(&bundle, key.as_deref()),
        Command::Explain { run } => block_on(explain::explain(existing(&cli.data)?, &run)),
        Command::Replay { run } => block_on(explain::replay(existing(&cli.data)?, &run)),
        Command::Cancel { run, reason } => block_on(run::cancel(existing(&cli.data)?, run, reason)),
        Command::Sweep { grace, dry_run } => block_on(sweep::sweep(existing(&cli.data)?, grace, dry_run)),
        Command::Parse { logs, output } => parse::parse(&logs, output),
        Command::Judge { logs, criteria, baseline, output } => {
            judge::judge(&logs, criteria.as_deref(), baseline.as_deref(), output)
        }
        Command::Baseline { decide: Some(decide), .. } => {
            block_on(pins::decide(existing(&cli.data)?, decide))
        }
        Command::Baseline { logs, save, .. } => judge::baseline(&logs, &save.unwrap_or_default()),
        Command::Compare { a, b, output } => judge::compare(&a, &b, output),
        Command::Locate { groups: Some(file), suspected, tests, output, .. } => {
            groups::groups(&file, suspected, tests, output)
        }
        Command::Locate { files, reference, output, .. } => locate::locate(&files, &reference, output),
        Command::Notify(Channels::Test { channel, workflows }) => {
            block_on(notify::test(&cli.data.join("channels"), &workflows, &channel))
        }
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "burnin", &mut std::io::stdout());
            Ok(Exit::Pass)
        }
        Command::Host(Host::Build { folder }) => block_on(async {
            host::supervise(&folder).await.map(|()| Exit::Pass).map_err(Error::infrastructure)
        }),
        Command::Host(Host::Node { folder, name }) => {
            host::serve(&folder, &name).map(|()| Exit::Pass).map_err(Error::infrastructure)
        }
    }
}

/// A data folder that is there: looking at runs must not make one.
fn existing(root: &Path) -> Result<Data, Error> {
    if !root.is_dir() {
        return Err(Error::usage(format!(
            "there is no data folder {}; name it with --data, or start a run with `burnin run`",
            root.display()
        )));
    }
    Data::open(root)
}

fn block_on(work: impl Future<Output = Result<Exit, Error>>) -> Result<Exit, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(Error::infrastructure)?.block_on(work)
}

/// What standard output can show.
fn style() -> report::Style {
    use std::io::IsTerminal;
    let plain = !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
    if plain { report::Style::Plain } else { report::Style::Colour }
}

/// Prints to standard output. A reader that went away is no error of ours.
fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints one line of JSON to standard output, written while it is made: a document may be many times as large as what
/// it is made of. A reader that went away is no error of ours.
fn print_json(value: &impl serde::Serialize) {
    use std::io::Write;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let line = serde_json::to_writer(&mut out, value).map_err(std::io::Error::from);
    drop(line.and_then(|()| writeln!(out)).and_then(|()| out.flush()));
}
