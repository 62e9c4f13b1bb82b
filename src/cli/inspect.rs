//! `writ inspect`: which conf applies to which proxy, and which policy says so.

mod files;
mod get;

use std::io::Write;

use super::Outcome;

/// Show which mesh policies apply where
#[derive(Debug, clap::Args)]
pub struct Inspect {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Get(get::Get),
}

impl Inspect {
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> anyhow::Result<Outcome> {
        match self.command {
            Command::Get(command) => command.run(out, talk),
        }
    }
}
