//! The receiving direction of one link: what was received under which number, what is missing, how late it comes.
//!
//! Beside [`crate::receive::deliver`]. A link keeps FIFO order, so a number that is skipped is a loss, known with the next cell.
//!
//! The delay is measured without synchronised clocks: a heartbeat's arrival minus its time of sending is the one-way
//! delay plus the difference of the two clocks, and that difference is the same for all links of a peer.

use crate::link::health::Health;
use crate::link::outbound::ESTIMATE_MAX;
use crate::time::Instant;
use crate::wire::cell::unwrap_seq;
use crate::wire::heartbeat::Sent;
use core::ops::Range;
use core::time::Duration;

/// A number that is so far from the expected one belongs to another session: a link that is dead for a week carries 60
/// million heartbeats.
const FAR: u64 = 1 << 26;

#[derive(Debug)]
pub(crate) struct Inbound {
    pub(crate) health: Health,
    /// It is not to be used any more, and still brings what was sent before.
    pub(crate) lingers: bool,
    pub(crate) received: u64,
    /// Bytes of its data cells, headers included.
    pub(crate) bytes: u64,
    /// What programs received, counted in cells.
    pub(crate) carried: u64,
    pub(crate) missed: u64,
    /// The number after the highest that was received.
    next_seq: u64,
    /// `sent_at` of the last heartbeat, and when it came.
    last_heartbeat: Option<(u32, Instant)>,
    /// Arrival minus sending, in microseconds modulo 2^32, smoothed towards the recent minimum.
    delay: Option<u32>,
    /// That of the last heartbeat.
    last_delay: u32,
    /// How many came, modulo 256.
    heartbeats: u8,
    /// The link number of the latest probe.
    probed: Option<u32>,
}

