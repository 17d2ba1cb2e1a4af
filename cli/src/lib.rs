//! The `burnin` command: arguments in, one of the documented exit codes out.

mod args;
mod commands;
pub mod documents;
mod exit;
mod local;
mod outage;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Cli, Command},
    exit::Exit,
};

/// Keeps other users from writing to files of this process, and jobs from reading its environment.
fn harden(command: &Command) {
    use rustix::{
        fs::Mode,
        process::{DumpableBehavior, set_dumpable_behavior, umask},
    };
    // Whatever the caller's umask: other users must not write to a ledger or to programs in the data folder.
    let callers = umask(Mode::WGRP | Mode::WOTH);
    umask(callers | Mode::WGRP | Mode::WOTH);
    // Jobs run under the same user. Without this they could read the environment, and secrets in it, from /proc.
    if matches!(command, Command::Run { .. } | Command::Up { .. }) {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable); // an older kernel without the call does not protect
    }
}

/// Reads the command line and does what it asks for.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                output::note(error.render().to_string().trim_end()); // it quotes the arguments
                return Exit::Usage.into();
            }
            drop(error.print()); // help or version
            return Exit::Pass.into();
        }
    };
    let drives = cli.command.drives_runs();
    harden(&cli.command);
    // A panic, such as that of a runtime which gets no thread, is not one of the documented exit codes.
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| commands::dispatch(cli)));
    let exit = match done {
        Ok(Ok(exit)) => exit,
        Ok(Err(error)) => {
            output::report_error(&error);
            error.exit
        }
        Err(_) => {
            output::note(
                "error: an unexpected failure, reported above; what was begun is found by `burnin run --resume`",
            );
            Exit::Infrastructure
        }
    };
    output::finish(exit, drives).into()
}
