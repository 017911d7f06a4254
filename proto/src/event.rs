//! What happened to peers and links: the events that a log shows.

use crate::security::PublicKey;
use crate::time::Instant;
use crate::wire::hello::{Name, NodeId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

/// Events that are kept until someone asks.
const EVENTS: usize = 256;
/// A node that is refused is reported again after this time, and so many are at most.
const TELL_AGAIN_AFTER: Duration = Duration::from_secs(10);
const REFUSED: usize = 16;

/// What showed that a link is dead, and the figures behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Cells had left the sender, and none of them came although the other links brought theirs.
    BurstSkew {
        /// How many cells are overdue.
        overdue: u64,
        /// For how long.
        waited: Duration,
    },
    /// No heartbeat came.
    Silence {
        /// For how long.
        waited: Duration,
    },
    /// The NIC lost its carrier or is gone.
    Carrier,
    /// The kernel refuses to send on it.
    SendError,
    /// The receiver says so.
    Report,
    /// This node takes the link out of the bundle.
    Removed,
    /// The peer takes the link out of the bundle.
    Farewell,
    /// The NIC at one end takes smaller cells only than any that is made.
    TooSmall,
}

impl Signal {
    /// Whether it only says that nothing was received: the link may work all the same.
    pub(crate) fn is_doubt(self) -> bool {
        match self {
            Self::BurstSkew { .. } | Self::Silence { .. } | Self::Report => true,
            Self::Carrier | Self::SendError | Self::Removed | Self::Farewell | Self::TooSmall => false,
        }
    }
}

/// Why the keys of a session could not be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The peer does not know a group key that is accepted.
    KeyDropped,
    /// Handshakes have failed for so long.
    Unrenewed {
        /// The age of the keys.
        age: Duration,
    },
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
        /// What was claimed this time.
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

/// Something that happened, in the order in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer answered.
    PeerJoined {
        /// Which.
        peer: NodeId,
        /// Its name.
        name: Name,
        /// Whether what it and we say to each other is sealed.
        sealed: bool,
    },
    /// A peer has been silent for so long that its state was dropped, or it was restarted.
    PeerLeft {
        /// Which.
        peer: NodeId,
    },
    /// A peer was put out, for the keys of its session could not be renewed.
    PeerExpired {
        /// Which.
        peer: NodeId,
        /// What kept them from it.
        expiry: Expiry,
    },
    /// A node was refused.
    PeerRefused {
        /// Which.
        peer: NodeId,
        /// Why.
        refusal: Refusal,
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
    /// A link loses so much that data avoids it as long as another is better.
    LinkSuspect {
        /// The peer it leads to.
        peer: NodeId,
        /// Our number of it.
        link: u8,
        /// The share of cells that is lost, in parts of 10,000.
        lost: u32,
    },
    /// A link that was suspect is used again.
    LinkTrusted {
        /// The peer it leads to.
        peer: NodeId,
        /// Our number of it.
        link: u8,
        /// The share of cells that is lost, in parts of 10,000.
        lost: u32,
    },
}

/// Events that nobody has asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    /// Nodes that were refused lately, and since when they are not reported.
    refused: Vec<(NodeId, Instant)>,
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

    /// A node cannot be a peer. It comes again and again; the event is reported once in a while.
    pub(crate) fn refuse(&mut self, now: Instant, peer: NodeId, refusal: Refusal) {
        self.refused.retain(|(_, since)| now.since(*since) < TELL_AGAIN_AFTER);
        if self.refused.len() < REFUSED && self.refused.iter().all(|(node, _)| *node != peer) {
            self.refused.push((peer, now));
            self.log(Event::PeerRefused { peer, refusal });
        }
    }

    /// A peer is a peer no more. It is reported, however many others were, and not again when it comes back soon.
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
