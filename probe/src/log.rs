//! The log: what a server does, on stderr, one compact line each, filtered by the environment variable `TABANE_LOG`.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::Error;

/// Variable with the filter, the daemon's: a level (`debug`), or levels by module.
const VARIABLE: &str = "TABANE_LOG";

/// Starts the log at level INFO, or as `TABANE_LOG` says.
pub(crate) fn start() -> Result<(), Error> {
    let typed = std::env::var(VARIABLE).unwrap_or_default();
    let allowed = "off, error, warn, info, debug, trace, or such levels by module";
    let filter = filter(typed.trim())
        .map_err(|error| Error::Refused(format!("{VARIABLE}: {error}; allowed: {allowed}")))?;
    // A line that stderr does not take is lost; the server goes on.
    let log = tracing_subscriber::fmt().compact().with_max_level(LevelFilter::TRACE).with_writer(io::stderr);
    let log = log.log_internal_errors(false).with_ansi(io::stderr().is_terminal()).with_target(false);
    // Tests start the log more than once; the first one stays.
    let _ = log.finish().with(filter).try_init();
    Ok(())
}

/// What is let through: `typed`, and INFO of every module that it does not speak of.
fn filter(typed: &str) -> Result<Targets, ParseError> {
    let typed: Targets = if typed.is_empty() { Targets::new() } else { typed.parse()? };
    let level = typed.default_level().unwrap_or(LevelFilter::INFO);
    Ok(typed.with_default(level))
}
