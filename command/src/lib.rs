//! The commands of `tabane` as a library, so that tests, the page and fuzz targets reach the parts of the program.
//!
//! ```text
//!   cli ── flags ──┐
//!                  ├─ tabane-config ── Config ── daemon.rs ── becomes `tabaned`, the daemon
//!   TOML file ─────┘
//!   cli ── remote, status, top, trace ── one JSON line each way ── the daemon's control socket
//! ```
//!
//! A command ends in one of four ways: 0, it did what was asked; 1, it failed while running; 2, what was asked
//! cannot be done with this input or on this machine; 3, `doctor` has found something ([`tabane_process::exit`]). Each error is one
//! sentence on one line.
//!
//! The rule of this crate: nothing of it runs in the daemon's process.

pub mod cli;
mod daemon;
mod doctor;
#[doc(hidden)]
pub mod fuzzing;
mod init;
pub mod metrics;
mod remote;
mod save;
pub mod screen;
mod source;
mod stdout;
mod top;
mod trace;
mod usage;
mod why;

pub use save::edited;
