//! The command line: a list of commands, each in a file of its own with its arguments and `run`.

mod apply;
mod changes;
mod clock;
mod complaint;
mod connection;
mod duration;
mod explain;
mod foresight;
mod format;
mod inspect;
mod jp;
mod live;
mod load;
mod migrate;
mod modify;
mod output;
mod plan;
mod rbac;
mod serve;
mod simulate;
mod test;
mod validate;
mod values;
mod world;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use apply::Apply;
pub use explain::Explain;
pub use inspect::Inspect;
pub use jp::Jp;
pub use migrate::Migrate;
pub use modify::Modify;
pub use plan::Plan;
pub use rbac::Rbac;
pub use serve::Serve;
pub use test::Test;
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
    Apply(Apply),
    Explain(Explain),
    Inspect(Inspect),
    Jp(Jp),
    Migrate(Migrate),
    Modify(Modify),
    Plan(Plan),
    Rbac(Rbac),
    Serve(Box<Serve>),
    Test(Test),
    Validate(Validate),
}

/// How a command that could run ended: `main` exits with 0 or 1, and with 2 on an `Err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Clean,
    Findings,
}

impl Command {
    fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> anyhow::Result<Outcome> {
        match self {
            Self::Apply(command) => command.run(out),
            Self::Explain(command) => command.run(out),
            Self::Inspect(command) => command.run(out, talk),
            Self::Jp(command) => command.run(out),
            Self::Migrate(command) => command.run(out, talk),
            Self::Modify(command) => command.run(out, talk),
            Self::Plan(command) => command.run(out),
            Self::Rbac(command) => command.run(out),
            Self::Serve(command) => command.run(out),
            Self::Test(command) => command.run(out),
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
    let outcome = cli.command.run(out, talk);
    output::exit_code(outcome, talk)
}
