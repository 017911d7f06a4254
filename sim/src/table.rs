//! Bundles on a table: a segment for each NIC, without time on wires. What one bundle sends, the others receive in the same turn, unless
//! the caller decides otherwise.
//!
//! For tests that look at single cells, for fuzzing, and for examples; [`crate::world`] has time on wires, queues and faults.

use crate::cable::Place;
use core::net::SocketAddr;
use core::ops::{Index, IndexMut};
use core::time::Duration;
use std::collections::VecDeque;
use tabane_proto::wire::cell::{Header, Kind, LINKS};
use tabane_proto::wire::record::{ETHERNET, FRAME_MAX, VNET};
use tabane_proto::{BUFFER, Bundle, Event, Instant, Outcome};

/// How long a turn usually takes.
pub const TURN: Duration = Duration::from_millis(1);
/// Bundles answer each other within one turn, but not for ever.
const ROUNDS: usize = 16;
/// Pieces of a frame that the device takes in one write.
const PIECES_MAX: usize = 128;

/// When time begins at a table.
pub fn start() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

/// A frame of the `EtherType` for local experiments, behind a virtio header of zeros.
pub fn frame(to: [u8; 6], from: [u8; 6], payload: &[u8]) -> Vec<u8> {
    [&[0; VNET][..], &to, &from, &[0x88, 0xb5], payload].concat()
}

/// Copies a frame to where a bundle reads the next one; returns whether it has room there.
pub(crate) fn put_frame(bundle: &mut Bundle, frame: &[u8]) -> bool {
    let mut rest = frame;
    for space in bundle.read_space() {
        let (here, later) = rest.split_at(rest.len().min(space.len()));
        space[..here.len()].copy_from_slice(here);
        rest = later;
    }
    rest.is_empty()
}

/// What a bundle puts on a segment: a cell, or a train of cells of one length.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The NIC that it left by.
    pub from: Place,
    /// Where it goes; `None`: to everyone on the segment.
    pub to: Option<SocketAddr>,
    pub bytes: Vec<u8>,
    /// Bytes of each cell but the last.
    pub segment: usize,
}

impl Sent {
    /// The header of the first cell.
    pub fn header(&self) -> Header {
        Header::parse(&self.bytes).expect("a cell")
    }

    pub fn is(&self, kind: Kind) -> bool {
        self.header().kind == kind
    }

    pub fn is_to(&self, node: u8) -> bool {
        self.to.and_then(Place::of).is_some_and(|to| to.node == node)
    }
}

pub struct Node {
    pub bundle: Bundle,
    /// By how much its clock is behind.
    pub behind: Duration,
    /// Whether it neither runs nor receives.
    pub is_away: bool,
    /// What its bundle has told, until it is taken.
    pub events: VecDeque<Event>,
    /// The frames that its bundle has delivered, with their virtio headers, until they are taken.
    pub delivered: VecDeque<Vec<u8>>,
}

/// Nodes, numbered from 0, and the time.
pub struct Table {
    pub now: Instant,
    pub nodes: Vec<Node>,
    /// Whether the cells of a batch stay together, as the kernel's GSO and GRO keep them; else each is sent alone.
    pub has_trains: bool,
}

impl Table {
    pub fn new(has_trains: bool) -> Self {
        Self { now: start(), nodes: Vec::new(), has_trains }
    }

    pub fn add(&mut self, bundle: Bundle) {
        self.nodes.push(Node {
            bundle,
            behind: Duration::ZERO,
            is_away: false,
            events: VecDeque::new(),
            delivered: VecDeque::new(),
        });
    }

    fn node(&mut self, number: u8) -> (&mut Node, Instant) {
        let now = self.now - self[number].behind;
        (&mut self[number], now)
    }

    fn numbers(&self) -> Vec<u8> {
        let present = (0..).zip(&self.nodes).filter(|(_, node)| !node.is_away);
        present.map(|(number, _)| number).collect()
    }

    /// Lets time pass; what `passes`, on its way to these places, is received.
    pub fn turn(&mut self, time: Duration, mut passes: impl FnMut(&Sent, &[Place]) -> bool) {
        self.now = self.now + time;
        let numbers = self.numbers();
        for number in &numbers {
            let (node, now) = self.node(*number);
            if now >= node.bundle.poll_timeout(now) {
                node.bundle.handle_timeout(now);
                node.deliver(now);
            }
        }
        for _ in 0..ROUNDS {
            let sent: Vec<_> = numbers.iter().flat_map(|number| self.transmit(*number)).collect();
            if sent.is_empty() {
                return;
            }
            for sent in &sent {
                let places = self.others(sent);
                if passes(sent, &places) {
                    self.bring(sent, places);
                }
            }
        }
    }

