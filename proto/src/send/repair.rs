//! Cells that a link lost go again over another: asked for by number, or because their link is dead.
//!
//! Beside [`crate::send::transmit`] and [`crate::receive::deliver`]. The receiver asks at once, for a gap in a link's numbers is a loss, and asks
//! over two links, for links that lose cells lose requests. The sender finds the cell in its ring and sends it before
//! anything new. What was on a link that is found dead goes again without being asked for. A cell is sent again once
//! per loss of it, and the repairs for a peer stay within a budget (an eighth of what is sent to it, and one ring at
//! once), so that real congestion still reaches TCP, and no peer has others wait for what it asks for. A repair that
//! has waited longer than a receiver waits for a gap is forgotten: behind a fast link's loss a slow one would carry
//! nothing else for long.

use crate::bundle::Bundle;
use crate::event::{Direction, Event};
use crate::group::peer::Peer;
use crate::link::health::Signal;
use crate::link::heartbeat::Control;
use crate::link::outbound::LOG;
use crate::receive::reorder_timeout;
use crate::time::Instant;
use crate::wire::cell::wire_seq;
use crate::wire::repair::{Gap, Request};
use core::ops::Range;
use core::time::Duration;

/// Eighths of a cell in one cell.
const EIGHTHS: u32 = 8;
/// The most cells that can be saved up: what a dead link can hold at 10 Gbit/s in 5 ms.
const BURST: u32 = 4_096;
/// After an error on our side, the peer's reports are not believed for this long.
const DISTRUST: Duration = Duration::from_millis(100);

/// A cell that is to be sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repair {
    pub(crate) slot: u64,
    /// When it is no longer worth it.
    until: Instant,
}

/// What may still be sent again to a peer.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    eighths: u32,
    /// Cells that were sent for the first time, as far as they count in full, up to [`BURST`].
    sent: u32,
}

impl Budget {
    /// So many cells were sent for the first time. All of the first ones may be on a link that dies before anything is saved
    /// up; of the others an eighth may be sent again.
    pub(crate) fn earn(&mut self, cells: usize) {
        let cells = u32::try_from(cells).unwrap_or(BURST).min(BURST);
        let in_full = cells.min(BURST - self.sent);
        self.sent += in_full;
        self.eighths = (self.eighths + in_full * EIGHTHS + (cells - in_full)).min(BURST * EIGHTHS);
    }

    /// Whether one more cell may be sent again; then it has been paid.
    fn spend(&mut self) -> bool {
        let rest = self.eighths.checked_sub(EIGHTHS);
        self.eighths = rest.unwrap_or(self.eighths);
        rest.is_some()
    }
}

impl Peer {
    /// Forgets what is to be asked for if no lane waits for it any more: no link was up, or all were full.
    pub(crate) fn forget_missing(&mut self, now: Instant) {
        if now >= self.missing_until {
            self.missing = Request::default();
        }
    }
}

impl Bundle {
    /// Numbers of a peer's link are missing: asks for them.
    pub(crate) fn miss(&mut self, now: Instant, index: u16, link: u8, missing: Range<u64>) {
        if !self.settings.repair {
            return;
        }
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.forget_missing(now);
        if peer.missing.gaps().is_empty() {
            peer.missing_until = now + reorder_timeout::LONGEST;
        }
        let count = u16::try_from(missing.end - missing.start).unwrap_or(u16::MAX);
        peer.missing.push(Gap { link, count, first: wire_seq(missing.start) });
        self.request_repair(index);
    }

    /// Queues a request for what a peer's links have lost, unless one waits already.
    pub(crate) fn request_repair(&mut self, index: u16) {
        let waits = |control: &Control| matches!(control, Control::Repair { peer, .. } if *peer == index);
        if !self.control.iter().any(waits) {
            self.control.push_back(Control::Repair { peer: index, after: None });
        }
    }

