//! One direction of a cable at work: a queue, then a wire.
//!
//! Part of [`crate::cable`]. A datagram's arrival is computed when it is put in. Only an outage changes it later, and the caller
//! checks for one when the datagram comes out. The queue is a span of time, not a list: the bytes that wait are those that
//! the wire still has to take.
//!
//! Invariant: datagrams come out in the order in which they went in.

use crate::random::Random;
use crate::topology::Way;
use core::time::Duration;
use tabane_proto::Instant;
use tabane_proto::time::nanos;

#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(crate) way: Way,
    /// When the wire has taken all that was put in.
    free_at: Instant,
    /// When the last datagram comes out.
    last_out: Instant,
    /// What is between the two values of the jitter that passes from one to the other, in parts of a million, and since when.
    between: [u64; 2],
    since: Instant,
    /// Outages that are going on.
    outages: u8,
}

impl Pipe {
    pub(crate) fn new(way: Way) -> Self {
        Self { way, ..Self::default() }
    }

    /// Bytes that wait, the part of the datagram that is leaving included.
    pub(crate) fn queued(&self, now: Instant) -> u64 {
        let bits = u128::from(nanos(self.free_at.since(now))) * u128::from(self.way.rate);
        u64::try_from(bits.div_ceil(8_000_000_000)).unwrap_or(u64::MAX)
    }

    pub(crate) fn has_room(&self, now: Instant, bytes: usize) -> bool {
        self.queued(now).saturating_add(bytes as u64) <= self.way.queue
    }

    /// When at most `bytes` will wait, if nothing is put in.
    pub(crate) fn drained_to(&self, bytes: u64) -> Instant {
        self.free_at - self.serialisation(bytes)
    }

    /// Puts a datagram in; returns when it comes out.
    pub(crate) fn push(&mut self, now: Instant, bytes: usize, random: &mut Random) -> Instant {
        self.free_at = self.free_at.max(now) + self.serialisation(bytes as u64);
        let jitter = self.jitter(random);
        self.last_out = self.last_out.max(self.free_at + self.way.delay + jitter);
        self.last_out
    }

    /// By how much the datagram that leaves at `free_at` is held up.
    fn jitter(&mut self, random: &mut Random) -> Duration {
        let Way { jitter, changes, .. } = self.way;
        if jitter.is_zero() || changes.is_zero() {
            return random.span(Duration::ZERO..=jitter);
        }
        while self.free_at >= self.since + changes {
            self.since = (self.since + changes).max(self.free_at - changes);
            self.between = [self.between[1], random.below(1_000_001)];
        }
        let passed = self.free_at.since(self.since).as_secs_f64() / changes.as_secs_f64();
        let [from, to] = self.between.map(|part| part as f64 / 1e6);
        jitter.mul_f64(from + (to - from) * passed.min(1.0))
    }

    /// Whether chance loses the next datagram.
    pub(crate) fn loses(&self, random: &mut Random) -> bool {
        random.chance(self.way.loss)
    }

    /// Changes rate, delay and jitter from now on; datagrams that were put in keep their time, and are not overtaken.
    pub(crate) fn set_way(&mut self, way: Way) {
        self.way = way;
    }

    /// Sets the loss, in datagrams of a million.
    pub(crate) fn set_loss(&mut self, per_million: u32) {
        self.way.loss = per_million;
    }

    pub(crate) fn is_out(&self) -> bool {
        self.outages > 0
    }

    /// One more cause for which nothing passes, or one less.
    pub(crate) fn set_outage(&mut self, begins: bool) {
        self.outages = if begins { self.outages + 1 } else { self.outages.saturating_sub(1) };
    }

    fn serialisation(&self, bytes: u64) -> Duration {
        Duration::from_nanos((bytes * 8_000_000_000).div_ceil(self.way.rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;
    use crate::topology::Link;

    fn micros(count: u64) -> Instant {
        Instant::from_nanos(count * 1_000)
    }

    #[test]
    fn frames_queue_behind_each_other_and_drain_at_the_rate() {
        let way = Link::GIGABIT.cable(0).down;
        let mut pipe = Pipe::new(way);
        let mut random = Random::new(1, Stream::Network);
        assert_eq!(pipe.push(micros(100), 1_250, &mut random), micros(120), "10 us of wire, 10 us of delay");
        assert_eq!(pipe.push(micros(100), 1_250, &mut random), micros(130));
        assert_eq!(pipe.queued(micros(100)), 2_500);
        assert_eq!(pipe.queued(micros(105)), 1_875);
        assert_eq!(pipe.drained_to(1_250), micros(110));
        assert_eq!(pipe.queued(micros(120)), 0);
    }

    #[test]
    fn a_way_that_gets_shorter_is_not_a_way_past_others() {
        let far = Way { delay: Duration::from_millis(1), ..Link::GIGABIT.cable(0).down };
        let mut pipe = Pipe::new(far);
        let mut random = Random::new(1, Stream::Network);
        assert_eq!(pipe.push(micros(0), 1_250, &mut random), micros(1_010));
        pipe.set_way(Way { rate: 100_000_000, delay: Duration::ZERO, ..far });
        assert_eq!(pipe.push(micros(0), 1_250, &mut random), micros(1_010));
        assert_eq!(pipe.push(micros(2_000), 1_250, &mut random), micros(2_100), "slower, and at once");
    }

    #[test]
    fn jitter_never_reorders() {
        let way = Way { jitter: Duration::from_millis(5), ..Link::GIGABIT.cable(0).down };
        let mut pipe = Pipe::new(way);
        let mut random = Random::new(2, Stream::Network);
        let out: Vec<_> = (0..1_000).map(|count| pipe.push(micros(count * 20), 1_250, &mut random)).collect();
        assert!(out.is_sorted());
        assert!(out[999] > micros(999 * 20 + 1_000), "some jitter there was");
    }
}
