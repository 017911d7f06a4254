//! The status of a bundle: peers and paths as they are now, and how much the bundle holds.
//!
//! Beside the path: reads all rooms and changes nothing.

use crate::bundle::Bundle;
use crate::link::paths::Paths;
use crate::policy::PolicyKind;
use crate::security::PublicKey;
use crate::send::Sender;
use crate::session::keyring::Keyring;
use crate::session::table::Session;
use crate::time::Instant;
use crate::wire::hello::{Name, NodeId};
use core::net::SocketAddr;
use core::time::Duration;

/// What one link of this node should carry.
#[derive(Clone, Copy, Debug)]
pub struct LinkStatus {
    /// Its number.
    pub link: u8,
    /// Bits per second that this node sends over it at most, if the user states it.
    pub stated: Option<u64>,
    /// The NIC's speed in bits per second, if the kernel knows it.
    pub speed: Option<u64>,
    /// Whether this node drains it.
    pub drained: bool,
}

/// One path to a peer.
#[derive(Clone, Copy, Debug)]
pub struct PathStatus {
    /// Our link.
    pub link: u8,
    /// The link whose socket it uses: another one, where several links of the peer end at that.
    pub socket: u8,
    /// The peer's link at its other end, once that is known.
    pub peer_link: Option<u8>,
    /// Where the peer listens.
    pub endpoint: SocketAddr,
    /// Whether this node sends data over it.
    pub sending: bool,
    /// Whether data avoids the path because of its losses.
    pub suspect: bool,
    /// Whether data avoids the path because one of its ends drains it.
    pub drained: bool,
    /// The share of our cells that the path loses, in parts of 10,000.
    pub lost: u32,
    /// Whether this node takes the path from the peer for usable.
    pub receiving: bool,
    /// To the peer and back, smoothed over heartbeats.
    pub round_trip: Option<Duration>,
    /// The largest packet that is known to arrive, and the largest that the NICs at both ends take, in bytes.
    pub packets: Option<(u16, u16)>,
    /// How much later than on the fastest path our cells arrive there.
    pub skew: Duration,
    /// By how much its delay varies, where that rules how much is sent.
    pub variation: Option<Duration>,
    /// Bits per second of its bottleneck, the NIC or what stands behind it, when known.
    pub rate: Option<u64>,
    /// Bytes that wait in the link.
    pub queued: u64,
    /// Whether the window of what may be on the way held cells back lately: the way or the receiver is the bottleneck.
    pub congested: bool,
    /// Bytes of data cells sent, headers and tags included.
    pub bytes_sent: u64,
    /// Bytes of data cells received, headers included.
    pub bytes_received: u64,
    /// Cells sent on the link, of every kind.
    pub cells_sent: u64,
    /// Cells received on the peer's link.
    pub cells_received: u64,
    /// Cells of the peer's link found missing.
    pub cells_missed: u64,
    /// How long cells wait behind our NIC: in a router's queue, or at the peer until it reads them.
    pub queue_behind: Duration,
    /// The peer's reports about our link.
    pub reports: u64,
    /// Of these, how many said that our cells still waited in the peer's socket: it does not read as fast as they come.
    pub reports_behind: u64,
}

/// One peer.
#[derive(Clone, Copy, Debug)]
pub struct PeerStatus {
    /// Its identity.
    pub node: NodeId,
    /// Its name.
    pub name: Name,
    /// When a cell of it arrived last.
    pub last_received: Instant,
    /// How long gaps among its cells are waited for.
    pub reorder_timeout: Option<Duration>,
    /// Its cells that wait for those before them.
    pub reorder_cells: usize,
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
    /// How long ago they were agreed on.
    pub age: Duration,
    /// The cipher of what goes to the peer.
    pub cipher_sent: &'static str,
    /// The cipher of what the peer sends.
    pub cipher_received: &'static str,
}

impl SealStatus {
    fn of(keys: &Keyring, now: Instant) -> Self {
        let (cells_sealed, cells_opened) = keys.cells();
        let [cipher_sent, cipher_received] = keys.ciphers();
        let age = now.since(keys.age().0);
        Self { epoch: keys.epoch(), cells_sealed, cells_opened, age, cipher_sent, cipher_received }
    }
}

