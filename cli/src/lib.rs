//! The `burnin` command: arguments in, one of the documented exit codes out.

mod args;
mod commands;
pub mod documents;
mod exit;
mod local;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use crate::{args::Cli, exit::Exit};

/// Reads the command line and does what it asks for.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for; anything else is wrong usage.
            let wrong = error.use_stderr();
            drop(error.print());
            return if wrong { Exit::Usage.into() } else { Exit::Pass.into() };
        }
    };
    match commands::dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("error: {}", error.message);
            error.exit.into()
        }
    }
}
