//! Measurements of any network, with or without a bundle: the probes of the papers P0, P1, P3 and P4.
//!
//! This crate knows no bundle, no device and no link of ours, so that its figures mean the same everywhere.
//! [`stats`] does no I/O and is deterministic: a kept trace gives the same report at any time.

pub mod stats;
