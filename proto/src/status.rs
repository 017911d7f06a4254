//! What can be seen from outside: peers and links as they stand.

use crate::bundle::Bundle;
use crate::group::peer::Peer;
use crate::policy::PolicyKind;
use crate::session::keyring::Keyring;
use crate::session::security::PublicKey;
use crate::time::Instant;
use crate::wire::hello::{Name, NodeId};
use core::net::SocketAddr;
use core::time::Duration;

/// One link to a peer.
#[derive(Clone, Copy, Debug)]
pub struct LinkStatus {
    /// Our port.
    pub port: u8,
    /// Where the peer listens.
    pub endpoint: SocketAddr,
    /// Whether cells are sent.
    pub sending: bool,
    /// Whether data avoids the link because of its losses.
    pub suspect: bool,
    /// The share of our cells that is lost on it, in parts of 10,000.
    pub lost: u32,
    /// Whether the peer's cells are heard.
    pub receiving: bool,
    /// To the peer and back, smoothed over heartbeats.
    pub round_trip: Option<Duration>,
    /// How much later than on the fastest link our cells arrive there.
    pub skew: Duration,
    /// The port's rate in bits per second, when known.
    pub rate: Option<u64>,
    /// Bytes that wait in the port.
    pub queued: u64,
    /// Cells sent on the link, of every kind.
    pub cells_sent: u64,
    /// Cells heard on the peer's link.
    pub cells_heard: u64,
    /// Cells of the peer's link found missing.
    pub cells_missed: u64,
}

/// One peer.
#[derive(Clone, Copy, Debug)]
pub struct PeerStatus {
    /// Its identity.
    pub node: NodeId,
    /// Its name.
    pub name: Name,
    /// When it was heard last.
    pub heard: Instant,
    /// How its cells are sealed, if they are.
    pub sealed: Option<SealStatus>,
    /// The key that it has proven, if it has one of its own.
    pub key: Option<PublicKey>,
}

/// The keys that a session has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealStatus {
    /// Their number.
    pub epoch: u8,
    /// Cells sealed with them.
    pub cells_sealed: u64,
    /// Cells of the peer opened with them.
    pub cells_opened: u64,
    /// The cipher of what goes to the peer.
    pub cipher_sent: &'static str,
    /// The cipher of what the peer sends.
    pub cipher_heard: &'static str,
}

impl SealStatus {
    fn of(keys: &Keyring) -> Self {
        let (cells_sealed, cells_opened) = keys.cells();
        let [cipher_sent, cipher_heard] = keys.ciphers();
        Self { epoch: keys.epoch(), cells_sealed, cells_opened, cipher_sent, cipher_heard }
    }
}

/// What a bundle holds that others have a part in: each has a bound, whatever they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Receive buffers that can be lent.
    pub buffers_free: usize,
    /// Receive buffers that are lent.
    pub buffers_lent: usize,
    /// Receive buffers that hold cells, or in which cells are gathered.
    pub buffers_held: usize,
    /// Frames that are to be delivered.
    pub frames: usize,
    /// Control messages that wait to be sent.
    pub messages: usize,
    /// Cells that wait to be sent again.
    pub repairs: usize,
}

impl Bundle {
    /// What is held now. Looks at each receive buffer.
    #[must_use]
    pub fn held(&self) -> Held {
        Held {
            buffers_free: self.pool.available(),
            buffers_lent: self.pool.lent(),
            buffers_held: self.pool.held(),
            frames: self.ready.frames(),
            messages: self.control.len(),
            repairs: self.resend.len() + self.stalled.repairs.len(),
        }
    }

    /// All peers that have answered, with their links.
    pub fn peers(&self) -> impl Iterator<Item = (PeerStatus, impl Iterator<Item = LinkStatus>)> {
        self.peers.iter().filter(|peer| peer.is_joined()).map(|peer| {
            let sealed = peer.keys.as_ref().map(SealStatus::of);
            let key = peer.keys.as_ref().and_then(Keyring::peer);
            let status = PeerStatus { node: peer.node, name: peer.name, heard: peer.heard(), sealed, key };
            let links = peer.outbound.iter().zip(&peer.paired).zip(&self.ports).zip(0..);
            let links = links.filter_map(|(((link, paired), port), number)| {
                let inbound = paired.map(|paired| &peer.inbound[usize::from(paired)]);
                Some(LinkStatus {
                    port: number,
                    endpoint: link.endpoint?,
                    sending: link.up,
                    suspect: link.loss.is_suspect(),
                    lost: link.loss.share(),
                    receiving: inbound.is_some_and(|inbound| inbound.health.is_up()),
                    round_trip: link.round_trip,
                    skew: link.skew,
                    rate: port.rate().map(|bytes| bytes.saturating_mul(8)),
                    queued: port.queued(),
                    cells_sent: link.sent(),
                    cells_heard: inbound.map_or(0, |inbound| inbound.heard),
                    cells_missed: inbound.map_or(0, |inbound| inbound.missed),
                })
            });
            (status, links)
        })
    }

    /// Bytes of memory that the state of each peer takes, cells that wait in receive buffers not included.
    pub fn peer_bytes(&self) -> impl Iterator<Item = usize> {
        self.peers.iter().map(Peer::bytes)
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> PolicyKind {
        self.policies.kind()
    }

    /// Bytes of the largest cell that is made now.
    #[must_use]
    pub fn cell_max(&self) -> usize {
        self.arena.cell_max() + self.tag()
    }
}
