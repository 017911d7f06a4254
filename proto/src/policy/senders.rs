//! The table of senders behind `tlb` and `tlb-history`: how much each sends and receives, and over which link.
//!
//! A sender is a flow, or several whose hashes share one of [`SENDERS`] entries and move together. So the table is bounded
//! (Linux's balance-tlb has 256 entries).
//!
//! Programs in the kernel have the same entries, by a hash of their own. They give a sender that comes a link ([`Senders::deal`]) and count
//! for it; what the policy decides afterwards, they carry out ([`Senders::moves`]).

use super::Choice;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec;
use core::array;
use core::time::Duration;

/// Entries of the table.
pub const SENDERS: u32 = 1_024;
/// Senders that are still to come and have a link ahead, for programs.
pub const NEWCOMERS: usize = 16;
/// Associations are renewed this often (P0).
pub(super) const PERIOD: Duration = Duration::from_secs(10);

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
    /// The peer to which it sends by programs, and the link that it has there.
    by_programs: Option<(u16, u8)>,
    /// Bytes that programs have counted, once they did.
    carried: Option<[u64; 2]>,
}

impl Sender {
    /// The peer to which it sends by programs.
    pub(super) fn peer(&self) -> Option<u16> {
        self.by_programs.map(|(peer, _)| peer)
    }
}

/// What programs know of a sender that has a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Index of a peer to which it sends.
    pub(crate) peer: u16,
    pub(crate) link: u8,
    /// Bytes that it has sent and received.
    pub(crate) carried: [u64; 2],
}

pub(crate) struct Senders {
    table: Box<[Sender]>,
    /// When this period began, once there was one.
    began: Option<Instant>,
    /// How many newcomers programs have given a link.
    newcomers: u64,
}

impl Default for Senders {
    fn default() -> Self {
        Self {
            table: vec![Sender::default(); SENDERS as usize].into_boxed_slice(),
            began: None,
            newcomers: 0,
        }
    }
}

impl Senders {
    pub(super) fn of(&mut self, flow: u32) -> &mut Sender {
        &mut self.table[(flow % SENDERS) as usize]
    }

    /// Which of the choices a flow's sender is associated with.
    pub(super) fn seat(&mut self, flow: u32, choices: &[Choice]) -> Option<usize> {
        let link = self.of(flow).link?;
        choices.iter().position(|choice| choice.link == link)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Sender> {
        self.table.iter_mut()
    }

    pub(super) fn handle_sent(&mut self, flow: u32, bytes: u64) {
        self.of(flow).counted[0] += bytes;
    }

    pub(super) fn handle_received(&mut self, flow: u32, bytes: u64) {
        self.of(flow).counted[1] += bytes;
    }

    pub(super) fn handle_newcomers(&mut self, newcomers: u64) {
        self.newcomers = newcomers;
    }

    /// Programs know this of a sender. Returns what it sent and received since the last time, and its link if that is another one.
    pub(super) fn handle_seen(&mut self, flow: u32, seen: &Seen) -> ([u64; 2], Option<u8>) {
        let sender = self.of(flow);
        let before = sender.carried.replace(seen.carried).unwrap_or(seen.carried);
        let more = array::from_fn(|way| seen.carried[way].saturating_sub(before[way]));
        let now = Some((seen.peer, seen.link));
        let known = core::mem::replace(&mut sender.by_programs, now);
        (more, now.filter(|(_, link)| known.is_none_or(|(_, known)| known != *link)).map(|(_, link)| link))
    }

    /// Links for the next newcomers, as programs have them: each at its place.
    pub(super) fn deal(&self, next: impl FnMut(usize) -> u8) -> [u8; NEWCOMERS] {
        let mut links = array::from_fn(next);
        links.rotate_right(usize::try_from(self.newcomers % NEWCOMERS as u64).unwrap_or(0));
        links
    }

    /// Senders that have another link than programs know of, or none: number, peer and link.
    pub(super) fn moves(&mut self) -> impl Iterator<Item = (u32, Option<(u16, u8)>)> {
        (0..).zip(&mut self.table).filter_map(|(flow, sender)| {
            let (peer, known) = sender.by_programs?;
            let now = sender.link.map(|link| (peer, link));
            let has_moved = sender.link != Some(known);
            sender.by_programs = now;
            has_moved.then_some((flow, now))
        })
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
    use std::vec::Vec;

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

    #[test]
    fn what_programs_had_counted_before_they_were_asked_is_of_no_period() {
        let mut senders = Senders::default();
        let seen = |carried, link| Seen { peer: 3, link, carried };
        assert_eq!(senders.handle_seen(7, &seen([500, 50], 1)), ([0, 0], Some(1)));
        assert_eq!(senders.handle_seen(7, &seen([700, 60], 1)), ([200, 10], None));
        assert_eq!(senders.handle_seen(7, &seen([700, 60], 0)), ([0, 0], Some(0)));
    }

    #[test]
    fn programs_are_told_of_moves_once() {
        let mut senders = Senders::default();
        senders.handle_seen(7, &Seen { peer: 3, link: 1, carried: [0; 2] });
        senders.of(7).link = Some(1);
        senders.of(8).link = Some(1);
        assert_eq!(senders.moves().count(), 0, "one is where it was, and one sends in cells");
        senders.of(7).link = Some(2);
        assert_eq!(senders.moves().collect::<Vec<_>>(), [(7, Some((3, 2)))]);
        assert_eq!(senders.moves().count(), 0);
        senders.of(7).link = None;
        assert_eq!(senders.moves().collect::<Vec<_>>(), [(7, None)]);
        assert_eq!(senders.moves().count(), 0);
    }

    #[test]
    fn newcomers_take_links_by_how_many_there_were_before() {
        let mut senders = Senders::default();
        senders.handle_newcomers(NEWCOMERS as u64 * 5 + 2);
        let links = senders.deal(|place| u8::try_from(place).unwrap());
        assert_eq!((links[2], links[3], links[1]), (0, 1, 15));
    }
}
