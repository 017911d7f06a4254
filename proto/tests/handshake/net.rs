//! A few bundles on common segments, one for each link, with the real cryptography: all others on the segment receive a cell
//! in the millisecond in which a bundle sends it, unless the test decides otherwise.

use core::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use core::time::Duration;
use tabane_proto::security::{PublicKey, Rekey};
use tabane_proto::wire::cell::{Header, Kind};
use tabane_proto::{
    Bundle, Counters, Event, Instant, LinkSettings, Name, NodeId, Outcome, PolicyKind, Settings,
};
use tabane_seal::{Cipher, Group, Random, public_key};

/// The key of the group that nodes belong to by default.
pub(crate) const KEY: [u8; 32] = [7; 32];
/// Links of every node when it starts.
pub(crate) const LINK_COUNT: u8 = 2;
/// The largest cell of every link.
const CELL_MAX: u16 = 1_452;
/// The virtio and Ethernet headers of a broadcast frame of the EtherType for local experiments; a number follows.
const HEADS: [u8; 24] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
/// Where the source address ends in them.
const SOURCE_END: usize = 21;

/// Something on a segment.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) from: usize,
    /// `None`: everyone.
    pub(crate) to: Option<usize>,
    pub(crate) link: u8,
    pub(crate) bytes: Vec<u8>,
}

impl Cell {
    pub(crate) fn header(&self) -> Header {
        Header::parse(&self.bytes).expect("nodes say nothing else")
    }

    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.header().kind == kind
    }
}

struct Node {
    bundle: Bundle,
    /// By how much its clock is behind.
    behind: Duration,
    events: Vec<Event>,
    /// Numbers of the frames that were delivered.
    delivered: Vec<u64>,
}

pub(crate) struct Net {
    pub(crate) now: Instant,
    nodes: Vec<Node>,
    rekey: Rekey,
    /// All cells that were sent.
    pub(crate) said: Vec<Cell>,
    /// Bundles made.
    starts: u64,
    sent: u64,
}

impl Net {
    /// So many nodes of one group that have just started.
    pub(crate) fn new(nodes: usize) -> Self {
        let mut net = Self::empty(Rekey::default());
        (0..nodes).for_each(|_| net.add(Some(KEY)));
        net
    }

