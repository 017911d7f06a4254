//! The log: what a server does, on stderr, one compact line each, filtered by the environment variable `TABANE_LOG`.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use crate::error::Error;

/// Variable with the filter, the daemon's: a level (`debug`), or levels by module.
const VARIABLE: &str = "TABANE_LOG";

/// Starts the log at level INFO, or as `TABANE_LOG` says.
pub(crate) fn start() -> Result<(), Error> {
    let typed = std::env::var(VARIABLE).unwrap_or_default();
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).parse(&typed);
    let allowed = "off, error, warn, info, debug, trace, or such levels by module";
    let refused = |error| Error::Refused(format!("{VARIABLE}: {error}; allowed: {allowed}"));
    let log = tracing_subscriber::fmt().compact().with_env_filter(filter.map_err(refused)?);
    // A line that stderr does not take is lost; the server goes on.
    let log = log.with_writer(io::stderr).log_internal_errors(false);
    // Tests start the log more than once; the first one stays.
    let _ = log.with_ansi(io::stderr().is_terminal()).with_target(false).try_init();
    Ok(())
}
