//! The command line: a list of commands, each in a file of its own with its arguments and `run`.

mod duration;
mod format;
mod load;
mod output;
mod serve;
mod validate;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use serve::Serve;
pub use validate::Validate;

/// Admits, runs and explains Kyverno generate rules and Kuma mesh policies on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "writ", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 clean, 1 findings, 2 could not run.";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<Serve>),
    Validate(Validate),
}

/// How a command that could run ended: `main` exits with 0 or 1, and with 2 on an `Err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Clean,
    Findings,
}

impl Command {
    fn run(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        match self {
            Self::Serve(command) => command.run(out),
            Self::Validate(command) => command.run(out),
        }
    }
}

/// Runs the command that the arguments name, the program's own name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>, out: &mut dyn Write, talk: &mut dyn Write) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error, out, talk),
    };
    output::exit_code(cli.command.run(out), talk)
}
