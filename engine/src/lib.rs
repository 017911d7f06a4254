//! Engines: how a worker waits for frames and cells, and how a driver gets its buffers back from a device.
//!
//! An engine decides, and the owner of the device acts. [`receive`] decides how a worker waits. [`reclaim`] decides
//! when sent buffers come back: by interrupt, at the next send, or by one or the other as room is left. [`fragments`]
//! decides how many of a packet's fragments are copied into one, and holds the measurements for that.
//!
//! The rule of this crate: it is `no_std` and deterministic, as the core is. A simulated device drives it as a real one
//! does.
//!
//! Source: Shimizu et al., "Enhancement of over-Gbps protocol processing using BSD UNIX" (adaptive device drivers),
//! sections 4.1 and 5.3.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod fragments;
pub mod receive;
pub mod reclaim;
