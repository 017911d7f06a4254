//! The daemon of a bundle, `tabaned`, as a library, so that tests and fuzz targets reach its parts.
//!
//! ```text
//!   tabane up, tabane upgrade ── Start, one JSON line ── start ── run ── the data path, until a signal or `stop`
//!   tabane status, top, …     ── one JSON line each way ── control ─┘
//! ```
//!
//! The rule of this crate: it has no command line and reads no file that a user names; what it is linked with is a list
//! (`lab/tests/tidy.rs`).

pub mod control;
mod device;
pub mod events;
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod handover;
mod in_force;
mod kernel_path;
mod links;
mod machine;
mod medium;
mod names;
mod notify;
mod offloading;
mod priority;
mod privileges;
mod reach;
mod refusal;
mod requests;
mod run;
mod running;
mod shell;
mod snapshot;
mod speeds;
mod start;
mod watchdog;
mod worker;
mod workers;

pub use start::main;
