//! What happened to peers and links: the events that a log shows.

use crate::link::health::Signal;
use crate::session::expiry::Lapse;
use crate::session::security::PublicKey;
use crate::wire::hello::{Name, NodeId};

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
    /// A peer was shown out, for the keys of its session could not be renewed.
    PeerLapsed {
        /// Which.
        peer: NodeId,
        /// What kept them from it.
        lapse: Lapse,
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
