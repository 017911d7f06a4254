//! Measurements of any network, with or without a bundle: the probes of the papers P0, P1, P3 and P4.
//!
//! The library of the program `tabane-probe`, which `tabane probe` starts. It knows no bundle, no device and no link of
//! Tabane, so that its figures mean the same everywhere.
//!
//! ```text
//!     cli ── rtt, send, stream, sweep, pairs ── connection ── wire ══ network ══ wire ── serve
//!                 │          ╲
//!                 │           clock, machine, progress
//!               trace (CSV) ── stats ── report (table, JSON)
//!
//!     stamped: the kernel's stamps of what rtt and serve send and receive
//! ```
//!
//! [`stats`] does no I/O and is deterministic: a kept trace always gives the same report. While a probe measures,
//! it only calls, reads the clock and stores: it allocates memory before, and computes afterwards.

mod cli;
mod clock;
mod connection;
mod machine;
mod output;
mod pairs;
mod rtt;
mod send;
pub mod serve;
mod stamped;
pub mod stats;
mod stream;
mod sweep;
mod trace;
mod window;
pub mod wire;

use std::io;

pub use cli::{command, main};

/// Why a probe ends without a report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be done: one sentence that says what is wrong and what is allowed.
    #[error("{0}")]
    Refused(String),
    /// A call failed that usually succeeds.
    #[error("{what}: {source}")]
    Failed {
        /// What was being done.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The other side does not keep to the protocol of a probe's server.
    #[error("{0}")]
    Confused(String),
}

impl Error {
    pub(crate) fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        |source| Error::Failed { what: what.into(), source }
    }
}
