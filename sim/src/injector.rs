//! A stranger on the links, without a key: puts noise, cut cells and copies of old cells into the rings of NICs.
//!
//! Beside [`crate::network`]. A bundle has to count and drop all of it, and nothing else may happen. What the stranger
//! cannot do here, because nothing but a key keeps anyone from it, is write a well-formed cell with a valid session.
//!
//! Source: issue "one connection over two links": random bytes, truncated and replayed cells.

use crate::cable::{Arrival, Place};
use crate::random::Random;
use crate::topology::Topology;
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;
use tabane_proto::Instant;
use tabane_proto::wire::cell::{HEADER, Header, Kind, VERSION};

/// Cells that are remembered to be cut or sent again.
const REMEMBERED: usize = 32;

/// What the stranger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// Random bytes.
    Noise,
    /// The header of a cell of a session that does not exist, and random bytes.
    Stranger,
    /// The first bytes of a cell that was heard lately, too few to be one.
    Cut,
    /// A data cell that was heard lately, once more.
    DataAgain,
    /// Any cell that was heard lately, once more.
    Again,
}

impl Injection {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Noise, Self::Stranger, Self::Cut, Self::DataAgain, Self::Again];
}

/// How often the stranger does what.
#[derive(Clone, Debug)]
pub struct InjectionSettings {
    /// From one to the next, on average.
    pub every: Duration,
    /// What to choose from.
    pub choices: Vec<Injection>,
}

/// The stranger.
#[derive(Debug)]
pub(crate) struct Injector {
    random: Random,
    places: Vec<Place>,
    settings: Option<InjectionSettings>,
    recent: VecDeque<(Place, Arrival)>,
    /// What was injected.
    done: Vec<Injection>,
}

impl Injector {
    pub(crate) fn new(topology: &Topology, random: Random) -> Self {
        let nodes = (0u8..).zip(&topology.nodes);
        let places = nodes.flat_map(|(node, settings)| {
            (0u8..).zip(&settings.cables).map(move |(port, _)| Place { node, port })
        });
        let places = places.collect();
        Self { random, places, settings: None, recent: VecDeque::new(), done: Vec::new() }
    }

    /// Begins, goes on in another way, or ends.
    pub(crate) fn set(&mut self, settings: Option<InjectionSettings>) {
        self.settings = settings;
    }

    /// How often something was injected.
    pub(crate) fn count(&self, kind: Injection) -> u64 {
        self.done.iter().filter(|done| **done == kind).count() as u64
    }

    /// When to act next.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Instant> {
        let every = self.settings.as_ref()?.every;
        Some(now + self.random.span(Duration::from_nanos(1)..=2 * every))
    }

    /// A cell was heard; only what nodes sent is worth to be remembered.
    pub(crate) fn remember(&mut self, to: Place, arrival: Arrival) {
        if self.settings.is_none() || arrival.is_injected {
            return;
        }
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((to, arrival));
    }

    /// A node was started anew. Its old hello would pass for another start, which only a key prevents.
    pub(crate) fn forget(&mut self, node: u8) {
        self.recent.retain(|(_, arrival)| arrival.from.node != node);
    }

    /// What is put into which ring now, if there is something to take it from.
    pub(crate) fn draw(&mut self, now: Instant) -> Option<(Place, Arrival)> {
        let kind = self.random.pick(&self.settings.as_ref()?.choices);
        let (to, arrival) = match kind {
            Injection::Noise => self.noise(),
            Injection::Stranger => self.stranger(),
            Injection::Cut => self.cut()?,
            Injection::DataAgain => self.again(|kind| kind == Kind::Data)?,
            Injection::Again => self.again(|_| true)?,
        };
        self.done.push(kind);
        Some((to, Arrival { at: now, is_injected: true, ..arrival }))
    }

    fn noise(&mut self) -> (Place, Arrival) {
        let mut bytes = vec![0; self.random.index(1_453).max(1)];
        self.random.fill(&mut bytes);
        if bytes[0] >> 4 == VERSION {
            bytes[0] ^= 0xf0;
        }
        self.addressed(&bytes)
    }

    fn stranger(&mut self) -> (Place, Arrival) {
        /// A session whose index no peer has in a world of a few nodes.
        const NOBODY: [u8; 2] = [0xff, 0xff];
        let mut bytes = vec![0; HEADER + self.random.index(1_437)];
        self.random.fill(&mut bytes);
        let kind = self.random.pick(&[Kind::Data, Kind::Heartbeat, Kind::Repair]);
        let link = bytes[2] & 0x0f;
        bytes[..4].copy_from_slice(&[VERSION << 4 | kind as u8, 0, link, 0]);
        bytes[HEADER - 2..HEADER].copy_from_slice(&NOBODY);
        self.addressed(&bytes)
    }

    fn addressed(&mut self, bytes: &[u8]) -> (Place, Arrival) {
        let (to, from) = (self.random.pick(&self.places), self.random.pick(&self.places));
        (to, Arrival { at: Instant::default(), from, is_injected: true, bytes: Rc::from(bytes) })
    }

    fn cut(&mut self) -> Option<(Place, Arrival)> {
        let (to, arrival) = self.recent.get(self.random.index(self.recent.len()))?.clone();
        let is_data = Header::parse(&arrival.bytes).ok()?.kind == Kind::Data;
        let length = if is_data { HEADER } else { arrival.bytes.len() };
        let bytes = Rc::from(&arrival.bytes[..self.random.index(length).max(1)]);
        Some((to, Arrival { bytes, ..arrival }))
    }

    fn again(&mut self, wanted: impl Fn(Kind) -> bool) -> Option<(Place, Arrival)> {
        let fits = |arrival: &Arrival| Header::parse(&arrival.bytes).is_ok_and(|header| wanted(header.kind));
        let start = self.random.index(self.recent.len());
        let mut turned = self.recent.iter().cycle().skip(start).take(self.recent.len());
        turned.find(|(_, arrival)| fits(arrival)).cloned()
    }
}
