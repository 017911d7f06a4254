//! A few bundles at a table, with the real cryptography and a link for each segment: all others on the segment receive a cell
//! in the millisecond in which a bundle sends it, unless the test decides otherwise.

use core::net::SocketAddr;
use std::ops::Deref;
use tabane_proto::security::{PublicKey, Rekey};
use tabane_proto::wire::record::{ETHERNET, VNET};
use tabane_proto::{Bundle, Counters, Event, LinkSettings, Name, NodeId, PolicyKind, Settings};
use tabane_seal::{Cipher, Group, Random, public_key};
use tabane_sim::cable::Place;
use tabane_sim::table::{self, Sent, TURN, Table};

/// The key of the group that nodes belong to by default.
pub(crate) const KEY: [u8; 32] = [7; 32];
/// Links of every node when it starts.
pub(crate) const LINK_COUNT: u8 = 2;
const CELL_MAX: u16 = 1_452;

pub(crate) struct Net {
    table: Table,
    rekey: Rekey,
    pub(crate) said: Vec<Sent>,
    starts: u64,
    sent: u64,
}

impl Deref for Net {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Net {
    /// So many nodes of one group that have just started.
    pub(crate) fn new(nodes: usize) -> Self {
        Self::of(nodes, Rekey::default())
    }

    /// The same, whose sessions get new keys so often.
    pub(crate) fn of(nodes: usize, rekey: Rekey) -> Self {
        let mut net = Self::empty(rekey);
        (0..nodes).for_each(|_| net.add(Some(KEY)));
        net
    }

    pub(crate) fn empty(rekey: Rekey) -> Self {
        Self { table: Table::new(false), rekey, said: Vec::new(), starts: 0, sent: 0 }
    }

    /// One more node, with a group key or without.
    pub(crate) fn add(&mut self, key: Option<[u8; 32]>) {
        let bundle = self.start(u8::try_from(self.nodes.len()).expect("few nodes"), key);
        self.table.add(bundle);
    }

    pub(crate) fn restart(&mut self, node: u8) {
        self.table[node].bundle = self.start(node, Some(KEY));
        self.table[node].events.clear();
    }

    /// A node goes on as it is in another world: its machine runs again from a snapshot, and its clock as well.
    pub(crate) fn roll_back(&mut self, node: u8, snapshot: Self) {
        self.table[node].behind = self.now.since(snapshot.now);
        let then = snapshot.table.nodes.into_iter().nth(node.into());
        self.table[node].bundle = then.expect("the same nodes").bundle;
    }

    fn start(&mut self, node: u8, key: Option<[u8; 32]>) -> Bundle {
        self.starts += 1;
        let mut bundle = Bundle::new(self.now, settings(node, self.starts));
        if let Some(key) = key {
            bundle.set_security(Box::new(group(&[key], self.starts)), self.rekey);
        }
        bundle
    }

    /// A running node takes one more link in, on a segment of its own.
    pub(crate) fn add_link(&mut self, node: u8) {
        let now = self.now;
        self.table[node].bundle.add_link(now, LinkSettings::new(CELL_MAX)).expect("a free number");
    }

    /// A running node speaks the first of these keys from now on, and accepts all.
    pub(crate) fn change_keys(&mut self, node: u8, keys: &[[u8; 32]]) {
        self.starts += 1;
        self.table[node].bundle.set_security(Box::new(group(keys, self.starts)), self.rekey);
    }

    /// From now on a node proves a key of its own, or none, and lets in only nodes with the keys of these, or all.
    pub(crate) fn trust(&mut self, node: u8, own: bool, allow: Option<&[u8]>) {
        self.starts += 1;
        let mut group = group(&[KEY], self.starts);
        if own {
            group = group.with_node_key(&node_secret(node));
        }
        if let Some(allow) = allow {
            group = group.allowing(allow.iter().copied().map(node_key).collect());
        }
        self.table[node].bundle.set_security(Box::new(group), self.rekey);
    }

    /// The peers of a node and the keys that they have proven.
    pub(crate) fn peer_keys(&self, node: u8) -> Vec<(u8, Option<PublicKey>)> {
        let peers = self.table[node].bundle.peers();
        let mut keys: Vec<_> = peers.map(|(status, _)| (number(status.node), status.key)).collect();
        keys.sort_unstable();
        keys
    }

