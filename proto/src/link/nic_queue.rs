//! What waits in a link's queue, and the rate at which it leaves.
//!
//! Part of [`crate::link::nic`]. The kernel tells how many bytes handed to it have not left yet; from that the link measures its
//! rate while it is busy, and sets how much may wait in it, so that the queue stays short at any rate.

use crate::link::nic::{bytes_in, per_second, time_of};
use crate::time::Instant;
use core::time::Duration;

/// Bounds of what may wait before the rate is known. It begins at the lower end, so that the first frames do not fill a
/// slow link for longer than its peer waits for a heartbeat, and doubles when half of it is gone within [`PROOF`]. It ends
/// where a token bucket, which lets much pass before it shows its rate, can mislead for 13 ms at 20 Mbit/s.
const UNPROVEN: (u64, u64) = (16 * 1024, 32 * 1024);
/// Time between two questions to the kernel within which bytes have to leave to prove something.
const PROOF: Duration = Duration::from_micros(500);
/// What has left in so long a time without waiting shows a lower bound of the rate that such a bucket cannot feign: the
/// queue may then be as long as with that rate, and a rate that was measured too low is raised.
const LONG_PROOF: Duration = Duration::from_millis(50);
/// What programs sent by a link has left it after this time, or they have sent more.
const SHARED_FOR: Duration = Duration::from_millis(20);
/// Time for which a queue may be filled: two wake-ups of a sleeping worker with room to spare.
const QUEUE_FOR: Duration = Duration::from_micros(1_500);
/// Bounds of the queue: eight cells at the lower end, so that a batch is worth its system call.
const QUEUE_BOUNDS: (u64, u64) = (12 * 1024, 512 * 1024);
/// Batches that a queue holds whose rate is known; and at most, where it is not known.
const BATCHES: (u64, u64) = (2, 4);
/// Shortest span over which a rate is measured.
const RATE_SPAN: Duration = Duration::from_millis(1);
/// What is older than this and this many bytes counts half: bytes leave in lumps, a batch at a time.
const RATE_MEMORY: Duration = Duration::from_millis(20);
const RATE_BYTES: u64 = 8 * QUEUE_BOUNDS.0;

pub(crate) struct NicQueue {
    /// Bytes handed to the kernel since start.
    sent: u64,
    /// Of these, bytes that had not left when the kernel was last asked.
    queued: u64,
    /// How many bytes may wait while the rate is not known.
    unproven: u64,
    /// When the kernel was last asked, and what had been handed over by then.
    asked: (Instant, u64),
    /// Since when nothing was found waiting, and what had been handed over by then.
    free: (Instant, u64),
    /// Until when what programs sent may wait there, too.
    shared_until: Instant,
    rate: RateMeter,
}

impl NicQueue {
    /// `stated`: its rate in bytes per second, if the user states it.
    pub(crate) fn new(now: Instant, stated: Option<u64>) -> Self {
        Self {
            sent: 0,
            queued: 0,
            unproven: UNPROVEN.0,
            asked: (now, 0),
            free: (now, 0),
            shared_until: now,
            rate: RateMeter { stated, ..RateMeter::default() },
        }
    }

    /// The user states another rate, or none.
    pub(crate) fn state(&mut self, rate: Option<u64>) {
        self.rate.stated = rate;
    }

