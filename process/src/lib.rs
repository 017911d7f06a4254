//! What every program of Tabane does as a process: it writes a log, ends with a sentence and an exit code, and gives up rights.
//!
//! The rule of this crate: it knows no bundle, and each of its parts serves two programs or more.

pub mod exit;
pub mod log;
pub mod sandbox;
pub mod stderr;
