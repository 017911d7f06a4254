//! Equipment for experiments: network namespaces as RAII, topologies, workloads, measurement and reports around real bundles.
//!
//! Every command runs inside a [`sandbox`] of its own, builds a [`topology`] of hosts and switches there, starts
//! [`bundle`]s on the hosts, drives a [`workload`] through them and ends in a [`report`]: the same form for all.
//! Everything it makes belongs to the sandbox, so that nothing outlives the process, even when that is killed.
//!
//! ```text
//! sandbox -> netns -> topology -> bundle -> workload -> report
//!                    (rate, emulator) (status) (cpu, counters)
//! ```
#![forbid(unsafe_code)]

pub mod bonding;
pub mod bundle;
pub mod clock;
pub mod counters;
pub mod emulator;
pub mod guest;
pub mod machine;
pub mod prelude;
pub mod progress;
pub mod prometheus;
pub mod rate;
pub mod report;
pub mod sandbox;
pub mod status;
pub mod strip;
pub mod systemd;
pub mod topology;
mod usual;
pub mod workload;

pub use tabane_netns::{self as netns, needs as prerequisites, process};
