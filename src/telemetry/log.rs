//! Logs on stderr, as text for people or as JSON for collectors.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::TryInitError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    #[error("`{filter}` is not a log filter (like `info` or `writ=debug,kube=warn`): {source}")]
    Filter { filter: String, source: tracing_subscriber::filter::ParseError },
    #[error("logging was started twice: {0}")]
    Started(TryInitError),
}

/// Logs where a panic happened instead of what about: the message of a panic may quote what a rule was working on, a Secret
/// among it.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "Panicked");
    }));
}

/// Starts logging for the whole process.
pub fn start_logging(format: LogFormat, filter: &str) -> Result<(), LogError> {
    use tracing_subscriber::util::SubscriberInitExt;

    let parsed = EnvFilter::try_new(filter).map_err(|source| LogError::Filter { filter: filter.to_owned(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(true).finish().try_init(),
    }
    .map_err(LogError::Started)?;
    log_panics();
    Ok(())
}
