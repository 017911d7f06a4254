//! Cells that a link lost go again over another: asked for by number, or because their link is dead.
//!
//! Beside [`crate::send::transmit`] and [`crate::receive::deliver`]. The receiver asks at once, for a gap in a link's numbers is a loss, and asks
//! over two links, for links that lose cells lose requests. The sender finds the cell in its ring and sends it before
//! anything new. What was on a link that is found dead goes again without being asked for. A cell is sent again once
//! per loss of it, and the repairs for a peer stay within a budget (an eighth of what is sent to it, and one ring at
//! once), so that real congestion still reaches TCP, and no peer has others wait for what it asks for. A repair that
//! has waited longer than a receiver waits for a gap is forgotten: behind a fast link's loss a slow one would carry
//! nothing else for long.

use crate::link::outbound::LOG;
use crate::link::{Links, Lost};
use crate::outputs::counters::Counters;
use crate::receive::reorder_timeout;
use crate::send::{Around, Sender};
use crate::time::Instant;
use crate::wire::repair::Request;
use core::ops::Range;

const EIGHTHS: u32 = 8;
/// The most cells that can be saved up: what a dead link can hold at 10 Gbit/s in 5 ms.
const BURST: u32 = 4_096;
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    pub(super) slot: u64,
    /// When it is no longer worth it.
    until: Instant,
}

/// What may still be sent again to a peer.
#[derive(Debug, Default)]
pub(super) struct Budget {
    eighths: u32,
    /// Cells that were sent for the first time, as far as they count in full, up to [`BURST`].
    sent: u32,
}

impl Budget {
    /// So many cells were sent for the first time. All of the first ones may be on a link that dies before anything is saved
    /// up; of the others an eighth may be sent again.
    pub(super) fn earn(&mut self, cells: usize) {
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

impl Sender {
    /// A peer asks for cells. Returns how many numbers were looked up: no more than one link's log holds, whatever the
    /// request names.
    pub(crate) fn handle_request(&mut self, index: u16, request: &Request, around: &mut Around<'_>) -> u64 {
        let mut left = LOG as u64;
        for gap in request.gaps() {
            let outbound = around.links.paths(index).map(|paths| &paths.outbound);
            let Some(path) = outbound.and_then(|paths| paths.get(usize::from(gap.link))) else { continue };
            let Some(first) = crate::wire::cell::unwrap_seq(gap.first, path.numbers.next()) else { continue };
            left -= self.send_again(index, gap.link, first..first + u64::from(gap.count), left, around);
        }
        LOG as u64 - left
    }

    /// What may be lost on links that were left goes over the others. Returns how many numbers were looked up.
    pub(crate) fn send_lost_again(&mut self, around: &mut Around<'_>) -> u64 {
        let mut looked_up = 0;
        for Lost { peer, link, numbers } in around.links.take_lost() {
            looked_up += self.send_again(peer, link, numbers, LOG as u64, around);
        }
        looked_up
    }

    /// Queues what went out under these numbers of a link, at most `most` of them, to be sent again. Returns how many were
    /// looked up.
    fn send_again(
        &mut self,
        index: u16,
        link: u8,
        numbers: Range<u64>,
        most: u64,
        around: &mut Around<'_>,
    ) -> u64 {
        let Around { links, counters, now, .. } = around;
        let Some(path) = Links::paths_mut(links, index).map(|paths| &mut paths.outbound[link]) else {
            return 0;
        };
        let Some(peer) = self.peers.get_mut(index) else { return 0 };
        let numbers = path.numbers.remembered(numbers, most);
        let looked_up = numbers.end - numbers.start;
        for slot in numbers.filter_map(|seq| path.numbers.take_for_repair(seq)) {
            let kept = self.ring.keeps(slot) && self.ring.cell(slot).peer == index;
            if kept && self.ring.lose_copy(slot) {
                continue;
            }
            if kept && peer.repairs.spend() {
                self.departing.again.push_back(Repair { slot, until: *now + reorder_timeout::LONGEST });
            } else {
                counters.repair_declined += 1;
            }
        }
        looked_up
    }

    /// Forgets repairs that come too late.
    pub(crate) fn forget_repairs(&mut self, now: Instant, counters: &mut Counters) {
        for repairs in [&mut self.departing.again, &mut self.departing.parked.again] {
            let before = repairs.len();
            repairs.retain(|repair| repair.until > now);
            counters.repair_declined += (before - repairs.len()) as u64;
        }
    }
}
