//! What is measured of one case.

use serde::{Deserialize, Serialize};

/// The figures of one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    /// One TCP connection.
    pub(super) one: Speed,
    /// Four at once.
    pub(super) four: Speed,
    /// Round trips beside one connection.
    pub(super) loaded: RoundTrips,
    /// A link's cable is pulled at the first host.
    pub(super) cable: Death,
    /// A link's switch swallows everything.
    pub(super) black_hole: Death,
}

/// TCP as fast as it can.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Speed {
    /// Payload that arrived, in Mbit/s.
    pub(super) mbps: f64,
    /// TCP segments sent again, counted by the kernel.
    pub(super) retransmits: u64,
    /// CPU time of the whole machine per 10^9 bytes.
    pub(super) cpu_s_per_gb: f64,
}

/// Round trips of one byte.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RoundTrips {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// What the death of a link costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Death {
    /// Longest time in which one of four TCP connections got nothing, in milliseconds; below 1: none worth telling.
    pub(super) stall_ms: f64,
    /// Connections that broke.
    pub(super) broken: u64,
    /// What became of four flows of datagrams; none where there are none.
    pub(super) datagrams: Option<Datagrams>,
}

/// Datagrams while a link is dead.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Datagrams {
    /// Lost while the link was dead.
    pub(super) lost: u64,
    /// Sent per second, all flows together, over the whole trial.
    pub(super) sent_per_second: f64,
}
