//! A stranger on the links, without a key: puts noise, truncated cells and old cells into the rings of NICs.
//!
//! Beside [`crate::network`]. A bundle has to count and drop all of it, and nothing else may happen. Where cells are sealed the
//! stranger also sends what only a key protects from: cells with a bit changed, true headers before forged payloads, and any
//! recorded cell, greetings and handshakes of former incarnations included, from any address on the link.

use crate::cable::{Arrival, Place};
use crate::random::Random;
use crate::topology::{LinkNumber, Topology};
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;
use tabane_proto::Instant;
use tabane_proto::wire::cell::{HEADER, Header, Kind, VERSION};
use tabane_proto::wire::heartbeat::Heartbeat;

/// Recent cells that are kept, to be truncated or sent again.
const REMEMBERED: usize = 32;
/// Cells of any age that are kept.
const RECORDED: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    Noise,
    /// The header of a cell of a session that does not exist, and random bytes.
    Stranger,
    /// The first bytes of a cell that was received lately, too few to be one.
    Truncated,
    /// A data cell that was received lately, once more.
    DataAgain,
    /// Any cell that was received lately, once more.
    Again,
    /// A cell that was received lately, with a bit changed.
    Flipped,
    /// The header of a cell that was received lately, and random bytes.
    Forged,
    /// Any cell that was ever received, from any address on its link.
    Recorded,
}

impl Injection {
    /// What a bundle withstands without keys.
    pub const ALL: [Self; 5] = [Self::Noise, Self::Stranger, Self::Truncated, Self::DataAgain, Self::Again];
    /// What a bundle withstands only with keys.
    pub const HOSTILE: [Self; 3] = [Self::Flipped, Self::Forged, Self::Recorded];
}

#[derive(Clone, Debug)]
pub struct InjectionSettings {
    /// From one to the next, on average.
    pub every: Duration,
    pub choices: Vec<Injection>,
}

impl InjectionSettings {
    /// The same, with everything that only keys protect from.
    #[must_use]
    pub fn hostile(mut self) -> Self {
        self.choices.extend(Injection::HOSTILE);
        self
    }

    fn is_hostile(&self) -> bool {
        self.choices.iter().any(|choice| Injection::HOSTILE.contains(choice))
    }
}

pub(crate) struct Injector {
    random: Random,
    places: Vec<Place>,
    links: Vec<LinkNumber>,
    settings: Option<InjectionSettings>,
    recent: VecDeque<(Place, Arrival)>,
    recorded: Vec<(Place, Arrival)>,
    done: Vec<Injection>,
}

impl Injector {
    pub(crate) fn new(topology: &Topology, random: Random) -> Self {
        let nodes = (0u8..).zip(&topology.nodes);
        let cables = nodes.flat_map(|(node, settings)| {
            (0u8..).zip(&settings.cables).map(move |(nic, cable)| (Place { node, nic }, cable.link))
        });
        let (places, links) = cables.unzip();
        let (recent, recorded) = (VecDeque::new(), Vec::new());
        Self { random, places, links, settings: None, recent, recorded, done: Vec::new() }
    }

    /// Begins, goes on in another way, or ends.
    pub(crate) fn set(&mut self, settings: Option<InjectionSettings>) {
        self.settings = settings;
    }

    pub(crate) fn count(&self, kind: Injection) -> u64 {
        self.done.iter().filter(|done| **done == kind).count() as u64
    }

    pub(crate) fn next(&mut self, now: Instant) -> Option<Instant> {
        let every = self.settings.as_ref()?.every;
        Some(now + self.random.span(Duration::from_nanos(1)..=2 * every))
    }

    /// A cell was received; keeps it if a node has sent it.
    pub(crate) fn remember(&mut self, to: Place, arrival: Arrival) {
        let Some(settings) = self.settings.as_ref().filter(|_| !arrival.is_injected) else { return };
        if settings.is_hostile() {
            self.record(to, &arrival);
        }
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((to, arrival));
    }

