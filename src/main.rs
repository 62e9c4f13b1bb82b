//! Installs the crypto provider, runs the command, exits.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return ExitCode::from(2);
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let code = writ::cli::run(std::env::args_os(), &mut out, &mut std::io::stderr());
    let _ = out.flush();
    code
}
