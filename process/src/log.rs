//! The log: state changes on stderr, one compact line each, filtered by the environment variable `TABANE_LOG`.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use tabane_config::problem::BadInput;

use crate::stderr::Stderr;

/// Variable with the filter: a level (`debug`), or levels by module (`info,tabaned::control=trace`).
const VARIABLE: &str = "TABANE_LOG";

/// Starts the log at level INFO, or as `TABANE_LOG` says.
pub fn start() -> Result<(), BadInput> {
    let typed = std::env::var(VARIABLE).unwrap_or_default();
    let allowed = "off, error, warn, info, debug, trace, or such levels by module";
    let filter = filter(typed.trim())
        .map_err(|error| BadInput::new(format!("{VARIABLE}: {error}; allowed: {allowed}")))?;
    let log = tracing_subscriber::fmt().compact().with_max_level(LevelFilter::TRACE).with_writer(|| Stderr);
    let log = log.with_ansi(io::stderr().is_terminal()).with_target(false).finish().with(filter);
    // Tests start the log more than once; the first one stays.
    let _ = log.try_init();
    Ok(())
}

/// What is let through: `typed`, and INFO of every module that it does not speak of.
fn filter(typed: &str) -> Result<Targets, ParseError> {
    let typed: Targets = if typed.is_empty() { Targets::new() } else { typed.parse()? };
    let level = typed.default_level().unwrap_or(LevelFilter::INFO);
    Ok(typed.with_default(level))
}
