//! The experiments: a file each, with its options, what it measures and what it prints.

pub mod attack;
pub mod bench;
pub mod compare;
pub mod demo;
pub mod engines;
pub mod figures;
pub mod guests;
pub mod nics;
