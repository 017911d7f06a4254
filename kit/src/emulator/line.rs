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

#[derive(Debug)]
pub(super) struct Line {
    impairment: Impairment,
    random: StdRng,
    /// What waits for the rate: when its last bit leaves, in nanoseconds, and its bytes on the wire.
    queue: VecDeque<(u64, u64)>,
    queued_bytes: u64,
    /// On the way, in the order in which they come out, with when that is, in nanoseconds.
    flying: VecDeque<(u64, Box<[u8]>)>,
    /// Out, and not yet told of.
    landed: VecDeque<Box<[u8]>>,
    /// When the first of `landed` came out, in nanoseconds.
    landed_since_ns: u64,
    /// How many of `landed` have been told of and may depart.
    told: usize,
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

    pub(super) fn set(&mut self, impairment: Impairment) {
        self.impairment = impairment;
        if impairment.black_hole {
            self.swallow_all();
        }
    }

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
        self.flying.push_back((at_ns, frame.into()));
        false
    }

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

    pub(super) fn count_sent(&mut self, frame: &[u8], passed: bool) {
        let counter = if passed { &mut self.counters.passed } else { &mut self.counters.refused };
        *counter += size(frame).frames;
    }

    pub(super) fn count_overruns(&mut self, frames: u32) {
        self.counters.overrun += u64::from(frames);
    }

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

    fn lands_at(&mut self, sent_ns: u64) -> u64 {
        let Impairment { delay, jitter, .. } = self.impairment;
        let jitter_ns = match nanoseconds(jitter) {
            0 => 0,
            most_ns => self.random.random_range(0..=most_ns),
        };
        let lands_ns = sent_ns.saturating_add(nanoseconds(delay)).saturating_add(jitter_ns);
        self.latest_ns = self.latest_ns.max(lands_ns);
        self.latest_ns
    }

    fn land(&mut self, now_ns: u64) {
        while let Some((at_ns, frame)) = self.flying.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            if self.landed.is_empty() {
                self.landed_since_ns = at_ns;
            }
            self.landed.push_back(frame);
        }
    }

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
mod tests {
    use tabane_io::packet::HEADER;

    use super::*;
    use crate::emulator::Coalescing;
    use crate::rate::Bitrate;

    const MS: u64 = 1_000_000;

    fn frame(number: u8) -> Vec<u8> {
        let mut frame = vec![0; HEADER + 1000];
        frame[HEADER] = number;
        frame
    }

    fn line(impairment: Impairment) -> Line {
        let mut line = Line::new(1);
        line.set(impairment);
        line
    }

    /// What departs, and when, if the line is looked at whenever it asks for it until `end_ns`.
    fn departures(line: &mut Line, end_ns: u64) -> Vec<(u64, u8)> {
        let mut seen = Vec::new();
        while let Some(next_ns) = line.next_ns().filter(|next_ns| *next_ns <= end_ns) {
            while let Some(frame) = line.depart(next_ns) {
                seen.push((next_ns, frame[HEADER]));
            }
        }
        seen
    }

    #[test]
    fn without_flaw_frames_pass_at_once() {
        let mut line = line(Impairment::default());
        assert!(line.arrive(5, &mut frame(1)));
        assert_eq!((line.next_ns(), line.depart(u64::MAX)), (None, None));
    }

    #[test]
    fn a_delay_is_exact() {
        let mut line = line(Impairment::delay(Duration::from_millis(20)));
        assert!(!line.arrive(5, &mut frame(1)));
        assert_eq!(line.depart(20 * MS + 4), None);
        assert_eq!(departures(&mut line, u64::MAX), [(20 * MS + 5, 1)]);
    }

