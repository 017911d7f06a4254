//! A deterministic world around the core of Tabane: nodes on bad links, hosts that send, and invariants that must hold.
//!
//! Everything follows from a seed: no clock, no thread, no hash map and no foreign generator takes part in a run, so
//! that the same seed is the same run, byte for byte, on every machine. Time jumps from event to event.
//!
//! ```text
//!   swarm (a plan from a seed) ─> run (phases, verdict) ─┐
//!                                  scenario tests ───────┴─> world (events, faults)
//!                                                              │
//!   traffic (flows, checks) <─ frame ─> node (one worker's turns around a bundle)
//!                                         │ ^
//!                                    send │ │ interrupt
//!                                         v │
//!   network: cable (NIC) ─> pipe ─> switch ─> pipe ─> cable (ring, coalescing) <─ injector (a stranger)
//! ```
//!
//! The world checks after each event: no duplicate, no corruption, order within each flow ([`traffic`]); counters that add up,
//! timers that lie in the future, turns and greetings that come to an end (`node`, `turn`, [`surroundings`]). It checks at the
//! end of a run: progress over the one link that is left, losses that have a cause, buffers that come back ([`run`]).
//!
//! Where a network would be in the way, bundles sit at a [`table`].
//!
//! A plan may have adversities beside its faults ([`adversity`]), a hostile member among them ([`hostile`]).

#![forbid(unsafe_code)]

pub mod adversity;
mod agenda;
pub mod cable;
pub mod competitor;
mod cubic;
pub mod fault;
pub mod flow;
pub mod frame;
pub mod hostile;
pub mod injector;
pub mod many;
pub mod network;
mod node;
mod pipe;
pub mod random;
pub mod router;
pub mod run;
mod socket;
pub mod statistics;
pub mod surroundings;
pub mod swarm;
pub mod table;
pub mod topology;
pub mod traffic;
mod turn;
mod worker;
pub mod world;
