//! The least delay of a while: what all cells of that time had to take, a queue that stands, and nothing that only some met.
//!
//! Beside [`crate::link::congestion::varying`]. Delays are of one way, by two clocks, in microseconds. Source: LEDBAT (RFC 6817), for a
//! current delay that is a minimum.

use crate::time::{Instant, nanos};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

/// Delays are kept for so long, the least of each slot of time.
const KEPT: Duration = Duration::from_secs(1);
const SLOT: Duration = Duration::from_millis(4);
/// The least delay of one to two of these times is the least that there is.
const HISTORY: Duration = Duration::from_secs(10);
/// So many delays show how much they differ.
const COMPARED: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Envelope {
    /// The least delay of each slot, by its number.
    slots: VecDeque<(u64, i32)>,
    /// The least of this time and of the one before.
    least: [Option<i32>; 2],
    since: Instant,
    /// What it was when no queue stood, the last two times.
    base: [Option<i32>; 2],
    latest: VecDeque<i32>,
}

impl Envelope {
    /// Bytes that it has on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<(u64, i32)>() + self.latest.capacity() * size_of::<i32>()
    }

    pub(super) fn note(&mut self, now: Instant, delay: i32) {
        if now.since(self.since) >= HISTORY {
            (self.least, self.since) = ([None, self.least[0]], now);
        }
        self.least[0] = Some(self.least[0].map_or(delay, |least| least.min(delay)));
        let slot = slot(now);
        match self.slots.back_mut() {
            Some((last, least)) if *last == slot => *least = delay.min(*least),
            _ => self.slots.push_back((slot, delay)),
        }
        let old = slot.saturating_sub(slots(KEPT));
        while self.slots.pop_front_if(|(slot, _)| *slot < old).is_some() {}
        if self.latest.len() == COMPARED {
            self.latest.pop_front();
        }
        self.latest.push_back(delay);
    }

    /// The least delay of the last `span`.
    fn of(&self, now: Instant, span: Duration) -> Option<i32> {
        let from = slot(now).saturating_sub(slots(span));
        self.slots.iter().rev().take_while(|(slot, _)| *slot >= from).map(|(_, delay)| *delay).min()
    }

    /// The longest queue that can have stood for the last `span`.
    pub(super) fn over_least(&self, now: Instant, span: Duration) -> Duration {
        between(self.least.into_iter().flatten().min(), self.of(now, span))
    }

    /// The queue that stood for the last `span`, once a base is known.
    pub(super) fn over_base(&self, now: Instant, span: Duration) -> Option<Duration> {
        let base = self.base.into_iter().flatten().max();
        base.map(|base| between(Some(base), self.of(now, span)))
    }

    /// No queue has stood for the last `span`. Returns by how much all of the latest delays differ but for the tenth that is least and
    /// the tenth that is greatest.
    pub(super) fn learn(&mut self, now: Instant, span: Duration) -> Option<Duration> {
        if let Some(delay) = self.of(now, span) {
            self.base = [Some(delay), self.base[0]];
        }
        let mut delays: Vec<i32> = self.latest.iter().copied().collect();
        delays.sort_unstable();
        let part = |tenths: usize| delays.get(delays.len() * tenths / 10).copied();
        (delays.len() >= 8).then(|| between(part(1), part(9)))
    }
}

/// How much later one delay is than another, where both are known.
fn between(one: Option<i32>, other: Option<i32>) -> Duration {
    let micros = one.zip(other).map_or(0, |(one, other)| other.saturating_sub(one));
    Duration::from_micros(u64::from(micros.max(0).unsigned_abs()))
}

fn slot(at: Instant) -> u64 {
    slots(at.since(Instant::default()))
}

fn slots(span: Duration) -> u64 {
    nanos(span) / nanos(SLOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    /// A path whose delay varies by 10 ms, and by at least 7 ms under load, has a queue only where all delays are longer than that.
    #[test]
    fn what_varies_is_no_queue_and_what_stands_is_one() {
        let mut envelope = Envelope::default();
        let note = |envelope: &mut Envelope, from: u64, least: u32, most: u32| {
            for millis in from..from + 200 {
                let delay = least + u32::try_from(millis * 7_919 % 101).unwrap() * (most - least) / 100;
                envelope.note(at(millis), i32::try_from(delay).unwrap());
            }
            at(from + 199)
        };
        let quiet = note(&mut envelope, 0, 0, 10_000);
        assert_eq!(
            (envelope.over_least(quiet, 100 * MILLI), envelope.over_base(quiet, 100 * MILLI)),
            (Duration::ZERO, None)
        );
        let loaded = note(&mut envelope, 200, 7_000, 10_000);
        assert!(envelope.learn(loaded, 100 * MILLI).is_some_and(|spread| spread < 5 * MILLI));
        assert_eq!(envelope.over_base(loaded, 100 * MILLI), Some(Duration::ZERO));
        assert_eq!(envelope.over_least(loaded, 100 * MILLI), 7 * MILLI);
        let queued = note(&mut envelope, 400, 19_000, 22_000);
        assert_eq!(envelope.over_base(queued, 100 * MILLI), Some(12 * MILLI));
    }
}
