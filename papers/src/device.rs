//! Models of the papers' machines: the costs of their devices and processors, with the project's engines at work on them.
//!
//! Nobody has these machines any more. Each is a set of figures with their sources ([`oc48`], [`exchange`]): most are
//! from the papers or from the standards that they name, some are assumed, and some are fitted to a published figure; a
//! test says to which. The other figures of a model are predictions, and are compared with the other published figures.
//! [`ping_pong`] is no paper's machine: seeds draw its parameters, to try what judges round trips.
//!
//! ```text
//!   sender: a processor that sends packets ── engine (tabane_engine) ── card: descriptors, bus, memory, line     (P1)
//!   exchange: two hosts that poll ── slot: units written and read through a window, a wire                      (P3)
//!   ping_pong: two hosts, NICs that moderate interrupts and write by lines of memory, a switch                  (P4)
//! ```

mod card;
pub mod exchange;
pub mod oc48;
pub mod ping_pong;
pub mod sender;
mod slot;

pub use slot::SlotSettings;
