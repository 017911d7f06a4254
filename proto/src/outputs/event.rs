//! Events: what happened to peers and paths, for the event log.
//!
//! Rooms push events, and the daemon takes them by `poll_event`; `docs/events.md` describes them.
//! Invariant: at most [`EVENTS`] wait, and [`REFUSED`] refused nodes are remembered, whatever peers send.

use crate::security::PublicKey;
use crate::time::Instant;
use crate::wire::hello::{Name, NodeId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// Events that wait for the caller; beyond this the oldest is lost.
const EVENTS: usize = 256;
/// A refused node is reported again after this time.
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Refused nodes that are remembered; while there are so many, no other is reported.
const REFUSED: usize = 16;
/// A stranger is reported again after this time.
const STRANGER_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Strangers that are remembered; while there are so many, no other is reported.
const STRANGERS: usize = 8;

/// What showed that a path is dead, and the figures behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Cells had left the sender and did not arrive, although other paths brought theirs.
    BurstSkew {
        /// How many cells are overdue.
        overdue: u64,
        /// For how long.
        waited: Duration,
    },
    /// No cell arrived.
    Silence {
        /// For how long.
        waited: Duration,
    },
    /// The NIC lost its carrier or is gone.
    Carrier,
    /// The kernel refuses to send on it.
    SendError,
    /// The peer reports that it receives nothing.
    Report,
    /// This node takes the link out of the bundle.
    Removed,
    /// The peer takes the link out of the bundle.
    Farewell,
    /// The NIC at one end takes no cell of the smallest size.
    TooSmall,
}

impl Signal {
    /// Whether the path may work all the same: it only says what was not received. A doubted path is used when no other is up.
    pub(crate) fn is_doubt(self) -> bool {
        match self {
            Self::BurstSkew { .. } | Self::Silence { .. } | Self::Report => true,
            Self::Carrier | Self::SendError | Self::Removed | Self::Farewell | Self::TooSmall => false,
        }
    }
}

/// Why a session ended that its peer did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The peer does not know a group key that is accepted.
    KeyDropped,
    /// Handshakes have failed for so long.
    Unrenewed {
        /// The age of the keys.
        age: Duration,
    },
    /// The peer has received numbers that this node has not given yet: its machine goes on from a snapshot.
    RolledBack,
}

/// Which way a link is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From this node to the peer.
    Sending,
    /// From the peer to this node.
    Receiving,
}

/// Why a node that speaks to us cannot be a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It runs another number of workers.
    Workers {
        /// Ours.
        ours: u8,
        /// Theirs.
        theirs: u8,
    },
    /// As many peers as a bundle can have are there.
    Full,
    /// Its cells are sealed, ours are not.
    Seals,
    /// Its key is not among those that this node allows.
    NotAllowed {
        /// What it has proven; `None`: it has no key of its own.
        key: Option<PublicKey>,
    },
    /// It is there already, with another key.
    OtherKey {
        /// The key that it has claimed this time.
        key: Option<PublicKey>,
    },
    /// It seals with a cipher that this version does not know.
    Cipher {
        /// The cipher's number.
        theirs: u8,
    },
    /// It has the group's key, but speaks another version of the wire format.
    Version {
        /// Ours.
        ours: u8,
        /// Theirs.
        theirs: u8,
    },
}

/// Why a greeting does not come from the group, as far as its bytes tell. Anyone can send them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Its tag was made with another key.
    Key,
    /// It bears no tag: its sender does not seal.
    Unsealed,
    /// It seals, and this node does not.
    Sealed,
    /// Nothing is sealed, and its sender has another key, or one of the two has none.
    Group,
}

