//! A card that sends packets: it reads them over a bus, fragment by fragment, and puts them on a line.
//!
//! Part of [`crate::device`]. For each descriptor the card is started, reads the descriptor, then the data that it points to; the
//! last two are bus transactions, and each transaction costs the bus some clocks in which no data flow. A packet leaves when all
//! of it is in the card's memory, behind those before it; a fragment for which there is no room there waits.
//!
//! Invariant: descriptors are finished in the order in which they were posted.

use core::time::Duration;
use std::collections::VecDeque;

use tabane_proto::Instant;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The bus between the host's memory and the card.
#[derive(Clone, Copy, Debug)]
pub struct Bus {
    /// Clocks per second.
    pub clock: u64,
    /// Bytes that pass in a clock.
    pub width: u64,
    /// Most bytes of a transaction; longer data take several.
    pub burst: u64,
    /// Clocks of a transaction in which no data pass: arbitration, address, waiting for memory.
    pub overhead: u64,
}

impl Bus {
    /// How long it takes to read so many bytes from one place.
    pub fn takes(&self, bytes: u64) -> Duration {
        self.clocks(bytes.div_ceil(self.burst) * self.overhead + bytes.div_ceil(self.width))
    }

    /// How long so many clocks take.
    pub fn clocks(&self, count: u64) -> Duration {
        Duration::from_nanos(count * NANOS_PER_SECOND / self.clock)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct CardSettings {
    pub bus: Bus,
    pub descriptor: u64,
    /// Clocks of the bus until the card has been told of a descriptor and begins with it.
    pub start: u64,
    /// Bytes of packets that it holds.
    pub memory: u64,
    /// Bits per second of the line.
    pub line: u64,
    /// Bytes that a packet takes on the line beside its own.
    pub framing: u64,
    /// Whether it computes the checksums of UDP.
    pub sums: bool,
}

impl CardSettings {
    fn on_line(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes * 8 * NANOS_PER_SECOND / self.line)
    }
}

#[derive(Clone, Copy, Debug)]
struct Descriptor {
    bytes: u64,
    is_last: bool,
}

#[derive(Debug)]
pub(crate) struct Card {
    settings: CardSettings,
    /// Oldest first; the first is being read.
    posted: VecDeque<Descriptor>,
    read_at: Option<Instant>,
    partial: u64,
    /// When the line has taken all complete packets.
    line_free_at: Instant,
    departures: Vec<Instant>,
}

impl Card {
    pub(crate) fn new(settings: CardSettings) -> Self {
        Self {
            settings,
            posted: VecDeque::new(),
            read_at: None,
            partial: 0,
            line_free_at: Instant::default(),
            departures: Vec::new(),
        }
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.posted.len()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.read_at
    }

    pub(crate) fn departures(&self) -> &[Instant] {
        &self.departures
    }

    pub(crate) fn post(&mut self, now: Instant, bytes: usize, is_last: bool) {
        self.posted.push_back(Descriptor { bytes: bytes as u64, is_last });
        if self.read_at.is_none() {
            self.begin(now);
        }
    }

    pub(crate) fn finish(&mut self, now: Instant) {
        let Some(Descriptor { bytes, is_last }) = self.posted.pop_front() else { return };
        self.partial += bytes;
        if is_last {
            let bytes = core::mem::take(&mut self.partial) + self.settings.framing;
            self.line_free_at = self.line_free_at.max(now) + self.settings.on_line(bytes);
            self.departures.push(self.line_free_at);
        }
        self.begin(now);
    }

    /// Reads the next descriptor, as soon as there is room for its fragment.
    fn begin(&mut self, now: Instant) {
        let CardSettings { bus, descriptor, start, memory, .. } = self.settings;
        self.read_at = self.posted.front().map(|Descriptor { bytes, .. }| {
            let others = memory.saturating_sub(self.partial + bytes);
            let room_at = self.line_free_at - self.settings.on_line(others);
            now.max(room_at) + bus.clocks(start) + bus.takes(descriptor) + bus.takes(*bytes)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock is a microsecond, in which 8 bytes pass over the bus and one over the line.
    const SLOW: CardSettings = CardSettings {
        bus: Bus { clock: 1_000_000, width: 8, burst: 64, overhead: 2 },
        descriptor: 16,
        start: 0,
        memory: 256,
        line: 8_000_000,
        framing: 0,
        sums: false,
    };

    fn micros(count: u64) -> Instant {
        Instant::from_nanos(1_000 * count)
    }

    #[test]
    fn every_burst_costs_the_bus_its_overhead() {
        assert_eq!(SLOW.bus.takes(64), Duration::from_micros(10));
        assert_eq!(SLOW.bus.takes(65), Duration::from_micros(13));
        assert_eq!(SLOW.bus.takes(128), Duration::from_micros(20));
    }

    #[test]
    fn a_packet_leaves_when_all_of_its_fragments_have_been_read() {
        let mut card = Card::new(SLOW);
        card.post(micros(0), 64, false);
        card.post(micros(0), 64, true);
        assert_eq!(
            (card.next(), card.outstanding()),
            (Some(micros(14)), 2),
            "4 for the descriptor, 10 for the data"
        );
        card.finish(micros(14));
        assert_eq!((card.next(), card.departures().len()), (Some(micros(28)), 0));
        card.finish(micros(28));
        assert_eq!(card.departures(), [micros(28 + 128)]);
        assert_eq!((card.next(), card.outstanding()), (None, 0));
    }

    #[test]
    fn every_descriptor_costs_its_start() {
        let mut card = Card::new(CardSettings { start: 5, ..SLOW });
        card.post(micros(0), 64, true);
        assert_eq!(card.next(), Some(micros(5 + 14)));
    }

    #[test]
    fn what_has_no_room_in_the_memory_waits_for_the_line() {
        let mut card = Card::new(SLOW);
        for _ in 0..3 {
            card.post(micros(0), 128, true);
        }
        // Read at 24 and 48; the line takes the first until 152. Only then there is room for a third.
        card.finish(micros(24));
        card.finish(micros(48));
        assert_eq!(card.departures(), [micros(152), micros(280)]);
        assert_eq!(card.next(), Some(micros(152 + 24)));
    }
}
