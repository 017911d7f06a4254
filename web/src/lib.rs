//! `tabane web`: the page in the browser, and the metrics, of the bundles that are up on this machine.
//!
//! ```text
//!   browser ─── HTTP ──> server ── guard ── routes ──> bundles ── control sockets ──> tabane up
//!   Prometheus ─────────────────────────────────┴──> metrics
//! ```
//!
//! A process of its own that opens no device and holds no key: it asks bundles as `tabane status` does. The program
//! `tabane`, which opens devices, links no HTTP.

pub mod bundles;
mod cli;
pub mod metrics;

use std::ffi::OsString;
use std::process::ExitCode;

pub use cli::command;

/// Does what the command line `arguments` asks; the first one is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match cli::parse(arguments) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => error.exit(),
    }
}
