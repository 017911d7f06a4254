//! What programs in the kernel carry on a path beside its cells: they pay for heartbeats as cells do, and show that a path is in use.
//!
//! Beside [`crate::link::health`], which judges by it. Programs number nothing, so no frame of theirs is ever known to be missing. But
//! a heartbeat takes the same way behind them. One that does not arrive is missing together with all that programs sent since the one
//! before, and a frame that does arrive shows, as a cell would, that the path works.
//!
//! A heartbeat also waits behind them in each queue of the way. How late it comes shows that there is a queue; and what programs had
//! sent when two such heartbeats were written, and how far apart these came, shows how fast the bottleneck carries it ([`ProgramRate`]).

use crate::link::congestion::delays::Delays;
use crate::link::nic::per_second;
use crate::link::nic_queue::RateMeter;
use crate::time::Instant;
use alloc::collections::VecDeque;
use core::time::Duration;

/// Bytes that count as much as a cell.
const CELL_BYTES: u64 = 1_024;
/// Heartbeats on their way that are remembered: with one in a millisecond, for longer than any of the queues lasts.
const HEARTBEATS: usize = 512;
/// A heartbeat that is so late has waited behind what programs sent, and not only for a processor.
const QUEUE: Duration = Duration::from_millis(2);
/// What crosses in so long a time without a queue shows that the rate is no less.
const LONG: Duration = Duration::from_millis(50);
/// Without a queue the rate that was measured may be too low: it rises by one part in so many, where three quarters of it were used.
const RISE: u64 = 16;

/// What programs have carried over a path since they were loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Frames and superframes to the peer.
    pub sent_frames: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Bytes of the packets in which they leave: of superframes in segments, with the headers of each.
    pub link_bytes: u64,
    /// Frames and superframes from the peer.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// When the last of them came.
    pub received_at: Instant,
}

impl Carried {
    /// What was sent, in cells: one for each frame, and one for each KiB.
    pub(crate) fn sent(&self) -> u64 {
        self.sent_frames + self.sent_bytes / CELL_BYTES
    }

    /// The same of what was received.
    pub(crate) fn received(&self) -> u64 {
        self.received_frames + self.received_bytes / CELL_BYTES
    }
}

/// What programs send over a path.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// So much, counted in cells.
    sent: u64,
    /// When they last carried something over it, either way.
    at: Option<Instant>,
    rate: ProgramRate,
}

impl Programs {
    /// What they have sent, counted in cells.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Bytes per second that the path carries of that, outer headers included, once a queue was found.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate.get()
    }

    /// The path leads elsewhere, or numbers begin anew.
    pub(crate) fn restart(&mut self) {
        self.rate = ProgramRate::default();
    }

    /// They have carried so much. Returns how many bytes more they have sent than before; what is there at first is not more.
    pub(crate) fn handle_carried(&mut self, now: Instant, carried: &Carried) -> u64 {
        (self.sent, self.at) = (carried.sent(), Some(now));
        self.rate.handle_carried(carried)
    }

    /// A heartbeat leaves under this number.
    pub(crate) fn handle_heartbeat(&mut self, now: Instant, number: u64) {
        self.rate.handle_heartbeat(now, number);
    }

    /// The peer has received all below the number `next`, and so many heartbeats, the last of them `delay` after it was written.
    pub(crate) fn handle_report(&mut self, now: Instant, next: u64, (heartbeats, delay): (u8, u32)) {
        if self.sent > 0 {
            self.rate.handle_report(now, next, (heartbeats, delay));
        }
    }
}

/// How fast a path carries what programs send.
#[derive(Debug, Default)]
struct ProgramRate {
    /// Bytes of the packets that programs have sent.
    sent: u64,
    /// Heartbeats on their way: number, when it was written, and what had been sent by then.
    written: VecDeque<(u64, Instant, u64)>,
    delays: Delays,
    rate: RateMeter,
    /// Since when no queue was found, and what had been sent by then.
    free: Option<(Instant, u64)>,
}

impl ProgramRate {
    /// Programs have sent so much in all. Returns how many bytes that is more than before; what is there at first is not.
    fn handle_carried(&mut self, carried: &Carried) -> u64 {
        let before = core::mem::replace(&mut self.sent, carried.link_bytes);
        if before == 0 { 0 } else { self.sent.saturating_sub(before) }
    }

    fn handle_heartbeat(&mut self, now: Instant, seq: u64) {
        if self.written.len() == HEARTBEATS {
            self.written.pop_front();
        }
        self.written.push_back((seq, now, self.sent));
    }

