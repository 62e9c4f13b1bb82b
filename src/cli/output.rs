//! What commands say to whoever started them: data on one stream, talk on the other, and an exit code.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use super::Outcome;

const COULD_NOT_RUN: u8 = 2;

/// The exit code of a finished command; an error is told first. A reader that went away (`writ … | head`) is no error.
pub(super) fn exit_code(result: anyhow::Result<Outcome>, talk: &mut dyn Write) -> ExitCode {
    match result {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(talk, "error: {error:#}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// Help and version are data; everything else that clap says is talk.
pub(super) fn usage(error: &clap::Error, out: &mut dyn Write, talk: &mut dyn Write) -> ExitCode {
    if error.use_stderr() {
        let _ = write!(talk, "{}", error.render());
        return ExitCode::from(COULD_NOT_RUN);
    }
    let _ = write!(out, "{}", error.render());
    ExitCode::SUCCESS
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
