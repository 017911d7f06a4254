//! The experiments: a file each, with its options, what it measures and what it prints.

pub mod aggregate;
pub mod apps;
pub mod attack;
pub mod bench;
pub mod compare;
pub mod demo;
pub mod engines;
pub mod failover;
pub mod guests;
pub mod loss;
pub mod mesh;
pub mod moderation;
pub mod netem;
pub mod rivals;
pub mod soak;
pub mod vlan;
