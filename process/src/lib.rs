//! What every program of Tabane does as a process: it writes a log, ends with a sentence and an exit code, and gives up rights.
//!
//! The rule of this crate: it knows no bundle, and each of its parts serves two programs or more.

pub mod exit;
pub mod sandbox;
pub mod stderr;

use std::io::{self, IsTerminal};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tabane_config::problem::BadInput;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::stderr::Stderr;

/// Variable with the filter: a level (`debug`), or levels by module (`info,tabaned::control=trace`).
const VARIABLE: &str = "TABANE_LOG";

/// Starts the log, state changes on stderr, one compact line each, at level INFO, or as `TABANE_LOG` says.
pub fn start_log() -> Result<(), BadInput> {
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

/// What a mutex guards: it is whole whatever became of the thread that had it last.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
