//! The daemon `tabane` as a library, so that tests and fuzz targets reach the parts of the binary.
//!
//! ```text
//!   cli ── flags ──┐
//!                  ├─ tabane-config ── Config ── run ── the data path, until a signal or `stop`
//!   TOML file ─────┘                              │
//!   cli ── remote, status, top, trace ── control ─┘ one JSON line each way
//! ```
//!
//! A command ends in one of four ways: 0, it did what was asked; 1, it failed while running; 2, what was asked
//! cannot be done with this input or on this machine; 3, `doctor` has found something ([`tabane_process::exit`]). Each error is one
//! sentence on one line.

mod background;
mod beside;
pub mod cli;
pub mod control;
mod device;
mod doctor;
pub mod events;
#[cfg(test)]
mod example;
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod handover;
mod in_force;
mod init;
mod kernel_path;
mod links;
mod machine;
mod medium;
pub mod metrics;
mod names;
mod notify;
mod offloading;
mod priority;
mod privileges;
mod reach;
mod refusal;
mod reload;
mod remote;
mod requests;
pub mod run;
mod running;
mod save;
pub mod screen;
mod shell;
pub mod snapshot;
mod speeds;
mod stdout;
mod top;
mod trace;
mod usage;
mod watchdog;
mod why;
mod worker;
mod workers;