/// Something that happened, in the order in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer answered.
    PeerJoined {
        /// Which.
        peer: NodeId,
        /// Its name.
        name: Name,
        /// Whether cells between it and this node are sealed.
        sealed: bool,
    },
    /// A peer has been silent for so long that its state was dropped, or it was restarted.
    PeerLeft {
        /// Which.
        peer: NodeId,
    },
    /// A session with a peer ended, and the peer did not end it.
    PeerExpired {
        /// Which.
        peer: NodeId,
        /// The reason.
        expiry: Expiry,
    },
    /// A node was refused.
    PeerRefused {
        /// Which.
        peer: NodeId,
        /// Why.
        refusal: Refusal,
    },
    /// While there is no peer, somebody greets who is not of the group: perhaps the one whom the user waits for.
    Stranger {
        /// Our number of the link.
        link: u8,
        /// Where the greeting came from, as it says.
        from: SocketAddr,
        /// How the greeting differs.
        mismatch: Mismatch,
    },
    /// A link works in one direction.
    LinkUp {
        /// The peer it leads to.
        peer: NodeId,
        /// Its number: ours when sending, the peer's when receiving.
        link: u8,
        /// The direction.
        direction: Direction,
    },
    /// A link no longer works in one direction.
    LinkDown {
        /// The peer it leads to.
        peer: NodeId,
        /// Its number: ours when sending, the peer's when receiving.
        link: u8,
        /// The direction.
        direction: Direction,
        /// What showed it, with its figures.
        signal: Signal,
    },
    /// A path loses so much that data avoids it as long as another is better.
    LinkSuspect {
        /// The peer it leads to.
        peer: NodeId,
        /// Our number of it.
        link: u8,
        /// The share of cells that is lost, in parts of 10,000.
        lost: u32,
    },
    /// A path carries less than its NICs take, or more than it did.
    PathMtu {
        /// The peer it leads to.
        peer: NodeId,
        /// Our number of it.
        link: u8,
        /// The largest packet that it carries, in bytes.
        packet: u16,
        /// The largest that the NICs at both ends take.
        nic: u16,
    },
    /// What leaves by one call is lost on the way, and single cells arrive: the caller sends them one by one for a while.
    RunsLost {
        /// The peer it leads to.
        peer: NodeId,
        /// Our number of it.
        link: u8,
    },
    /// A peer drains its end of a path: data takes others, if one is up.
    LinkDrained {
        /// The peer that it leads to.
        peer: NodeId,
        /// Our number of it.
        link: u8,
    },
    /// A peer drains its end of a path no longer.
    LinkResumed {
        /// The peer that it leads to.
        peer: NodeId,
        /// Our number of it.
        link: u8,
    },
    /// A path that was suspect is used again.
    LinkTrusted {
        /// The peer it leads to.
        peer: NodeId,
        /// Our number of it.
        link: u8,
        /// The share of cells that is lost, in parts of 10,000.
        lost: u32,
    },
}

/// Events that the caller has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    /// Nodes that were refused lately, and when they were reported.
    refused: Vec<(NodeId, Instant)>,
    /// Strangers that were reported lately, and when.
    strangers: Vec<(IpAddr, Instant)>,
}

impl Events {
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }

    /// Something happened. Of too many events the oldest is lost.
    pub(crate) fn log(&mut self, event: Event) {
        if self.waiting.len() == EVENTS {
            self.waiting.pop_front();
        }
        self.waiting.push_back(event);
    }

    /// A node cannot be a peer. It tries again and again; the event is reported once in [`REPORT_AGAIN_AFTER`].
    pub(crate) fn refuse(&mut self, now: Instant, peer: NodeId, refusal: Refusal) {
        self.refused.retain(|(_, since)| now.since(*since) < REPORT_AGAIN_AFTER);
        if self.refused.len() < REFUSED && self.refused.iter().all(|(node, _)| *node != peer) {
            self.refused.push((peer, now));
            self.log(Event::PeerRefused { peer, refusal });
        }
    }

    /// Somebody greets who is not of the group. The event is reported once in [`STRANGER_AGAIN_AFTER`] of each address.
    pub(crate) fn meet(&mut self, now: Instant, link: u8, from: SocketAddr, mismatch: Mismatch) {
        self.strangers.retain(|(_, since)| now.since(*since) < STRANGER_AGAIN_AFTER);
        if self.strangers.len() < STRANGERS && self.strangers.iter().all(|(known, _)| *known != from.ip()) {
            self.strangers.push((from.ip(), now));
            self.log(Event::Stranger { link, from, mismatch });
        }
    }

    /// A peer is no longer allowed. It is reported even when [`REFUSED`] others were, and not again when it returns soon.
    pub(crate) fn shut_out(&mut self, now: Instant, peer: NodeId, refusal: Refusal) {
        self.refused.retain(|(node, _)| *node != peer);
        if self.refused.len() == REFUSED {
            self.refused.remove(0);
        }
        self.refused.push((peer, now));
        self.log(Event::PeerRefused { peer, refusal });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_fill_no_log() {
        let mut events = Events::default();
        let from = |number: u16| SocketAddr::from(([192, 0, 2, number.to_be_bytes()[1]], 1_024 + number));
        let meet = |events: &mut Events, seconds: u64| {
            let now = Instant::from_nanos(seconds * 1_000_000_000);
            (0..1_000).for_each(|number| events.meet(now, 0, from(number), Mismatch::Key));
            core::iter::from_fn(|| events.pop()).count()
        };
        assert_eq!(meet(&mut events, 1), STRANGERS);
        assert_eq!(meet(&mut events, 60), 0);
        assert_eq!(meet(&mut events, 61), STRANGERS, "who is still there is reported again");
    }

    #[test]
    fn a_path_may_work_although_nothing_was_received_and_not_when_it_cannot_be_used() {
        let waited = Duration::ZERO;
        for signal in [Signal::BurstSkew { overdue: 1, waited }, Signal::Silence { waited }, Signal::Report] {
            assert!(signal.is_doubt(), "{signal:?}");
        }
        let unusable =
            [Signal::Carrier, Signal::SendError, Signal::Removed, Signal::Farewell, Signal::TooSmall];
        for signal in unusable {
            assert!(!signal.is_doubt(), "{signal:?}");
        }
    }
}