    pub fn transmit(&mut self, number: u8) -> Vec<Sent> {
        let has_trains = self.has_trains;
        let (Node { bundle, events, .. }, now) = self.node(number);
        let mut sent = Vec::new();
        while let Some(message) = bundle.poll_control(now) {
            let (from, bytes) = (Place { node: number, nic: message.link }, message.bytes.to_vec());
            sent.push(Sent { from, to: message.to, segment: bytes.len(), bytes });
        }
        while let Some(batch) = bundle.poll_batch(now) {
            let (from, to) = (Place { node: number, nic: batch.link }, Some(batch.to));
            let (bytes, segment) = (batch.slices().collect::<Vec<_>>().concat(), batch.segment);
            let together = if has_trains { bytes.len() } else { segment };
            sent.extend(bytes.chunks(together).map(|cells| Sent {
                from,
                to,
                bytes: cells.to_vec(),
                segment,
            }));
            bundle.handle_sent(now, Outcome::Sent);
        }
        for link in (0..=u8::MAX).take(LINKS) {
            if bundle.has_link(link) {
                bundle.handle_queue(now, link, 0);
            }
        }
        events.extend(core::iter::from_fn(|| bundle.poll_event()));
        while bundle.poll_gate().is_some() {}
        sent
    }

    /// The others on the segment receive it, or the one that it is for.
    pub fn pass(&mut self, sent: &Sent) {
        self.bring(sent, self.others(sent));
    }

    fn bring(&mut self, sent: &Sent, places: Vec<Place>) {
        for to in places {
            self.receive(to, sent.from.endpoint(), &sent.bytes, sent.segment);
        }
    }

    fn others(&self, sent: &Sent) -> Vec<Place> {
        let nic = sent.from.nic;
        let places = self.numbers().into_iter().map(|node| Place { node, nic });
        places
            .filter(|place| place.node != sent.from.node)
            .filter(|place| sent.to.is_none_or(|to| to == place.endpoint()))
            .collect()
    }

    /// Cells of `segment` bytes each reach a node, if it has a buffer for them.
    pub fn receive(&mut self, at: Place, from: SocketAddr, bytes: &[u8], segment: usize) {
        let (node, now) = self.node(at.node);
        let Some(mut buffer) = node.bundle.lend() else { return };
        let length = bytes.len().min(BUFFER);
        buffer[..length].copy_from_slice(&bytes[..length]);
        node.bundle.handle_datagrams(now, at.nic, from, buffer, length, segment.max(1));
        node.deliver(now);
    }

    /// Complete frames go to a node's device.
    pub fn deliver(&mut self, number: u8) {
        let (node, now) = self.node(number);
        node.deliver(now);
    }

    /// A node reads a frame from its device, if it takes any.
    pub fn send(&mut self, number: u8, frame: &[u8]) {
        let (node, now) = self.node(number);
        if node.bundle.wants_frames() && put_frame(&mut node.bundle, frame) {
            node.bundle.handle_frame(now, frame.len());
        }
    }

    /// Links of a node that are up both ways, over all its peers.
    pub fn links_up(&self, number: u8) -> usize {
        let peers = self[number].bundle.peers();
        peers.map(|(_, links)| links.filter(|path| path.sending && path.receiving).count()).sum()
    }
}

impl Index<u8> for Table {
    type Output = Node;

    fn index(&self, number: u8) -> &Node {
        &self.nodes[usize::from(number)]
    }
}

impl IndexMut<u8> for Table {
    fn index_mut(&mut self, number: u8) -> &mut Node {
        &mut self.nodes[usize::from(number)]
    }
}

impl Node {
    fn deliver(&mut self, now: Instant) {
        while let Some(frame) = self.bundle.poll_frame(now) {
            let slices: Vec<&[u8]> = frame.slices().collect();
            assert!(slices.len() <= PIECES_MAX, "{} pieces", slices.len());
            assert!(slices.iter().all(|slice| !slice.is_empty()), "an empty piece");
            assert!(slices[0].len() >= VNET + ETHERNET, "no whole head");
            let bytes = slices.concat();
            assert!(bytes.len() <= VNET + FRAME_MAX, "{} bytes", bytes.len());
            self.delivered.push_back(bytes);
        }
    }
}
