//! The table of senders behind `tlb` and `tlb-history`: how much each sends and receives, and over which link.
//!
//! A sender is a flow, or several whose hashes share one of [`SENDERS`] entries and move together. So the table is bounded
//! (Linux's balance-tlb has 256 entries).

use super::Choice;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec;
use core::time::Duration;

/// Entries of the table.
const SENDERS: usize = 1_024;
/// Associations are renewed this often (P0).
pub(super) const PERIOD: Duration = Duration::from_secs(10);

/// A sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sender {
    /// The link that it is associated with.
    pub(super) link: Option<u8>,
    /// Bytes per second that it sent and received in the last period.
    pub(super) sent: u64,
    pub(super) received: u64,
    /// It could send all that it wanted then, as far as `tlb-history` can tell.
    pub(super) is_content: bool,
    /// Over which link it was received, as long as it has none of its own.
    pub(super) came_by: Option<u8>,
    /// Bytes that it sent and received in this period.
    counted: [u64; 2],
}

/// All senders.
#[derive(Debug)]
pub(super) struct Senders {
    table: Box<[Sender]>,
    /// When this period began, once there was one.
    began: Option<Instant>,
}

impl Default for Senders {
    fn default() -> Self {
        Self { table: vec![Sender::default(); SENDERS].into_boxed_slice(), began: None }
    }
}

impl Senders {
    /// The sender of a flow.
    pub(super) fn of(&mut self, flow: u32) -> &mut Sender {
        &mut self.table[flow as usize % SENDERS]
    }

    /// Which of the choices a flow's sender is associated with.
    pub(super) fn seat(&mut self, flow: u32, choices: &[Choice]) -> Option<usize> {
        let link = self.of(flow).link?;
        choices.iter().position(|choice| choice.link == link)
    }

    /// All senders.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Sender> {
        self.table.iter_mut()
    }

    /// A sender sent so many bytes.
    pub(super) fn handle_sent(&mut self, flow: u32, bytes: u64) {
        self.of(flow).counted[0] += bytes;
    }

    /// A sender received so many bytes.
    pub(super) fn handle_received(&mut self, flow: u32, bytes: u64) {
        self.of(flow).counted[1] += bytes;
    }

    /// Ends the period when its time has come; returns whether it did.
    pub(super) fn renew(&mut self, now: Instant) -> bool {
        let began = *self.began.get_or_insert(now);
        let periods = now.since(began).as_secs() / PERIOD.as_secs();
        if periods == 0 {
            return false;
        }
        for sender in &mut self.table {
            let counted = core::mem::take(&mut sender.counted);
            let of_period = |bytes: u64| if periods == 1 { bytes.div_ceil(PERIOD.as_secs()) } else { 0 };
            [sender.sent, sender.received] = counted.map(of_period);
        }
        self.began = Some(began + Duration::from_secs(periods * PERIOD.as_secs()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_that_of_the_last_ten_seconds() {
        let mut senders = Senders::default();
        let at = |secs| Instant::default() + Duration::from_secs(secs);
        assert!(!senders.renew(at(5)));
        senders.handle_sent(7, 1_000);
        senders.handle_received(7, 5);
        assert!(!senders.renew(at(14)));
        assert_eq!((senders.of(7).sent, senders.of(7).received), (0, 0));
        assert!(senders.renew(at(15)));
        assert_eq!((senders.of(7).sent, senders.of(7).received), (100, 1), "at least 1 where there was any");
        senders.handle_sent(7, 1_000);
        assert!(senders.renew(at(36)), "sent before the last ten seconds began");
        assert_eq!((senders.of(7).sent, senders.of(7).received), (0, 0));
    }
}