    /// Keeps a sample of everything; greetings and handshakes rather than other cells.
    fn record(&mut self, to: Place, arrival: &Arrival) {
        let is_open = Header::parse(&arrival.bytes).is_ok_and(|header| header.epoch == 0);
        if self.recorded.len() < RECORDED {
            self.recorded.push((to, arrival.clone()));
        } else if is_open || self.random.chance(10_000) {
            let place = self.random.index(RECORDED);
            self.recorded[place] = (to, arrival.clone());
        }
    }

    /// A node was restarted. Its old hello would pass for another start, which only a key prevents.
    pub(crate) fn forget(&mut self, node: u8) {
        if !self.settings.as_ref().is_some_and(InjectionSettings::is_hostile) {
            self.recent.retain(|(_, arrival)| arrival.from.node != node);
        }
    }

    /// The datagram to inject now and its ring, if a cell to make it from is there.
    pub(crate) fn draw(&mut self, now: Instant) -> Option<(Place, Arrival)> {
        let kind = self.random.pick(&self.settings.as_ref()?.choices);
        let (to, arrival) = match kind {
            Injection::Noise => self.noise(),
            Injection::Stranger => self.stranger(),
            Injection::Truncated => self.truncated()?,
            Injection::DataAgain => self.again(|kind| kind == Kind::Data)?,
            Injection::Again => self.again(|_| true)?,
            Injection::Flipped => self.flipped()?,
            Injection::Forged => self.forged()?,
            Injection::Recorded => self.recorded()?,
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

    fn truncated(&mut self) -> Option<(Place, Arrival)> {
        let (to, arrival) = self.recent.get(self.random.index(self.recent.len()))?.clone();
        let header = Header::parse(&arrival.bytes).ok()?;
        let length = match header.kind {
            Kind::Data => HEADER,
            // Without probes it is whole.
            Kind::Heartbeat if header.epoch == 0 => {
                let heartbeat = Heartbeat::parse(&arrival.bytes[HEADER..]).ok()?;
                HEADER + Heartbeat { names_probes: false, ..heartbeat }.length()
            }
            _ => arrival.bytes.len(),
        };
        let bytes = Rc::from(&arrival.bytes[..self.random.index(length).max(1)]);
        Some((to, Arrival { bytes, ..arrival }))
    }

    fn flipped(&mut self) -> Option<(Place, Arrival)> {
        let (to, arrival) = self.again(|_| true)?;
        let mut bytes = arrival.bytes.to_vec();
        let bit = self.random.index(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        Some((to, Arrival { bytes: Rc::from(bytes), ..arrival }))
    }

    fn forged(&mut self) -> Option<(Place, Arrival)> {
        let (to, arrival) = self.again(|_| true)?;
        let mut bytes = arrival.bytes.to_vec();
        self.random.fill(&mut bytes[HEADER..]);
        Some((to, Arrival { bytes: Rc::from(bytes), ..arrival }))
    }

    fn recorded(&mut self) -> Option<(Place, Arrival)> {
        let (to, arrival) = self.recorded.get(self.random.index(self.recorded.len()))?.clone();
        let link =
            |place: Place| self.places.iter().position(|other| *other == place).map(|at| self.links[at]);
        let wanted = link(to);
        let on_link = self.places.iter().copied().filter(|place| *place != to && link(*place) == wanted);
        let on_link: Vec<_> = on_link.collect();
        Some((to, Arrival { from: self.random.pick(&on_link), ..arrival }))
    }

    fn again(&mut self, wanted: impl Fn(Kind) -> bool) -> Option<(Place, Arrival)> {
        let fits = |arrival: &Arrival| Header::parse(&arrival.bytes).is_ok_and(|header| wanted(header.kind));
        let start = self.random.index(self.recent.len());
        let mut turned = self.recent.iter().cycle().skip(start).take(self.recent.len());
        turned.find(|(_, arrival)| fits(arrival)).cloned()
    }
}
