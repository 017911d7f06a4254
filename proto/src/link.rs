//! Links: what each NIC carries, and whether the paths over it work.

pub(crate) mod adaptive_timeout;
pub(crate) mod black_hole;
pub(crate) mod health;
pub(crate) mod heartbeat;
pub(crate) mod heartbeat_pacing;
pub(crate) mod hold_down;
pub(crate) mod inbound;
pub(crate) mod incast;
pub(crate) mod loss;
pub(crate) mod nic;
pub(crate) mod outbound;
