//! The way of a frame from the device to the links.

pub(crate) mod chain;
pub(crate) mod codel;
pub(crate) mod deferred;
pub(crate) mod ecn_mark;
pub(crate) mod fit;
pub(crate) mod lane;
pub(crate) mod park;
pub(crate) mod queue;
pub(crate) mod repair;
pub(crate) mod replicate;
pub(crate) mod ring;
pub(crate) mod schedule;
pub(crate) mod segment;
pub(crate) mod transmit;