impl Inbound {
    /// A link whose numbers count from `first`.
    pub(crate) fn new(now: Instant, first: u64) -> Self {
        Self {
            health: Health::new(now),
            lingers: false,
            received: 0,
            bytes: 0,
            carried: 0,
            missed: 0,
            next_seq: first,
            last_heartbeat: None,
            delay: None,
            last_delay: 0,
            heartbeats: 0,
            probed: None,
        }
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The full number of a cell with this number; `None` when it is of another session.
    pub(crate) fn unwrap(&self, seq: u32) -> Option<u64> {
        unwrap_seq(seq, self.next_seq).filter(|seq| seq.abs_diff(self.next_seq) < FAR)
    }

    /// A cell with this number came; returns the numbers that it shows to be missing, `None` when the cell is of another
    /// session.
    pub(crate) fn handle_seq(&mut self, seq: u32) -> Option<Range<u64>> {
        let seq = self.unwrap(seq)?;
        self.received += 1;
        let missing = self.next_seq.min(seq)..seq;
        self.next_seq = self.next_seq.max(seq + 1);
        let skipped = missing.end - missing.start;
        self.missed += skipped;
        self.health.watch.handle_skipped(skipped);
        Some(missing)
    }

    /// A probe came, a long heartbeat: what it took says nothing about the short ones.
    pub(crate) fn handle_probe(&mut self, seq: u32) {
        self.probed = Some(seq);
    }

    pub(crate) fn probed(&self) -> Option<u32> {
        self.probed
    }

    pub(crate) fn handle_heartbeat(&mut self, now: Instant, sent_at: u32) {
        self.last_heartbeat = Some((sent_at, now));
        let sample = now.as_wire_micros().wrapping_sub(sent_at);
        (self.last_delay, self.heartbeats) = (sample, self.heartbeats.wrapping_add(1));
        // A link that comes back may have another delay for good.
        self.delay = Some(self.delay.filter(|_| self.health.is_up()).map_or(sample, |old| {
            let later = sample.wrapping_sub(old).cast_signed();
            if later < 0 { sample } else { old.wrapping_add_signed(later / 8) }
        }));
    }

    /// A heartbeat on some link told what has left the sender on this one. A number of another session tells nothing.
    pub(crate) fn handle_departed(&mut self, now: Instant, sent: Sent) {
        if let Some(departed) = self.unwrap(sent.departed) {
            self.health.handle_departed(now, departed, sent.queued, self.next_seq);
        }
    }

    /// `sent_at` of the last heartbeat and how long ago it came.
    pub(crate) fn echo(&self, now: Instant) -> Option<(u32, Duration)> {
        self.last_heartbeat.map(|(sent_at, received)| (sent_at, now.since(received)))
    }

    /// How much later than on `fastest` a cell arrives here, at most [`ESTIMATE_MAX`]: the peer says when it sent.
    pub(crate) fn skew(&self, fastest: Option<u32>) -> Duration {
        let (Some(delay), Some(fastest)) = (self.delay, fastest) else { return Duration::ZERO };
        let micros = delay.wrapping_sub(fastest).cast_signed().max(0).cast_unsigned();
        Duration::from_micros(u64::from(micros)).min(ESTIMATE_MAX)
    }

    /// Arrival minus sending of the last heartbeat, unsmoothed.
    pub(crate) fn last_delay(&self) -> u32 {
        self.last_delay
    }

    pub(crate) fn heartbeats(&self) -> u8 {
        self.heartbeats
    }

    /// Arrival minus sending; only differences between links of one peer mean anything.
    pub(crate) fn delay(&self) -> Option<u32> {
        self.delay
    }
}

/// The smaller of two delays, whose common offset may wrap.
pub(crate) fn faster(one: u32, other: u32) -> u32 {
    if one.wrapping_sub(other).cast_signed() < 0 { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_number_is_a_loss_and_a_late_one_is_not() {
        let mut path = Inbound::new(Instant::default(), 0);
        assert_eq!(path.handle_seq(0), Some(0..0));
        assert_eq!(path.handle_seq(3), Some(1..3));
        assert_eq!(path.handle_seq(2), Some(2..2));
        assert_eq!(path.handle_seq(u32::MAX), None, "before the first");
        assert_eq!(path.handle_seq(1 << 30), None, "of another session");
        assert_eq!((path.received, path.missed, path.next_seq()), (3, 2, 4));
    }

    #[test]
    fn skew_is_measured_whatever_the_clocks_say() {
        let mut near = Inbound::new(Instant::default(), 0);
        let mut far = Inbound::new(Instant::default(), 0);
        let now = Instant::from_nanos(5_000_000);
        near.handle_heartbeat(now, u32::MAX - 100);
        far.handle_heartbeat(now + Duration::from_micros(700), u32::MAX - 100);
        let fastest = faster(near.delay().unwrap(), far.delay().unwrap());
        assert_eq!(near.skew(Some(fastest)), Duration::ZERO);
        assert_eq!(far.skew(Some(fastest)), Duration::from_micros(700));
    }

    #[test]
    fn no_peer_makes_its_links_further_apart_than_any_are() {
        let (mut near, mut far) = (Inbound::new(Instant::default(), 0), Inbound::new(Instant::default(), 0));
        let now = Instant::from_nanos(5_000_000);
        near.handle_heartbeat(now, 0);
        far.handle_heartbeat(now, 1 << 31 | 1);
        let fastest = faster(near.delay().unwrap(), far.delay().unwrap());
        let skews = [&near, &far].map(|path| path.skew(Some(fastest)));
        assert_eq!(skews.iter().max(), Some(&ESTIMATE_MAX));
    }

    #[test]
    fn cells_of_another_session_are_not_missing() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut path = Inbound::new(at(0), 1 << 32);
        assert!((0..3).any(|_| path.health.handle_cell(at(0), true, true).is_some()), "it rises");
        let lacks = |path: &mut Inbound, departed| {
            let next = path.next_seq();
            path.handle_departed(at(1), Sent { departed, queued: 0 });
            let change = path.health.clone().poll(at(30), next, Duration::ZERO, false, at(30));
            matches!(
                change,
                Some(crate::link::health::Change::Down(crate::outputs::event::Signal::BurstSkew { .. }))
            )
        };
        assert!(!lacks(&mut path, (1 << 31) - 1));
        assert!(lacks(&mut path, 100), "those of its own are");
    }
}
