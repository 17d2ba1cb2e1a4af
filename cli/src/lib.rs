//! The `burnin` command: parses arguments, runs the subcommand, returns a documented exit code.

mod args;
mod commands;
mod complete;
mod diagnostics;
pub mod documents;
mod exit;
mod live;
mod local;
mod outage;
mod output;
mod progress;
mod release;
mod server;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, parser::ValueSource};

use crate::{
    args::{Cli, CliCommand},
    exit::Exit,
};

/// Keeps other users from writing to files of this process, and jobs from reading its environment.
fn harden(command: &CliCommand) {
    use rustix::{
        fs::Mode,
        process::{DumpableBehavior, set_dumpable_behavior, umask},
    };
    // Independent of the caller's umask: other users must not write to a ledger or to programs in the data folder.
    let callers = umask(Mode::WGRP | Mode::WOTH);
    umask(callers | Mode::WGRP | Mode::WOTH);
    // Jobs run as the same user. Without this they could read the environment, and the secrets in it, from /proc.
    if matches!(command, CliCommand::Run { .. } | CliCommand::Up { .. }) {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable); // ignored: an older kernel may lack the call
    }
}

/// Output of `burnin` without a command.
const BEGIN: &str = "\
Burnin proves that a GPU cluster is good. Begin with:
  burnin init                           write a first workflow for this host
  burnin run workflows/quickstart.yaml  run it; the verdict is the exit code
  burnin judge LOG --criteria FILE      judge a log that you already have
All commands: burnin --help
";

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    // A shell that requests completions sets the variable; the program then ends here.
    clap_complete::CompleteEnv::with_factory(Cli::command).var(complete::VARIABLE).complete();
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        let is_from_environment = matches.value_source("server") == Some(ValueSource::EnvVariable);
        Cli::from_arg_matches(&matches)
            .map(|cli| (cli, is_from_environment))
            .map_err(|error| error.format(&mut Cli::command()))
    });
    let (mut cli, is_from_environment) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            if error.use_stderr() {
                output::note(error.render().to_string().trim_end()); // removes control characters, because the message quotes the arguments
                return Exit::Usage.into();
            }
            drop(error.print()); // the text of --help or --version
            return Exit::Pass.into();
        }
    };
    let Some(command) = &cli.command else {
        output::print(BEGIN);
        return output::finish(Exit::Pass, false).into();
    };
    if is_from_environment && command.is_local() {
        cli.server = None;
    }
    let drives = command.drives_runs();
    harden(command);
    // A panic, such as a runtime that cannot start a thread, must also end with a documented exit code.
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| commands::dispatch(cli)));
    let exit = match done {
        Ok(Ok(exit)) => exit,
        Ok(Err(error)) => {
            output::report_error(&error);
            error.exit
        }
        Err(_) => {
            output::note(
                "error: internal failure, see above; resume an interrupted run with `burnin run --resume`",
            );
            Exit::Infrastructure
        }
    };
    output::finish(exit, drives).into()
}
