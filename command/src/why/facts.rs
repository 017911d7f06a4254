//! What happened while a bundle was watched, as plain data. Rates in bits per second, shares in percent.

use serde::Serialize;

use tabane_api::status::{FULL_PERCENT, PathState};

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Facts {
    /// For how long it was watched, in milliseconds.
    pub(super) millis: u64,
    /// Whether more left by the device than came in by it: whether this node sends.
    pub(super) sends: bool,
    /// What passed the device in that direction.
    pub(super) rate: u64,
    /// The policy, and whether it binds each flow to one link.
    pub(super) policy: String,
    pub(super) binds: bool,
    /// The peer with which most was exchanged; empty: there is none.
    pub(super) peer: String,
    /// How frames to it travel, where this node has the kernel path or asks for it in vain; else empty.
    pub(super) data_path: String,
    pub(super) paths: Vec<Path>,
    pub(super) workers: Vec<Worker>,
    /// How busy the processors were, each.
    pub(super) processors: Vec<u64>,
    /// The connections of TCP over the device, those that carried most first.
    pub(super) flows: Vec<Flow>,
    pub(super) drops: Drops,
}

/// A path to the peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Path {
    pub(super) nic: String,
    /// Whether it is up in the direction that is looked at.
    pub(super) state: PathState,
    pub(super) carried: u64,
    /// What it can carry; `None`: not known.
    pub(super) can: Option<u64>,
    /// How much later than over the fastest one cells arrive, in microseconds, in the direction in which this node sends.
    pub(super) skew_us: u64,
    /// By how much its delay varies, in microseconds; 0: it is taken for steady.
    pub(super) variation_us: u64,
    pub(super) loss: f64,
    /// Reports of the peer about it, in a second.
    pub(super) reports: u64,
    /// Share of the peer's reports that said that cells still waited there to be read.
    pub(super) behind: u64,
    /// How long cells waited behind the NIC, in microseconds: the median of several looks.
    pub(super) waited_us: u64,
    /// Share of the looks at which bytes waited for the link: it was never idle when that is all of them.
    pub(super) waiting: u64,
    /// Bytes that waited for the link in the end.
    pub(super) queued: u64,
}

/// A worker's thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Worker {
    pub(super) name: String,
    /// Share of the time in which it worked: it ran, and did not spin while nothing came.
    pub(super) worked: u64,
    /// Share of the time in which it was ready and others had the processor.
    pub(super) waited: u64,
}

/// A connection of TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Flow {
    pub(super) ends: String,
    /// What it carried in the direction that is looked at.
    pub(super) rate: u64,
    /// Share of the looks at which its program had written nothing more.
    pub(super) idle: u64,
    /// Share of the time in which the receiver's window let nothing leave.
    pub(super) window_limited: u64,
    /// Share of the time in which the send buffer had no room.
    pub(super) buffer_limited: u64,
    /// What the receiver lets the sender send, and the buffer of the end that is here, in bytes.
    pub(super) window: u64,
    pub(super) buffer: u64,
    /// Share of the receive buffer of this end that nobody has read.
    pub(super) unread: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Drops {
    pub(super) frames: u64,
    /// Frames that found the device's queue or the bundle's full.
    pub(super) queue: u64,
    /// Cells received, and those that were waited for in vain.
    pub(super) cells: u64,
    pub(super) given_up: u64,
}

/// Percent of a full link's rate that it carries at least in a short while: rates are measured in lumps, and a busy processor makes
/// them larger. [`FULL_PERCENT`] holds of all links together.
const FULL_ENOUGH: u64 = 60;
const FULL_LEAST: u64 = 40;
/// Percent of the looks at which bytes wait for a link that is never idle.
const NEVER_IDLE: u64 = 90;

impl Path {
    /// How full it was, in percent; `None`: nobody knows what it can carry.
    pub(super) fn fullness(&self) -> Option<u64> {
        self.can.filter(|can| *can > 0).map(|can| self.carried.saturating_mul(100) / can)
    }

    /// The same where programs carry frames: the rate that cells were measured to have is that of heartbeats then. A link behind
    /// which they always wait carries what it can.
    pub(super) fn by_programs(self) -> Self {
        Self { can: Some(self.carried).filter(|_| self.waiting >= NEVER_IDLE), ..self }
    }

    fn is_never_idle(&self) -> bool {
        self.waiting >= NEVER_IDLE && self.fullness().is_some_and(|full| full >= FULL_LEAST)
    }

    /// Whether it is full, as far as it shows by itself.
    pub(super) fn is_full(&self) -> bool {
        self.is_never_idle() || self.fullness().is_some_and(|full| full >= FULL_ENOUGH)
    }
}

pub(super) fn are_full(paths: &[&Path]) -> bool {
    let sum = |of: fn(&Path) -> u64| paths.iter().map(|path| of(path)).sum::<u64>();
    let is_much = sum(|path| path.carried) * 100 >= sum(|path| path.can.unwrap_or(0)) * FULL_PERCENT;
    let is_never_idle = paths.iter().all(|path| path.is_never_idle());
    paths.iter().all(|path| path.is_full()) && (is_much || is_never_idle)
}