    /// The peer has received all below the number `next`, and so many heartbeats, modulo a power of two, the last of them `delay`
    /// microseconds by two clocks after it was written.
    fn handle_report(&mut self, now: Instant, next: u64, (heartbeats, delay): (u8, u32)) {
        let mut latest = None;
        while let Some(written) = self.written.pop_front_if(|(seq, ..)| *seq < next) {
            latest = Some(written);
        }
        let queue = self.delays.queue(now, heartbeats, delay);
        if self.delays.is_old(now) {
            self.delays.roll(now);
        }
        let Some(((_, at, sent), queue)) = latest.zip(queue) else { return };
        let is_busy = queue >= QUEUE;
        self.rate.sample(at + queue, sent, is_busy);
        let (since, before) = *self.free.get_or_insert((at, sent));
        if is_busy {
            self.free = Some((at, sent));
        } else if at.since(since) >= LONG {
            self.free = Some((at, sent));
            let used = per_second(sent - before, at.since(since));
            if let Some(rate) = self.get().filter(|rate| used >= rate / 4 * 3) {
                self.rate.handle_lower_bound(used.max(rate + rate / RISE));
            }
        }
    }

    /// Bytes per second, outer headers included, once a queue was found.
    fn get(&self) -> Option<u64> {
        self.rate.measured()
    }
}

/// What a peer's programs have sent over a path, as its heartbeats tell, in cells modulo 2^32.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    all: u32,
    /// When the heartbeat was written that came last over the path itself.
    before: u32,
}

impl Told {
    /// The latest heartbeat tells it, whatever path it took.
    pub(crate) fn note(&mut self, sent: u32) {
        self.all = sent;
    }

    /// A heartbeat that came over the path tells it.
    pub(crate) fn note_before(&mut self, sent: u32) {
        self.before = sent;
    }

    /// What is known to have been sent after the last heartbeat that came over the path.
    pub(crate) fn since(&self) -> u64 {
        u64::from(self.all.wrapping_sub(self.before).cast_signed().max(0).cast_unsigned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_frames_count_and_so_do_large_ones() {
        let carried = Carried { sent_frames: 3, sent_bytes: 3 * 66, ..Carried::default() };
        assert_eq!(carried.sent(), 3);
        let carried = Carried { received_frames: 2, received_bytes: 2 * 60_000, ..Carried::default() };
        assert_eq!(carried.received(), 2 + 117);
    }

    /// The rate that is known after a link of `rate` bytes per second was given so many per cent of that for a second, with a heartbeat
    /// each millisecond.
    fn pace(pace: &mut ProgramRate, from: u64, rate: u64, percent: u64) -> Option<u64> {
        let start = Instant::from_nanos(from * 1_000_000_000);
        let (mut sent, mut free, before) = (pace.sent, start, pace.sent);
        let given = rate * percent / 100_000;
        for millis in 0..1_000 {
            let now = start + Duration::from_millis(millis);
            sent += given;
            pace.handle_carried(&Carried { link_bytes: sent, ..Carried::default() });
            free = free.max(now) + Duration::from_nanos(given * 1_000_000_000 / rate);
            pace.handle_heartbeat(now, before + millis);
            let delay = u32::try_from(5_000 + free.since(now).as_micros()).expect("short");
            pace.handle_report(free, before + millis + 1, (millis.to_le_bytes()[0] % 64, delay));
        }
        pace.get()
    }

    #[test]
    fn a_queue_shows_how_fast_a_path_is() {
        const RATE: u64 = 2_500_000;
        let mut path = ProgramRate::default();
        assert_eq!(pace(&mut path, 0, RATE, 90), None, "nothing has waited");
        let near =
            |rate: Option<u64>, wanted: u64| rate.is_some_and(|rate| rate.abs_diff(wanted) < wanted / 20);
        let measured = pace(&mut path, 1, RATE, 120);
        assert!(near(measured, RATE), "{measured:?}");
        let quiet = pace(&mut path, 3, RATE, 30);
        assert_eq!(quiet, measured, "what is not used says nothing");
        let faster = pace(&mut path, 5, 2 * RATE, 90);
        assert!(faster > Some(RATE / 5 * 8), "{faster:?} of a path that has become twice as fast");
    }

    #[test]
    fn what_was_sent_since_is_known_though_numbers_come_round() {
        let mut told = Told::default();
        told.note_before(u32::MAX - 9);
        told.note(30);
        assert_eq!(told.since(), 40);
        told.note_before(31);
        assert_eq!(told.since(), 0, "an older heartbeat over another path comes later");
    }
}