/// What a bundle holds because of what others sent: each item has a bound, whatever they send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Receive buffers that can be lent.
    pub buffers_free: usize,
    /// Receive buffers that are lent.
    pub buffers_lent: usize,
    /// Receive buffers that hold cells, or in which cells are gathered.
    pub buffers_held: usize,
    /// Frames that wait to be delivered.
    pub frames: usize,
    /// Control messages that wait to be sent.
    pub messages: usize,
    /// Cells that wait to be sent again.
    pub repairs: usize,
}

impl Bundle {
    /// What the bundle holds now. The cost grows with the number of receive buffers.
    pub fn held(&self) -> Held {
        let pool = self.receiver.pool();
        Held {
            buffers_free: pool.available(),
            buffers_lent: pool.lent(),
            buffers_held: pool.held(),
            frames: self.receiver.frames(),
            messages: self.out.outbox.len(),
            repairs: self.sender.repairs(),
        }
    }

    /// The links of this node; one that leaves is still there.
    pub fn links(&self) -> impl Iterator<Item = LinkStatus> {
        (0..).zip(self.links.all()).map(|(link, own)| LinkStatus {
            link,
            stated: own.settings.rate,
            speed: own.load.speed(),
            drained: own.settings.drained,
        })
    }

    /// All peers that have answered, with their links.
    pub fn peers(&self) -> impl Iterator<Item = (PeerStatus, impl Iterator<Item = PathStatus>)> {
        let table = self.sessions.table();
        let joined = move |index| table.get(index).filter(|session| session.is_joined());
        table.indices().filter_map(move |index| {
            let (session, paths) = (joined(index)?, self.links.paths(index)?);
            let sealed = session.keys.as_ref().map(|keys| SealStatus::of(keys, self.polled));
            let key = session.keys.as_ref().and_then(Keyring::peer);
            let status = PeerStatus {
                node: session.node,
                name: session.name,
                last_received: paths.last_received(),
                reorder_timeout: self.receiver.reorder_timeout(index, &self.links),
                reorder_cells: self.receiver.waiting(index),
                sealed,
                key,
            };
            let links = paths.outbound.iter().zip(&*paths.paired).zip(self.links.by_number()).zip(0..);
            let links = links.filter_map(|(((path, paired), link), number)| {
                let inbound = paired.map(|paired| &paths.inbound[paired]);
                Some(PathStatus {
                    link: number,
                    socket: self.links.socket(number),
                    peer_link: *paired,
                    endpoint: path.end.endpoint?,
                    sending: path.is_up(),
                    suspect: path.loss.is_suspect(),
                    drained: path.is_drained(&link.settings),
                    lost: path.loss.share(),
                    receiving: inbound.is_some_and(|inbound| inbound.health.is_up()),
                    round_trip: path.round_trip,
                    packets: path.path_mtu.packets(),
                    skew: path.skew,
                    variation: path.congestion.variation(),
                    rate: path.rate(link).map(|bytes| bytes.saturating_mul(8)),
                    queued: link.queue.queued(),
                    congested: path.congestion.was_limited(self.polled),
                    bytes_sent: path.bytes_sent(),
                    bytes_received: inbound.map_or(0, |inbound| inbound.bytes),
                    cells_sent: path.numbers.sent(),
                    cells_received: inbound.map_or(0, |inbound| inbound.received),
                    cells_missed: inbound.map_or(0, |inbound| inbound.missed),
                    queue_behind: path.congestion.queue(),
                    reports: path.receipts.reports,
                    reports_behind: path.receipts.behind,
                })
            });
            Some((status, links))
        })
    }

    /// Bytes of memory that the state of each peer takes, cells that wait in receive buffers not included.
    pub fn peer_bytes(&self) -> impl Iterator<Item = usize> {
        let table = self.sessions.table();
        let present = move |index: &u16| table.get(*index).is_some();
        table.indices().filter(present).map(|index| {
            let links = self.links.paths(index).map_or(0, Paths::bytes);
            size_of::<Session>() + links + self.receiver.bytes(index) + Sender::bytes_of_peer()
        })
    }

    /// Whether every peer's device takes UDP superframes, so that ours may produce them.
    pub fn peers_take_uso(&self) -> bool {
        self.sessions.table().iter().all(|session| session.takes_uso)
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.sessions.node()
    }

    /// The policy in force.
    pub fn policy(&self) -> PolicyKind {
        self.sender.policy()
    }

    /// Bytes of the largest cell that is made now.
    pub fn cell_max(&self) -> usize {
        self.sender.cell_max(&self.sessions)
    }
}
