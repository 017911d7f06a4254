//! Who is there: peers, links that join and leave, and processes that make way for others.

pub(crate) mod greeting;
pub(crate) mod handover;
pub(crate) mod hotplug;
pub(crate) mod membership;
pub(crate) mod peer;
