//! The `burnin` command: arguments in, one of the documented exit codes out.

mod args;
mod commands;
pub mod documents;
mod exit;
mod local;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use crate::{args::Cli, exit::Exit};

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
    let exit = commands::dispatch(cli).unwrap_or_else(|error| {
        output::report_error(&error);
        error.exit
    });
    output::finish(exit, drives).into()
}
