//! The log: state changes on stderr, one compact line each, filtered by the environment variable `TABANE_LOG`.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use crate::error::BadInput;
use crate::stderr::Stderr;

/// Variable with the filter: a level (`debug`), or levels by module (`info,tabane::control=trace`).
const VARIABLE: &str = "TABANE_LOG";

/// Starts the log at level INFO, or as `TABANE_LOG` says.
///
/// # Errors
/// [`BadInput`] when the filter cannot be read.
pub fn start() -> Result<(), BadInput> {
    let typed = std::env::var(VARIABLE).unwrap_or_default();
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).parse(&typed);
    let allowed = "off, error, warn, info, debug, trace, or such levels by module";
    let filter = filter.map_err(|error| BadInput::new(format!("{VARIABLE}: {error}; allowed: {allowed}")))?;
    let log = tracing_subscriber::fmt().compact().with_env_filter(filter).with_writer(|| Stderr);
    // Tests start the log more than once; the first one stays.
    let _ = log.with_ansi(io::stderr().is_terminal()).with_target(false).try_init();
    Ok(())
}
