//! The daemon of a bundle, `tabaned`, as a library, so that tests and fuzz targets reach its parts.
//!
//! ```text
//!   tabane up, tabane upgrade ── Start, one JSON line ── start ── run ── the data path, until a signal or `stop`
//!   tabane status, top, …     ── one JSON line each way ── control ─┘
//! ```
//!
//! Its rooms, each of which imports only what stands below it (`lab/tests/tidy.rs`):
//!
//! ```text
//!   start        what the program is started for; it opens everything, gives up its rights and starts the threads
//!   main_thread  signals, NICs that change, signs of life, handover to a new process, and names of peers
//!   control      the thread that answers requests on the control socket
//!   shell        the configuration in force, the links, and what requests change of both
//!   worker       the threads that carry frames, each with a core
//!   machine      what is opened of the machine: device, sockets, programs of the kernel path, NICs that are asked for their speed
//!   events       the event log
//! ```
//!
//! The rule of this crate: it has no command line and reads no configuration and no key file; what it is linked with is a list
//! (`lab/tests/tidy.rs`).

pub mod control;
pub mod events;
#[doc(hidden)]
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod machine;
mod main_thread;
mod shell;
mod start;
mod worker;

pub use start::main;
