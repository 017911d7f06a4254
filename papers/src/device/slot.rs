//! A device in a memory slot: packets pass through windows of its memory, in units, and nothing interrupts.
//!
//! Part of [`crate::device`]. The processor writes each unit into a window, and the device sends it into a part of the
//! receiver's memory that is the sender's own; so units lie there in order. A poll finds all that have come since the last
//! one, and the processor reads them through another window.
//!
//! Invariant: units are read in the order in which they came.

use core::time::Duration;
use std::collections::VecDeque;

use tabane_proto::Instant;

/// Rates are in MB (10^6 bytes) per second.
#[derive(Clone, Copy, Debug)]
pub struct SlotSettings {
    pub unit: usize,
    /// Bytes that are read besides, for each unit: its state, before its content is there to be read.
    pub unit_state: usize,
    /// How fast the processor writes into the device.
    pub write: f64,
    /// How fast it reads from it.
    pub read: f64,
    /// How fast units pass from device to device.
    pub wire: f64,
    /// Between two polls.
    pub poll: Duration,
}

impl SlotSettings {
    /// Units that so many bytes take; a unit that is not full takes as long as one that is.
    pub fn units(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.unit)
    }

    pub fn writing(&self) -> Duration {
        at(self.write, self.unit)
    }

    pub fn reading(&self) -> Duration {
        at(self.read, self.unit + self.unit_state)
    }
}

/// How long so many bytes take at a rate in MB per second.
pub(crate) fn at(rate: f64, bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / (rate * 1e6))
}

/// One direction: a wire, and the part of the receiver's memory behind it. `T` is what a unit belongs to.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    settings: SlotSettings,
    wire_free_at: Instant,
    /// When the polls happen, counted from here.
    phase: Duration,
    /// With the time at which each has come.
    window: VecDeque<(Instant, T)>,
}

impl<T> Slot<T> {
    pub(crate) fn new(settings: SlotSettings, phase: Duration) -> Self {
        Self { settings, wire_free_at: Instant::default(), phase, window: VecDeque::new() }
    }

    pub(crate) fn send(&mut self, now: Instant, unit: T) {
        self.wire_free_at = self.wire_free_at.max(now) + at(self.settings.wire, self.settings.unit);
        self.window.push_back((self.wire_free_at, unit));
    }

    /// The first poll from `from` on that finds something.
    pub(crate) fn next_poll(&self, from: Instant) -> Option<Instant> {
        let (came, _) = self.window.front()?;
        let zero = Instant::default() + self.phase;
        let interval = self.settings.poll.as_nanos().max(1);
        let polls = from.max(*came).since(zero).as_nanos().div_ceil(interval);
        Some(zero + self.settings.poll * u32::try_from(polls).unwrap_or(u32::MAX))
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Vec<T> {
        let here = self.window.partition_point(|(came, _)| *came <= now);
        self.window.drain(..here).map(|(_, unit)| unit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A microsecond for each byte on the wire.
    const SLOW: SlotSettings = SlotSettings {
        unit: 10,
        unit_state: 5,
        write: 2.0,
        read: 0.5,
        wire: 1.0,
        poll: Duration::from_micros(32),
    };

    fn micros(count: u64) -> Instant {
        Instant::from_nanos(1_000 * count)
    }

    #[test]
    fn one_poll_takes_all_units_that_have_arrived_in_order() {
        let mut slot = Slot::new(SLOW, Duration::from_micros(3));
        assert_eq!(slot.next_poll(micros(0)), None);
        for unit in 0..4 {
            slot.send(micros(0), unit);
        }
        assert_eq!(slot.next_poll(micros(0)), Some(micros(35)), "the first has come at 10");
        assert_eq!(slot.poll(micros(35)), [0, 1, 2]);
        assert_eq!(slot.next_poll(micros(35)), Some(micros(67)));
        assert_eq!(slot.poll(micros(67)), [3]);
    }

    #[test]
    fn a_unit_costs_the_same_however_full_it_is() {
        assert_eq!((SLOW.units(1), SLOW.units(10), SLOW.units(11)), (1, 1, 2));
        assert_eq!((SLOW.writing(), SLOW.reading()), (Duration::from_micros(5), Duration::from_micros(30)));
    }
}
