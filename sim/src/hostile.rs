//! The hostile member: it holds the key, so its cells are authentic, and their contents are anything.
//!
//! ```text
//!   its bundle (a real one, so that it joins) ── cells ──> watched (ways: who, session, numbers, key) ──> links
//!                                                          deeds ── further cells, sealed alike ────────> links
//! ```
//!
//! Its bundle joins, answers and receives as any other. The member watches what its bundle sends, so that further cells continue
//! its numbers under its session and its key; they leave by its own nics to the nodes that its bundle has joined. Without keys
//! anyone can name any session, so there the member names no other's (`docs/wire.md`, 11).
//!
//! [`crate::traffic`] judges neither the frames that go to the member nor those that are delivered in its name. All invariants
//! must hold among the others, while it goes on.
//!
//! The fuzz target `bundle` uses the same member, and sends over its ways what the fuzzer wants.

mod claims;
mod deeds;
pub mod tap;
pub mod way;

use crate::cable::Place;
use crate::random::Random;
use crate::topology::NodeNumber;
use claims::InTheClear;
pub use claims::{greeting, initiation};
use core::net::SocketAddr;
use core::time::Duration;
pub use deeds::cells;
use tabane_proto::Instant;
use tabane_proto::wire::cell::Header;
use tap::Tap;
use way::{Lanes, Way};

/// The first bytes of the MAC addresses of its hosts.
pub(crate) const HOSTILE_HOSTS: [u8; 2] = [6, 0x66];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A record as long as there is, a byte in each cell.
    Crumbs,
    /// Records whose kinds, lengths and places contradict each other.
    Records,
    /// Frames whose lane number lies anywhere.
    Lanes,
    /// Cells whose link number lies anywhere.
    Numbers,
    /// A request to repair cells that it really received, again and again.
    Gaps,
    /// A request to repair 64 times 65,535 cells.
    AllGaps,
    /// Heartbeats that report anything.
    Reports,
    /// Hellos with any fields.
    Hellos,
    /// It takes a link out, again and again.
    Farewells,
    /// It pauses, again and again.
    Pauses,
    /// Cells with the sessions of others; where cells are not sealed, records.
    Sessions,
    /// True headers before random bytes.
    Noise,
    /// Handshakes in the name of others, whose keys it claims; where cells are sealed.
    Claims,
}

impl Deed {
    pub const ALL: [Self; 13] = [
        Self::Crumbs,
        Self::Records,
        Self::Lanes,
        Self::Numbers,
        Self::Gaps,
        Self::AllGaps,
        Self::Reports,
        Self::Hellos,
        Self::Farewells,
        Self::Pauses,
        Self::Sessions,
        Self::Noise,
        Self::Claims,
    ];
}

#[derive(Clone, Debug)]
pub struct Hostility {
    pub node: NodeNumber,
    /// When it begins, after the run makes it hostile: it has to watch how its bundle joins.
    pub after: Duration,
    /// From one deed to the next, on average.
    pub every: Duration,
    pub deeds: Vec<Deed>,
}

pub(crate) struct Said {
    pub(crate) from: Place,
    pub(crate) to: Place,
    pub(crate) bytes: Vec<u8>,
}

pub struct Member {
    random: Random,
    /// The cells that its bundle seals.
    tap: Tap,
    hostility: Option<Hostility>,
    /// The ways over which its bundle sends to a node.
    ways: Vec<Way>,
    lanes: Vec<Lanes>,
    /// What it has read of all nodes' cells.
    clear: InTheClear,
    /// Cells that it has said beside its bundle.
    pub(crate) said: u64,
}

impl Member {
    /// One among so many nodes, not hostile yet.
    pub fn new(nodes: usize, random: Random) -> Self {
        let lanes = vec![Lanes::default(); nodes];
        let (tap, clear) = (Tap::default(), InTheClear::default());
        Self { random, tap, hostility: None, ways: Vec::new(), lanes, clear, said: 0 }
    }

    /// Begins, goes on in another way, or ends.
    pub fn set(&mut self, hostility: Option<Hostility>) {
        self.hostility = hostility;
    }

    /// Notes of the cells that nodes seal which may become hostile.
    pub fn tap(&self) -> Tap {
        self.tap.clone()
    }

    pub(crate) fn next(&mut self, now: Instant) -> Option<Instant> {
        let every = self.hostility.as_ref()?.every;
        Some(now + self.random.span(Duration::from_nanos(1)..=2 * every))
    }

    fn is(&self, node: NodeNumber) -> bool {
        self.hostility.as_ref().is_some_and(|hostility| hostility.node == node)
    }

    /// A node's bundle sends cells of `segment` bytes each; the last may be shorter.
    pub fn watch_sent(&mut self, from: Place, to: Option<SocketAddr>, bytes: &[u8], segment: usize) {
        let to = to.and_then(Place::of);
        if let (Some(_), Ok(header)) = (&self.hostility, Header::parse(bytes)) {
            self.clear.watch(from, to, &header, bytes);
        }
        let Some(to) = to.filter(|_| self.is(from.node)) else { return };
        for cell in bytes.chunks(segment.max(1)) {
            let Ok(header) = Header::parse(cell) else { continue };
            if header.session == 0 {
                continue;
            }
            let index = self.ways.iter().position(|way| (way.from, way.to) == (from, to));
            let index = index.unwrap_or_else(|| {
                self.ways.push(Way::new(from, to, header));
                self.ways.len() - 1
            });
            self.ways[index].watch(&header, cell, &self.tap, &mut self.lanes[usize::from(to.node)]);
        }
    }

    pub fn watch_received(&mut self, to: Place, from: Place, cell: &[u8]) {
        if !self.is(to.node) {
            return;
        }
        let Ok(header) = Header::parse(cell) else { return };
        let ways = self.ways.iter_mut().filter(|way| way.to.node == from.node);
        ways.for_each(|way| way.received[usize::from(header.link)] = header.link_seq);
    }

    /// The way from a nic of its bundle to a place, with its lanes to the node there; `None`: it cannot be continued.
    pub fn way(&mut self, from: Place, to: Place) -> Option<(&mut Way, &mut Lanes)> {
        let is_it = |way: &&mut Way| (way.from, way.to) == (from, to) && way.is_known();
        let way = self.ways.iter_mut().find(is_it)?;
        Some((way, &mut self.lanes[usize::from(to.node)]))
    }

    pub(crate) fn draw(&mut self) -> Vec<Said> {
        let Some(hostility) = &self.hostility else { return Vec::new() };
        let deed = self.random.pick(&hostility.deeds);
        let usable: Vec<_> = self.ways.iter_mut().filter(|way| way.is_known()).collect();
        let count = usable.len();
        let Some(way) = usable.into_iter().nth(self.random.index(count)) else { return Vec::new() };
        let lanes = &mut self.lanes[usize::from(way.to.node)];
        let cells = match deed {
            Deed::Claims => self.clear.initiation(way.to.node, &mut self.random).into_iter().collect(),
            deed => deeds::cells(deed, way, lanes, &mut self.random),
        };
        self.said += cells.len() as u64;
        let (from, to) = (way.from, way.to);
        cells.into_iter().map(|bytes| Said { from, to, bytes }).collect()
    }
}
