//! Engines: how a worker waits for what comes, and how a driver gets its buffers back from a device.
//!
//! Beside the path of a frame: an engine decides, and whoever owns the device acts. [`receive`] says how a worker waits.
//! [`reclaim`] says when sent buffers come back: by interrupt, at the next send, or as the room that is left demands.
//! [`fragments`] says how many of a packet's fragments are copied into one; [`costs`] is what this machine showed about that.
//!
//! The rule of this crate: it is `no_std` and deterministic, as the core is. A simulated device drives it as a real one does.
//!
//! Source: Shimizu et al., "Enhancement of over-Gbps protocol processing using BSD UNIX" (adaptive device drivers),
//! sections 4.1 and 5.3.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod costs;
pub mod fragments;
pub mod receive;
pub mod reclaim;
