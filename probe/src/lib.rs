//! Measurements of any network, with or without a bundle: the probes of the papers P0, P1, P3 and P4.
//!
//! The library of the program `tabane-probe`, which `tabane probe` starts. It knows no bundle, no device and no link of
//! Tabane, so that its figures mean the same everywhere.
//!
//! ```text
//!     cli ── rtt, send, stream, sweep, pairs ── connection ── wire ══ network ══ wire ── serve
//!                 │          ╲
//!                 │           clock, pace, cpu, interruption, progress
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
mod cpu;
mod error;
mod interruption;
mod log;
mod machine;
mod output;
mod pace;
mod pairs;
mod progress;
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

pub use cli::{command, main};
pub use error::Error;
