//! A port: this node's end of its links over one NIC. Its queue and its rate are shared by the links to all peers.
//!
//! Beside [`crate::tx`]. The kernel tells how many bytes handed to it have not left yet; from that the port measures its
//! rate while it is busy, and sets how much may wait in it, so that the queue stays short at any rate.

use crate::crowd::Crowd;
use crate::time::{Instant, nanos};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// Bounds of what may wait before the rate is known. It begins at the lower end, so that the first frames do not fill a
/// slow link for longer than its peer waits for a heartbeat, and doubles when half of it is gone within [`PROOF`]. It ends
/// where a token bucket, which lets much pass before it shows its rate, can mislead for 13 ms at 20 Mbit/s.
const UNPROVEN: (u64, u64) = (16 * 1024, 32 * 1024);
/// Time between two questions to the kernel within which bytes have to leave to prove something.
const PROOF: Duration = Duration::from_micros(500);
/// Time for which a queue may be filled: two wake-ups of a sleeping worker with room to spare.
const QUEUE_FOR: Duration = Duration::from_micros(2_500);
/// Bounds of the queue: eight cells at the lower end, so that a batch is worth its system call.
const QUEUE_BOUNDS: (u64, u64) = (12 * 1024, 512 * 1024);
/// Shortest span over which a rate is measured.
const RATE_SPAN: Duration = Duration::from_millis(1);

/// What is known of a port when the bundle is made.
#[derive(Clone, Debug)]
pub struct PortSettings {
    /// The largest link frame (cell with header) that the NIC takes, in bytes.
    pub cell_max: u16,
    /// Endpoints that are greeted besides the multicast group.
    pub greet: Vec<SocketAddr>,
    /// Whether peers are looked for by multicast.
    pub multicast: bool,
    /// The rate in bits per second, if the user states it; else it is measured.
    pub rate: Option<u64>,
    /// Its part of the traffic under `weighted`, at least 1; counts when every port has one.
    pub weight: Option<u32>,
}

impl PortSettings {
    /// A port that finds its peers by multicast and measures its rate.
    #[must_use]
    pub fn new(cell_max: u16) -> Self {
        Self { cell_max, greet: Vec::new(), multicast: true, rate: None, weight: None }
    }
}

/// Whether a port belongs to the bundle: [`crate::hotplug`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It does.
    Member,
    /// It only hears what was still on its way.
    Leaving {
        /// When it is gone.
        until: Instant,
    },
    /// Its number is free.
    Vacant,
}

/// A port's state.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) settings: PortSettings,
    pub(crate) presence: Presence,
    /// Whether the NIC has one; a port that is no member counts as one without.
    pub(crate) carrier: bool,
    /// The socket took no more; cleared when it does again.
    pub(crate) full: bool,
    /// Who came in by it lately.
    pub(crate) crowd: Crowd,
    /// When everyone is greeted next, or bidden farewell.
    pub(crate) greet_at: Instant,
    /// Bytes handed to the kernel since start.
    sent: u64,
    /// Of these, bytes that had not left when the kernel was last asked.
    queued: u64,
    /// How many bytes may wait while the rate is not known.
    unproven: u64,
    /// When the kernel was last asked, and what had been handed over by then.
    asked: (Instant, u64),
    rate: RateMeter,
}

impl Port {
    pub(crate) fn new(now: Instant, settings: PortSettings) -> Self {
        let stated = settings.rate.map(|bits| bits / 8);
        Self {
            settings,
            presence: Presence::Member,
            carrier: true,
            full: false,
            crowd: Crowd::default(),
            greet_at: now,
            sent: 0,
            queued: 0,
            unproven: UNPROVEN.0,
            asked: (now, 0),
            rate: RateMeter { stated, ..RateMeter::default() },
        }
    }

    pub(crate) fn is_member(&self) -> bool {
        self.presence == Presence::Member
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.presence == Presence::Vacant
    }

    /// The kernel took `bytes`.
    pub(crate) fn handle_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.queued += bytes as u64;
    }

    /// The kernel says that `queued` bytes have not left.
    pub(crate) fn handle_queue(&mut self, now: Instant, queued: usize) {
        self.queued = queued as u64;
        let (asked, sent) = core::mem::replace(&mut self.asked, (now, self.sent));
        if queued == 0 && now.since(asked) <= PROOF && self.sent - sent >= self.unproven / 2 {
            self.unproven = (2 * self.unproven).min(UNPROVEN.1);
        }
        self.rate.sample(now, self.departed(), queued > 0);
    }

    /// Bytes handed to the kernel since start.
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

    /// The rate in bytes per second, when it is known: a port that was never busy is as fast as it needs to be.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate.stated.or(self.rate.measured)
    }

    /// How many bytes may wait.
    pub(crate) fn queue_limit(&self) -> u64 {
        let (least, most) = QUEUE_BOUNDS;
        self.rate().map_or(self.unproven, |rate| bytes_in(rate, QUEUE_FOR).clamp(least, most))
    }
}

/// Bytes that pass in `span` at `rate` bytes per second.
pub(crate) fn bytes_in(rate: u64, span: Duration) -> u64 {
    let bytes = u128::from(rate) * u128::from(nanos(span)) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Measures departures while the queue does not run empty.
#[derive(Debug, Default)]
struct RateMeter {
    /// Bytes per second, as the user states it.
    stated: Option<u64>,
    /// Bytes per second, smoothed over four samples.
    measured: Option<u64>,
    /// When the span began, what had departed by then.
    began: Option<(Instant, u64)>,
}

impl RateMeter {
    fn sample(&mut self, now: Instant, departed: u64, busy: bool) {
        let Some((began, before)) = self.began.filter(|_| busy) else {
            self.began = busy.then_some((now, departed));
            return;
        };
        let span = now.since(began);
        if span < RATE_SPAN {
            return;
        }
        let rate = u128::from(departed.saturating_sub(before)) * 1_000_000_000 / u128::from(nanos(span));
        let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
        self.measured = Some(self.measured.map_or(rate, |old| old - old / 4 + rate / 4));
        self.began = Some((now, departed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> Port {
        let settings = PortSettings::new(1452);
        Port::new(Instant::default(), settings)
    }

    #[test]
    fn a_busy_port_learns_its_rate_and_shortens_its_queue() {
        let mut port = port();
        assert_eq!(port.queue_limit(), UNPROVEN.0);
        port.handle_sent(100_000);
        for millis in 0..20 {
            port.handle_sent(12_500);
            port.handle_queue(Instant::from_nanos(millis * 1_000_000), 100_000);
        }
        let rate = port.rate().unwrap();
        assert!((12_400_000..12_600_000).contains(&rate), "12.5 MB/s leave, measured {rate}");
        assert!((31_000..32_000).contains(&port.queue_limit()), "{}", port.queue_limit());
    }

    #[test]
    fn a_port_that_never_waits_has_no_rate() {
        let mut port = port();
        for round in 0..10 {
            port.handle_sent(1_000_000);
            port.handle_queue(Instant::from_nanos(round * 400_000), 0);
        }
        assert_eq!(port.rate(), None);
        assert_eq!(port.queue_limit(), UNPROVEN.1);
        assert_eq!(port.departed(), 10_000_000);
    }
}