    /// A peer asks for cells. Returns how many numbers were looked up: no more than one link's log holds, whatever the
    /// request names.
    pub(crate) fn handle_request(&mut self, index: u16, request: &Request) -> u64 {
        let mut left = LOG as u64;
        for gap in request.gaps() {
            let Some(link) = self.peers.get(index).and_then(|peer| peer.outbound.get(usize::from(gap.link)))
            else {
                continue;
            };
            let Some(first) = crate::wire::cell::unwrap_seq(gap.first, link.next_seq()) else { continue };
            left -= self.send_again(index, gap.link, first..first + u64::from(gap.count), left);
        }
        LOG as u64 - left
    }

    /// A link is not to be used any more: what may be lost on it goes over the others. Returns how many numbers were looked
    /// up: none twice, however often a link is left.
    pub(crate) fn leave_link(&mut self, now: Instant, index: u16, port: u8, signal: Signal) -> u64 {
        let Some(peer) = self.peers.get_mut(index) else { return 0 };
        let node = peer.node;
        let link = &mut peer.outbound[usize::from(port)];
        if signal != Signal::Report {
            link.obey_reports_from = now + DISTRUST;
        }
        let was_up = core::mem::replace(&mut link.up, false);
        link.doubted = signal.is_doubt() && (was_up || link.doubted);
        if !was_up {
            return 0;
        }
        let unheard = link.take_unheard();
        peer.beat_at_once(now);
        self.log(Event::LinkDown { peer: node, link: port, direction: Direction::Sending, signal });
        if self.settings.repair { self.send_again(index, port, unheard, LOG as u64) } else { 0 }
    }

    /// Queues what went out under these numbers of a link, at most `most` of them, to be sent again. Returns how many were
    /// looked up.
    fn send_again(&mut self, index: u16, port: u8, numbers: Range<u64>, most: u64) -> u64 {
        let Some(peer) = self.peers.get_mut(index) else { return 0 };
        let Peer { outbound, repairs, .. } = peer;
        let link = &mut outbound[usize::from(port)];
        let numbers = link.remembered(numbers, most);
        let looked_up = numbers.end - numbers.start;
        for slot in numbers.filter_map(|seq| link.take_for_repair(seq)) {
            let kept = self.arena.keeps(slot) && self.arena.cell(slot).peer == index;
            if kept && self.arena.lose_copy(slot) {
                continue;
            }
            if kept && repairs.spend() {
                self.resend.push_back(Repair { slot, until: self.polled + reorder_timeout::LONGEST });
            } else {
                self.counters.repair_declined += 1;
            }
        }
        looked_up
    }

    /// Forgets repairs that come too late.
    pub(crate) fn forget_repairs(&mut self, now: Instant) {
        for repairs in [&mut self.resend, &mut self.stalled.repairs] {
            let before = repairs.len();
            repairs.retain(|repair| repair.until > now);
            self.counters.repair_declined += (before - repairs.len()) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Settings;
    use crate::link::nic::PortSettings;
    use crate::wire::hello::{Hello, NodeId};
    use alloc::vec;

    #[test]
    fn a_request_costs_no_more_than_the_log_holds() {
        let settings =
            Settings::new(NodeId::new([2, 0, 0, 0, 0, 1], 7420), 1, vec![PortSettings::new(1_452)]);
        let mut bundle = Bundle::new(Instant::default(), settings);
        let node = NodeId::new([2, 0, 0, 0, 0, 2], 7420);
        let hello = Hello { node, incarnation: 5, session: 7, ..bundle.hello(0, None) };
        let from = "192.0.2.2:7420".parse().unwrap();
        bundle.handle_hello(Instant::default(), crate::receive::deliver::Origin { port: 0, from }, &hello);
        let link = &mut bundle.peers.get_mut(0).unwrap().outbound[0];
        for _ in 0..LOG + 9 {
            link.take_seq(None);
        }
        let first = wire_seq(link.next_seq() - 60_000);
        let mut request = Request::default();
        while request.push(Gap { link: 0, count: u16::MAX, first }) {}
        assert_eq!(bundle.handle_request(0, &request), LOG as u64);
    }
}