    /// Nobody yet.
    pub(crate) fn empty(rekey: Rekey) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self { now, nodes: Vec::new(), rekey, said: Vec::new(), starts: 0, sent: 0 }
    }

    /// One more node, with a group key or without.
    pub(crate) fn add(&mut self, key: Option<[u8; 32]>) {
        let bundle = self.start(self.nodes.len(), key);
        let (behind, events, delivered) = (Duration::ZERO, Vec::new(), Vec::new());
        self.nodes.push(Node { bundle, behind, events, delivered });
    }

    /// A node is started anew.
    pub(crate) fn restart(&mut self, node: usize) {
        self.nodes[node].bundle = self.start(node, Some(KEY));
        self.nodes[node].events.clear();
    }

    /// A node goes on as it is in another world: its machine runs again from a snapshot, and its clock as well.
    pub(crate) fn roll_back(&mut self, node: usize, snapshot: Self) {
        self.nodes[node].behind = self.now.since(snapshot.now);
        self.nodes[node].bundle = snapshot.nodes.into_iter().nth(node).expect("the same nodes").bundle;
    }

    fn start(&mut self, node: usize, key: Option<[u8; 32]>) -> Bundle {
        self.starts += 1;
        let mut bundle = Bundle::new(self.now, settings(node, self.starts));
        if let Some(key) = key {
            bundle.set_security(Box::new(group(&[key], self.starts)), self.rekey);
        }
        bundle
    }

    /// A running node takes one more link in, on a segment of its own.
    pub(crate) fn add_link(&mut self, node: usize) {
        self.nodes[node].bundle.add_link(self.now, LinkSettings::new(CELL_MAX)).expect("a free number");
    }

    /// A running node speaks the first of these keys from now on, and accepts all.
    pub(crate) fn change_keys(&mut self, node: usize, keys: &[[u8; 32]]) {
        self.starts += 1;
        self.nodes[node].bundle.set_security(Box::new(group(keys, self.starts)), self.rekey);
    }

    /// From now on a node proves a key of its own, or none, and lets in only nodes with the keys of these, or all.
    pub(crate) fn trust(&mut self, node: usize, own: bool, allow: Option<&[usize]>) {
        self.starts += 1;
        let mut group = group(&[KEY], self.starts);
        if own {
            group = group.with_node_key(&node_secret(node));
        }
        if let Some(allow) = allow {
            group = group.allowing(allow.iter().copied().map(node_key).collect());
        }
        self.nodes[node].bundle.set_security(Box::new(group), self.rekey);
    }

    /// The peers of a node and the keys that they have proven.
    pub(crate) fn peer_keys(&self, node: usize) -> Vec<(usize, Option<PublicKey>)> {
        let peers = self.nodes[node].bundle.peers();
        let mut keys: Vec<_> = peers
            .map(|(status, _)| (usize::try_from(number(status.node)).expect("few nodes"), status.key))
            .collect();
        keys.sort_unstable();
        keys
    }

    /// Goes on for so many milliseconds; nothing is lost.
    pub(crate) fn run(&mut self, millis: u64) {
        self.run_through(millis, |_| true);
    }

    /// Goes on for so many milliseconds; only what `passes` is received.
    pub(crate) fn run_through(&mut self, millis: u64, mut passes: impl FnMut(&Cell) -> bool) {
        for _ in 0..millis {
            self.now = self.now + Duration::from_millis(1);
            for node in 0..self.nodes.len() {
                let now = self.now - self.nodes[node].behind;
                if now >= self.nodes[node].bundle.poll_timeout(now) {
                    self.nodes[node].bundle.handle_timeout(now);
                }
            }
            // Answers are received in the same millisecond; there is an end to them.
            for _ in 0..16 {
                let cells: Vec<_> = (0..self.nodes.len()).flat_map(|node| self.speak(node)).collect();
                if cells.is_empty() {
                    break;
                }
                for cell in cells {
                    self.said.push(cell.clone());
                    if passes(&cell) {
                        self.pass(&cell);
                    }
                }
            }
        }
    }

    /// Puts a cell on its segment.
    pub(crate) fn pass(&mut self, cell: &Cell) {
        let others: Vec<_> = (0..self.nodes.len())
            .filter(|node| *node != cell.from && cell.to.is_none_or(|to| to == *node))
            .collect();
        others
            .into_iter()
            .for_each(|node| self.receive(node, cell.link, endpoint(cell.from, cell.link), &cell.bytes));
    }

    /// A node receives a datagram.
    pub(crate) fn receive(&mut self, node: usize, link: u8, from: SocketAddr, bytes: &[u8]) {
        let Node { bundle, behind, delivered, .. } = &mut self.nodes[node];
        let now = self.now - *behind;
        let mut buffer = bundle.lend().expect("few cells wait");
        buffer[..bytes.len()].copy_from_slice(bytes);
        bundle.handle_datagrams(now, link, from, buffer, bytes.len(), bytes.len().max(1));
        while let Some(frame) = bundle.poll_frame(now) {
            let frame: Vec<u8> = frame.slices().flatten().copied().collect();
            let number = frame[HEADS.len()..].first_chunk().expect("a number follows the headers");
            delivered.push(u64::from_be_bytes(*number));
        }
    }

    /// The cells that a node sends now.
    pub(crate) fn speak(&mut self, from: usize) -> Vec<Cell> {
        let Node { bundle, behind, events, .. } = &mut self.nodes[from];
        let now = self.now - *behind;
        let mut said = Vec::new();
        while let Some(message) = bundle.poll_control(now) {
            let to = message.to.map(node_at);
            said.push(Cell { from, to, link: message.link, bytes: message.bytes.to_vec() });
        }
        while let Some(batch) = bundle.poll_batch(now) {
            let (link, to, segment) = (batch.link, Some(node_at(batch.to)), batch.segment);
            let train: Vec<u8> = batch.slices().flatten().copied().collect();
            said.extend(train.chunks(segment).map(|cell| Cell { from, to, link, bytes: cell.to_vec() }));
            bundle.handle_sent(now, Outcome::Sent);
        }
        for link in (0..).take_while(|link| bundle.has_link(*link)).collect::<Vec<_>>() {
            bundle.handle_queue(now, link, 0);
        }
        while let Some(event) = bundle.poll_event() {
            events.push(event);
        }
        said
    }

    pub(crate) fn set_policy(&mut self, node: usize, policy: PolicyKind) {
        self.nodes[node].bundle.set_policy(policy);
    }

    /// A node's host sends a frame to everyone, with the next number.
    pub(crate) fn send_frame(&mut self, node: usize) {
        self.send_frame_of(node, 1);
    }

    /// The same from one of the host's addresses: frames of each are a flow.
    pub(crate) fn send_frame_of(&mut self, node: usize, address: u8) {
        let mut frame = [&HEADS[..], &self.sent.to_be_bytes()].concat();
        frame[SOURCE_END] = address;
        let Node { bundle, behind, .. } = &mut self.nodes[node];
        bundle.read_space().next().expect("there is room")[..frame.len()].copy_from_slice(&frame);
        bundle.handle_frame(self.now - *behind, frame.len());
        self.sent += 1;
    }

    /// How many frames were sent, and which a node delivered.
    pub(crate) fn frames(&self, node: usize) -> (u64, &[u64]) {
        (self.sent, &self.nodes[node].delivered)
    }

    pub(crate) fn counters(&self, node: usize) -> Counters {
        *self.nodes[node].bundle.counters()
    }

    /// The events of a node about peers that came and went, in words.
    pub(crate) fn comings(&self, node: usize) -> Vec<String> {
        let words = |event: &Event| match event {
            Event::PeerJoined { peer, sealed, .. } => {
                Some(format!("{} joined{}", number(*peer), if *sealed { ", sealed" } else { "" }))
            }
            Event::PeerLeft { peer } => Some(format!("{} left", number(*peer))),
            Event::PeerExpired { peer, expiry } => Some(format!("{} expired: {expiry:?}", number(*peer))),
            Event::PeerRefused { peer, refusal } => Some(format!("{} refused: {refusal:?}", number(*peer))),
            _ => None,
        };
        self.nodes[node].events.iter().filter_map(words).collect()
    }

    /// Links of a node that are up both ways.
    pub(crate) fn links_up(&self, node: usize) -> usize {
        let peers = self.nodes[node].bundle.peers();
        peers.map(|(_, links)| links.filter(|path| path.sending && path.receiving).count()).sum()
    }

    /// The epoch of the keys that a node has with its only peer.
    pub(crate) fn epoch(&self, node: usize) -> u8 {
        let sealed = self.nodes[node].bundle.peers().next().and_then(|(status, _)| status.sealed);
        sealed.map_or(0, |keys| keys.epoch)
    }
}