    /// Goes on for so many milliseconds; nothing is lost.
    pub(crate) fn run(&mut self, millis: u64) {
        self.run_through(millis, |_| true);
    }

    /// Goes on for so many milliseconds; only what `passes` is received.
    pub(crate) fn run_through(&mut self, millis: u64, mut passes: impl FnMut(&Sent) -> bool) {
        let Self { table, said, .. } = self;
        for _ in 0..millis {
            table.turn(TURN, |cell, _| {
                said.push(cell.clone());
                passes(cell)
            });
        }
    }

    pub(crate) fn pass(&mut self, cell: &Sent) {
        self.table.pass(cell);
    }

    pub(crate) fn transmit(&mut self, node: u8) -> Vec<Sent> {
        self.table.transmit(node)
    }

    pub(crate) fn receive(&mut self, node: u8, nic: u8, from: SocketAddr, bytes: &[u8]) {
        self.table.receive(Place { node, nic }, from, bytes, bytes.len());
    }

    pub(crate) fn set_policy(&mut self, node: u8, policy: PolicyKind) {
        self.table[node].bundle.set_policy(policy);
    }

    /// A node's host sends a frame to everyone, with the next number.
    pub(crate) fn send_frame(&mut self, node: u8) {
        self.send_frame_of(node, 1);
    }

    /// The same from one of the host's addresses: frames of each are a flow.
    pub(crate) fn send_frame_of(&mut self, node: u8, address: u8) {
        let frame = table::frame([0xff; 6], [2, 0, 0, 0, 0, address], &self.sent.to_be_bytes());
        self.table.send(node, &frame);
        self.sent += 1;
    }

    /// How many frames were sent, and which a node delivered.
    pub(crate) fn frames(&self, node: u8) -> (u64, Vec<u64>) {
        let number = |frame: &Vec<u8>| {
            u64::from_be_bytes(*frame[VNET + ETHERNET..].first_chunk().expect("a number follows the headers"))
        };
        (self.sent, self.table[node].delivered.iter().map(number).collect())
    }

    pub(crate) fn counters(&self, node: u8) -> Counters {
        *self.table[node].bundle.counters()
    }

    /// The events of a node about peers that came and went, in words.
    pub(crate) fn comings(&self, node: u8) -> Vec<String> {
        let words = |event: &Event| match event {
            Event::PeerJoined { peer, sealed, .. } => {
                Some(format!("{} joined{}", number(*peer), if *sealed { ", sealed" } else { "" }))
            }
            Event::PeerLeft { peer } => Some(format!("{} left", number(*peer))),
            Event::PeerExpired { peer, expiry } => Some(format!("{} expired: {expiry:?}", number(*peer))),
            Event::PeerRefused { peer, refusal } => Some(format!("{} refused: {refusal:?}", number(*peer))),
            _ => None,
        };
        self.table[node].events.iter().filter_map(words).collect()
    }

    /// The epoch of the keys that a node has with its only peer.
    pub(crate) fn epoch(&self, node: u8) -> u8 {
        let sealed = self.table[node].bundle.peers().next().and_then(|(status, _)| status.sealed);
        sealed.map_or(0, |keys| keys.epoch)
    }
}

fn group(keys: &[[u8; 32]], seed: u64) -> Group {
    Group::new(keys, Cipher::fastest(), Random::seeded(seed))
}

/// The secret and the public part of a node's own key.
pub(crate) fn node_secret(node: u8) -> [u8; 32] {
    [node + 100; 32]
}

pub(crate) fn node_key(node: u8) -> PublicKey {
    public_key(&node_secret(node))
}

pub(crate) fn endpoint(node: u8, nic: u8) -> SocketAddr {
    Place { node, nic }.endpoint()
}

/// The identity of a node: its number is the end of its address.
pub(crate) fn identity(node: u8) -> NodeId {
    NodeId::new([2, 0, 0, 0, 0, node], 7420)
}

fn number(node: NodeId) -> u8 {
    node.0.to_be_bytes()[5]
}

fn settings(node: u8, incarnation: u64) -> Settings {
    let links = vec![LinkSettings::new(CELL_MAX); LINK_COUNT.into()];
    Settings {
        name: Name::new("node"),
        slots: 256,
        buffers: 16,
        ..Settings::new(identity(node), incarnation, links)
    }
}
