//! One direction of a wire: which frames come out, when, and what became of the others. Pure: time is an argument.
//!
//! ```text
//!  arrive ─ black hole ─ loss ─ corruption ─ queue, rate ─ delay, jitter ─ coalescing ─ depart
//! ```
//!
//! Frames keep their order unless jitter may change it, also when the impairment changes between them. What is on
//! the way keeps the time that it got; a black hole swallows it. Memory is bounded by [`STORED_BYTES_MAX`].

use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::frame::{Size, corrupt, settle, size};
use super::{Counters, Impairment};

/// Most bytes kept: 250 ms of 1 Gbit/s.
const STORED_BYTES_MAX: usize = 32 << 20;
/// Times beyond this are not meant: 580 years.
const NEVER_NS: u64 = u64::MAX;

/// One direction.
#[derive(Debug)]
pub(super) struct Line {
    impairment: Impairment,
    random: StdRng,
    /// What waits for the rate: when its last bit leaves, in nanoseconds, and its bytes on the wire.
    queue: VecDeque<(u64, u64)>,
    /// Bytes in `queue`.
    queued_bytes: u64,
    /// On the way, in the order in which they come out, with when that is, in nanoseconds.
    flying: VecDeque<(u64, Box<[u8]>)>,
    /// Out, and not yet told of.
    landed: VecDeque<Box<[u8]>>,
    /// When the first of `landed` came out, in nanoseconds.
    landed_since_ns: u64,
    /// How many of `landed` have been told of and may depart.
    told: usize,
    /// Bytes in `flying` and `landed`.
    stored_bytes: usize,
    /// When the latest frame comes out, in nanoseconds.
    latest_ns: u64,
    counters: Counters,
}

impl Line {
    /// A line without flaw, whose random numbers come from `seed`.
    pub(super) fn new(seed: u64) -> Line {
        Line {
            impairment: Impairment::default(),
            random: StdRng::seed_from_u64(seed),
            queue: VecDeque::new(),
            queued_bytes: 0,
            flying: VecDeque::new(),
            landed: VecDeque::new(),
            landed_since_ns: 0,
            told: 0,
            stored_bytes: 0,
            latest_ns: 0,
            counters: Counters::default(),
        }
    }

    /// From now on frames suffer `impairment`.
    pub(super) fn set(&mut self, impairment: Impairment) {
        self.impairment = impairment;
        if impairment.black_hole {
            self.swallow_all();
        }
    }

    /// Begins or ends the black hole, and leaves the rest as it is.
    pub(super) fn set_black_hole(&mut self, black_hole: bool) {
        self.set(Impairment { black_hole, ..self.impairment });
    }

    /// Takes `frame`, which arrives at `now_ns`. `true`: it departs at once, and the caller sends it.
    pub(super) fn arrive(&mut self, now_ns: u64, frame: &mut [u8]) -> bool {
        let wire = size(frame);
        if self.impairment.black_hole {
            self.counters.swallowed += wire.frames;
            return false;
        }
        if self.happens(self.impairment.loss) {
            self.counters.lost += wire.frames;
            return false;
        }
        if self.happens(self.impairment.corruption) && corrupt(frame, &mut self.random) {
            self.counters.corrupted += 1;
        }
        settle(frame);
        let Some(sent_ns) = self.transmit(now_ns, wire, frame.len()) else {
            self.counters.dropped += wire.frames;
            return false;
        };
        let at_ns = self.lands_at(sent_ns);
        if at_ns <= now_ns && self.is_empty() && self.impairment.coalescing.is_none() {
            return true;
        }
        self.stored_bytes += frame.len();
        let place = self.flying.partition_point(|(before_ns, _)| *before_ns <= at_ns);
        self.flying.insert(place, (at_ns, frame.into()));
        false
    }

    /// The next frame that is out at `now_ns`.
    pub(super) fn depart(&mut self, now_ns: u64) -> Option<Box<[u8]>> {
        self.land(now_ns);
        if self.told == 0 && self.told_at_ns() <= now_ns {
            self.told = self.landed.len();
        }
        self.told = self.told.checked_sub(1)?;
        let frame = self.landed.pop_front()?;
        self.stored_bytes -= frame.len();
        Some(frame)
    }