fn group(keys: &[[u8; 32]], seed: u64) -> Group {
    Group::new(keys, Cipher::fastest(), Random::seeded(seed))
}

/// The secret and the public part of a node's own key.
pub(crate) fn node_secret(node: usize) -> [u8; 32] {
    [u8::try_from(node).expect("few nodes") + 100; 32]
}

pub(crate) fn node_key(node: usize) -> PublicKey {
    public_key(&node_secret(node))
}

pub(crate) fn endpoint(node: usize, link: u8) -> SocketAddr {
    let host = u16::try_from(node).expect("few nodes") + 1;
    SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, link.into(), host), 7420, 0, 0).into()
}

fn node_at(endpoint: SocketAddr) -> usize {
    let SocketAddr::V6(address) = endpoint else { panic!("all endpoints are IPv6") };
    usize::from(address.ip().segments()[7]) - 1
}

/// The identity of a node: its number is the end of its address.
pub(crate) fn identity(node: usize) -> NodeId {
    NodeId::new([2, 0, 0, 0, 0, u8::try_from(node).expect("few nodes")], 7420)
}

fn number(node: NodeId) -> u64 {
    node.0 >> 16 & 0xff
}

fn settings(node: usize, incarnation: u64) -> Settings {
    let links = vec![LinkSettings::new(CELL_MAX); LINK_COUNT.into()];
    Settings {
        name: Name::new("node"),
        slots: 256,
        buffers: 16,
        ..Settings::new(identity(node), incarnation, links)
    }
}
