//! Measurements of any network, with or without a bundle: the probes of the papers P0, P1, P3 and P4.
//!
//! The library of the program `tabane-probe`, which `tabane probe` starts. It knows no bundle, no device and no link of ours, so that its figures mean the same everywhere.
//!
//! ```text
//!     cli ── rtt, send, stream, sweep ── connection ── wire ══ network ══ wire ── serve
//!                 │          ╲
//!                 │           clock, pace, cpu, interruption, progress
//!               trace (CSV) ── stats ── report (table, JSON)
//! ```
//!
//! [`stats`] does no I/O and is deterministic: a kept trace gives the same report at any time. While a probe measures,
//! it does nothing but call, look at the clock and note: memory is there from the start, and all else follows later.

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
mod progress;
mod rtt;
mod send;
pub mod serve;
pub mod stats;
mod stream;
mod sweep;
mod trace;
mod window;
pub mod wire;

pub use cli::main;
pub use error::Error;
