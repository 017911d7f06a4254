//! Which link carries the next cells: the policies, one file each.
//!
//! A policy sees the links that are up and how many cells wait, and gives some of them to one link. It is asked again
//! for the rest. It knows nothing of sockets, peers or repair.

mod adaptive;
mod round_robin;

use core::time::Duration;

/// A link as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The port that the link uses.
    pub port: u8,
    /// Bytes that wait in the port.
    pub queued: u64,
    /// Bytes per second, when known.
    pub rate: Option<u64>,
    /// How much later than on the fastest link a cell arrives.
    pub skew: Duration,
    /// The port takes no more at the moment.
    pub full: bool,
}

/// A policy's answer: so many cells for the link with this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index into the choices.
    pub index: usize,
    /// Cells, at least 1.
    pub cells: usize,
}

/// Distributes cells over links.
trait Distribute {
    /// How many of the `cells` (of `cell_bytes` each) that wait go to which link next; `None`: better wait until a
    /// port takes more. `choices` is not empty.
    fn share(&mut self, choices: &[Choice], cells: usize, cell_bytes: usize) -> Option<Share>;
}

/// The names of the policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// The link that will deliver first, from measured rate, queue and delay.
    #[default]
    Adaptive,
    /// One link after the other.
    RoundRobin,
}

impl PolicyKind {
    /// Every policy.
    pub const ALL: [Self; 2] = [Self::Adaptive, Self::RoundRobin];

    /// The name in files, flags and the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::RoundRobin => "rr",
        }
    }
}

/// The policy in force, with its state.
#[derive(Debug)]
pub(crate) enum Policy {
    Adaptive(adaptive::Adaptive),
    RoundRobin(round_robin::RoundRobin),
}

impl Policy {
    pub(crate) fn new(kind: PolicyKind) -> Self {
        match kind {
            PolicyKind::Adaptive => Self::Adaptive(adaptive::Adaptive::default()),
            PolicyKind::RoundRobin => Self::RoundRobin(round_robin::RoundRobin::default()),
        }
    }

    pub(crate) fn kind(&self) -> PolicyKind {
        match self {
            Self::Adaptive(_) => PolicyKind::Adaptive,
            Self::RoundRobin(_) => PolicyKind::RoundRobin,
        }
    }

    pub(crate) fn share(&mut self, choices: &[Choice], cells: usize, cell_bytes: usize) -> Option<Share> {
        let policy: &mut dyn Distribute = match self {
            Self::Adaptive(policy) => policy,
            Self::RoundRobin(policy) => policy,
        };
        policy.share(choices, cells, cell_bytes)
    }
}