    #[test]
    fn a_rate_spaces_frames_and_its_queue_drops_the_rest() {
        let rate = Impairment { queue_bytes: Some(2500), ..Impairment::rate(Bitrate::mbit(8)) };
        let mut line = line(rate);
        for number in 0..4 {
            assert!(!line.arrive(0, &mut frame(number)));
        }
        assert_eq!(line.counters().dropped, 2, "two frames are 2,000 of 2,500 bytes");
        assert_eq!(departures(&mut line, u64::MAX), [(MS, 0), (2 * MS, 1)]);
        assert!(!line.arrive(10 * MS, &mut frame(9)));
        assert_eq!(departures(&mut line, u64::MAX), [(11 * MS, 9)]);
    }

    #[test]
    fn order_is_kept_when_the_delay_falls() {
        let mut line = line(Impairment::delay(Duration::from_millis(20)));
        line.arrive(0, &mut frame(1));
        line.set(Impairment::default());
        assert!(!line.arrive(1, &mut frame(2)), "it must not overtake");
        assert_eq!(departures(&mut line, u64::MAX), [(20 * MS, 1), (20 * MS, 2)]);
    }

    #[test]
    fn jitter_changes_no_order() {
        let jitter = Duration::from_millis(5);
        let mut line = line(Impairment { jitter, ..Impairment::default() });
        for number in 0..100 {
            line.arrive(u64::from(number) * 1000, &mut frame(number));
        }
        let seen = departures(&mut line, u64::MAX);
        assert_eq!(seen.len(), 100);
        assert!(seen.is_sorted_by_key(|(_, number)| *number));
        assert!(seen.iter().all(|(at_ns, _)| *at_ns <= 5 * MS + 100_000));
        assert!(seen.iter().any(|(at_ns, number)| *at_ns > u64::from(*number) * 1000 + MS), "{seen:?}");
    }

    #[test]
    fn a_share_is_lost() {
        let mut line = line(Impairment::loss(0.05));
        let passed = (0..10_000).filter(|_| line.arrive(0, &mut frame(1))).count() as u64;
        assert_eq!(passed + line.counters().lost, 10_000);
        assert!((400..600).contains(&line.counters().lost), "{}", line.counters().lost);
    }

    #[test]
    fn a_share_is_corrupted_and_passes() {
        let mut line = line(Impairment::corruption(0.5));
        let original = frame(1);
        let mut changed = 0;
        for _ in 0..1000 {
            let mut frame = original.clone();
            assert!(line.arrive(0, &mut frame));
            changed += u64::from(frame != original);
        }
        assert_eq!(changed, line.counters().corrupted);
        assert!((400..600).contains(&changed), "{changed}");
    }

    #[test]
    fn coalesced_frames_wait_for_company_or_time() {
        let coalescing = Some(Coalescing { frames: 3, wait: Duration::from_millis(1) });
        let mut line = line(Impairment { coalescing, ..Impairment::default() });
        for (at_ns, number) in [(10, 1), (20, 2), (30, 3), (40, 4)] {
            assert!(!line.arrive(at_ns, &mut frame(number)));
            line.land(at_ns);
            if number == 3 {
                assert_eq!(departures(&mut line, at_ns).len(), 3);
            }
        }
        assert_eq!(departures(&mut line, u64::MAX), [(MS + 40, 4)]);
    }

    #[test]
    fn a_black_hole_swallows_what_is_on_the_way_too() {
        let mut line = line(Impairment::delay(Duration::from_millis(20)));
        line.arrive(0, &mut frame(1));
        line.set(Impairment::black_hole());
        assert!(!line.arrive(1, &mut frame(2)));
        assert_eq!((line.counters().swallowed, line.next_ns()), (2, None));
        line.set(Impairment::default());
        assert!(line.arrive(2, &mut frame(3)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut line = line(Impairment::delay(Duration::from_secs(3600)));
        let frames = 2 * STORED_BYTES_MAX / frame(0).len();
        for _ in 0..frames {
            line.arrive(0, &mut frame(0));
        }
        assert!(line.stored_bytes <= STORED_BYTES_MAX);
        assert!(line.counters().dropped >= frames as u64 / 2);
    }
}