    /// The kernel took `bytes`.
    pub(crate) fn handle_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.queued += bytes as u64;
    }

    /// The kernel did not take the last `bytes` after all.
    pub(crate) fn take_back(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_sub(bytes as u64);
        self.queued = self.queued.saturating_sub(bytes as u64);
    }

    pub(crate) fn handle_queue(&mut self, now: Instant, queued: usize) {
        self.queued = queued as u64;
        if now < self.shared_until {
            // How fast cells leave says nothing of a link that carries more than them.
            (self.asked, self.free) = ((now, self.sent), (now, self.sent));
            return self.rate.pause();
        }
        let (asked, sent) = core::mem::replace(&mut self.asked, (now, self.sent));
        if queued > 0 {
            self.free = (now, self.sent);
        } else if now.since(asked) <= PROOF && self.sent - sent >= self.unproven / 2 {
            self.unproven = self.unproven.max((2 * self.unproven).min(UNPROVEN.1));
        }
        if now.since(self.free.0) >= LONG_PROOF {
            let (since, sent) = core::mem::replace(&mut self.free, (now, self.sent));
            let rate = per_second(self.sent - sent, now.since(since));
            self.unproven = self.unproven.max(bytes_in(rate, QUEUE_FOR).min(QUEUE_BOUNDS.1));
            self.rate.handle_lower_bound(rate);
        }
        self.rate.sample(now, self.departed(), queued > 0);
    }

    /// Programs send by the link.
    pub(crate) fn handle_shared(&mut self, now: Instant) {
        self.shared_until = now + SHARED_FOR;
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that have left since start.
    pub(crate) fn departed(&self) -> u64 {
        self.sent.saturating_sub(self.queued)
    }

    /// Bytes that wait.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// The rate in bytes per second, when it is known: a link that was never busy is as fast as it needs to be.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate.stated.or_else(|| self.rate.measured())
    }

    /// How many bytes may wait.
    pub(crate) fn limit(&self) -> u64 {
        let (least, most) = QUEUE_BOUNDS;
        self.rate().map_or(self.unproven, |rate| bytes_in(rate, QUEUE_FOR).clamp(least, most))
    }

    /// How many bytes may be handed over at once: when one of several batches leaves, the next can follow before the queue
    /// is empty. Before the rate is known it is as much as may wait, for nobody knows whether any will.
    pub(crate) fn batch_limit(&self) -> u64 {
        let limit = self.limit();
        if self.rate().is_some() {
            return limit / BATCHES.0;
        }
        limit.saturating_sub(self.queued).max(limit / BATCHES.1)
    }

    /// How long it takes until what waits has left. A rate that is not known is taken for one that fills the queue in its
    /// time: what has been handed over since the kernel was last asked may wait.
    pub(crate) fn wait(&self) -> Duration {
        let rate = self.rate().unwrap_or_else(|| per_second(self.unproven, QUEUE_FOR));
        time_of(self.queued, rate)
    }

    /// Whether the next batch depends on what the kernel says to [`Self::handle_queue`].
    pub(crate) fn wants_queue(&self) -> bool {
        self.rate().is_some() || self.queued >= self.unproven / 2
    }
}

/// Measures departures while the queue does not run empty.
#[derive(Debug, Default)]
pub(crate) struct RateMeter {
    /// Bytes per second, as the user states it.
    stated: Option<u64>,
    /// When the span began, what had departed by then.
    began: Option<(Instant, u64)>,
    /// The queue ran empty since then, nobody knows when: the rate was at least what the span shows.
    ran_empty: bool,
    /// Bytes that departed and how long that took, the older of them counting less and less.
    departed: u64,
    took: Duration,
}

impl RateMeter {
    /// So many bytes have departed. `busy`: others wait.
    pub(crate) fn sample(&mut self, now: Instant, departed: u64, busy: bool) {
        let Some((began, before)) = self.began else {
            self.began = busy.then_some((now, departed));
            return;
        };
        self.ran_empty |= !busy;
        let (bytes, span) = (departed.saturating_sub(before), now.since(began));
        if span < RATE_SPAN {
            return;
        }
        self.began = busy.then_some((now, departed));
        if !core::mem::take(&mut self.ran_empty) || self.is_below(per_second(bytes, span)) {
            self.departed += bytes;
            self.took += span;
        }
        if self.took > RATE_MEMORY && self.departed > RATE_BYTES {
            self.departed /= 2;
            self.took /= 2;
        }
    }

    /// What leaves now shows nothing.
    fn pause(&mut self) {
        (self.began, self.ran_empty) = (None, false);
    }

    /// The rate is at least so high.
    pub(crate) fn handle_lower_bound(&mut self, rate: u64) {
        if self.is_below(rate) {
            (self.departed, self.took) = (bytes_in(rate, RATE_MEMORY), RATE_MEMORY);
        }
    }

    /// Whether what is measured is less than `rate`.
    fn is_below(&self, rate: u64) -> bool {
        self.measured().is_some_and(|measured| measured < rate)
    }

    /// Bytes per second, once it was busy.
    pub(crate) fn measured(&self) -> Option<u64> {
        (self.departed > 0).then(|| per_second(self.departed, self.took).max(1))
    }
}

#[cfg(test)]
mod tests;