    /// When [`Line::depart`] will have something, in nanoseconds; `None`: not before something arrives.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let lands_ns = self.flying.front().map_or(NEVER_NS, |(at_ns, _)| *at_ns);
        let next_ns = if self.told > 0 { 0 } else { lands_ns.min(self.told_at_ns()) };
        (next_ns != NEVER_NS).then_some(next_ns)
    }

    /// Counts `frame`, which the caller has tried to send.
    pub(super) fn count_sent(&mut self, frame: &[u8], passed: bool) {
        let counter = if passed { &mut self.counters.passed } else { &mut self.counters.refused };
        *counter += size(frame).frames;
    }

    /// Counts frames that never arrived here.
    pub(super) fn count_overruns(&mut self, frames: u32) {
        self.counters.overrun += u64::from(frames);
    }

    /// What became of the frames so far.
    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.random.random::<f64>() < share
    }

    /// When the last bit of a frame that arrives now leaves; `None`: there is no room for it.
    fn transmit(&mut self, now_ns: u64, wire: Size, bytes: usize) -> Option<u64> {
        while let Some((_, bytes)) = self.queue.pop_front_if(|(sent_ns, _)| *sent_ns <= now_ns) {
            self.queued_bytes -= bytes;
        }
        let is_full = self.queued_bytes > 0 && self.queued_bytes + wire.bytes > self.impairment.queue_limit();
        if is_full || self.stored_bytes + bytes > STORED_BYTES_MAX {
            return None;
        }
        let Some(rate) = self.impairment.rate else { return Some(now_ns) };
        let start_ns = self.queue.back().map_or(now_ns, |(sent_ns, _)| *sent_ns);
        let duration_ns = wire.bytes.saturating_mul(8_000_000_000) / rate.bits_per_second();
        let sent_ns = start_ns.saturating_add(duration_ns);
        self.queue.push_back((sent_ns, wire.bytes));
        self.queued_bytes += wire.bytes;
        Some(sent_ns)
    }

    /// When a frame that is sent at `sent_ns` comes out.
    fn lands_at(&mut self, sent_ns: u64) -> u64 {
        let Impairment { delay, jitter, reorder, .. } = self.impairment;
        let jitter_ns = match nanoseconds(jitter) {
            0 => 0,
            most_ns => self.random.random_range(0..=most_ns),
        };
        let lands_ns = sent_ns.saturating_add(nanoseconds(delay)).saturating_add(jitter_ns);
        let lands_ns = if reorder { lands_ns } else { lands_ns.max(self.latest_ns) };
        self.latest_ns = self.latest_ns.max(lands_ns);
        lands_ns
    }

    /// Moves what is out by now from `flying` to `landed`.
    fn land(&mut self, now_ns: u64) {
        while let Some((at_ns, frame)) = self.flying.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            if self.landed.is_empty() {
                self.landed_since_ns = at_ns;
            }
            self.landed.push_back(frame);
        }
    }

    /// When what has landed is told of.
    fn told_at_ns(&self) -> u64 {
        match self.impairment.coalescing {
            _ if self.landed.is_empty() => NEVER_NS,
            Some(limits) if self.landed.len() < limits.frames => {
                self.landed_since_ns.saturating_add(nanoseconds(limits.wait))
            }
            _ => self.landed_since_ns,
        }
    }

    fn is_empty(&self) -> bool {
        self.flying.is_empty() && self.landed.is_empty()
    }

    fn swallow_all(&mut self) {
        let flying = self.flying.drain(..).map(|(_, frame)| frame);
        let frames = flying.chain(self.landed.drain(..)).map(|frame| size(&frame).frames);
        self.counters.swallowed += frames.sum::<u64>();
        self.queue.clear();
        (self.queued_bytes, self.stored_bytes, self.told, self.latest_ns) = (0, 0, 0, 0);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER_NS)
}

#[cfg(test)]
mod tests;
