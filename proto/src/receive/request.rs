//! Repair requests: the receiver asks for cells that links have lost, by their numbers.
//!
//! Beside the path. A gap in a path's numbers is a loss, so the receiver asks at once, and over two links, for links that lose
//! cells lose requests. The other side: `send::repair`.

use crate::link::Links;
use crate::link::nic::Link;
use crate::link::outbound::Outbound;
use crate::outputs::{Control, Outbox, Written};
use crate::receive::Receiver;
use crate::receive::lanes::Lanes;
use crate::receive::reorder_timeout;
use crate::security::Number;
use crate::session::Sessions;
use crate::time::Instant;
use crate::wire::cell::{HEADER, Header, Kind, LINKS, wire_seq};
use crate::wire::repair::{Gap, Request};
use core::ops::Range;

impl Lanes {
    /// Drops the request if no lane waits for its cells any more: no link was up, or all were full.
    fn forget_missing(&mut self, now: Instant) {
        if now >= self.missing_until {
            self.missing = Request::default();
        }
    }
}

impl Receiver {
    /// Numbers of a peer's link are missing: queues a request for them.
    pub(crate) fn miss(
        &mut self,
        now: Instant,
        index: u16,
        link: u8,
        missing: Range<u64>,
        outbox: &mut Outbox,
    ) {
        if !self.repair {
            return;
        }
        let Some(lanes) = self.peers.get_mut(index) else { return };
        lanes.forget_missing(now);
        if lanes.missing.gaps().is_empty() {
            lanes.missing_until = now + reorder_timeout::LONGEST;
        }
        let count = u16::try_from(missing.end - missing.start).unwrap_or(u16::MAX);
        lanes.missing.push(Gap { link, count, first: wire_seq(missing.start) });
        outbox.ask_repair(index);
    }

    /// Asks for cells that a link of these peers holds while a lane waits: a router whose rate has fallen may take seconds for them, and
    /// another link brings them sooner. The originals are dropped as duplicates.
    pub(crate) fn ask_for_held(
        &mut self,
        now: Instant,
        peers: &[u16],
        links: &mut Links,
        outbox: &mut Outbox,
    ) {
        for index in peers.iter().copied() {
            if !self.repair || !self.get(index).is_some_and(Lanes::has_gaps) {
                continue;
            }
            for link in (0..).take(LINKS) {
                let held = links.paths_mut(index).and_then(|paths| paths.take_held(now, link));
                if let Some(held) = held {
                    self.miss(now, index, link, held, outbox);
                }
            }
        }
    }

    /// A link takes cells again: queues the request that found no room.
    pub(crate) fn catch_up(&mut self, index: u16, outbox: &mut Outbox) {
        if self.get(index).is_some_and(|lanes| !lanes.missing.gaps().is_empty()) {
            outbox.ask_repair(index);
        }
    }

    /// A request did not leave: the next one names its gaps again, over a link that has room, or later.
    pub(crate) fn take_back_request(&mut self, index: u16) {
        if let Some(lanes) = self.peers.get_mut(index) {
            lanes.missing = lanes.requested;
        }
    }

    /// Writes a request. A lost one would not be repeated, so it goes twice, over two links where there are two, rather over those
    /// that are not drained. If all links that are up are full, it goes when one of them takes cells again.
    pub(crate) fn write_request(
        &mut self,
        now: Instant,
        (index, after): (u16, Option<u8>),
        links: &mut Links,
        sessions: &mut Sessions,
        outbox: &mut Outbox,
    ) -> Option<Written> {
        let lanes = self.peers.get_mut(index)?;
        lanes.forget_missing(now);
        if lanes.missing.gaps().is_empty() {
            return None;
        }
        let paths = links.paths(index)?.outbound.iter().zip(links.by_number()).zip(0u8..);
        let up = paths.filter(|((path, link), _)| path.is_up() && path.end.endpoint.is_some() && !link.full);
        let rank = |path: &Outbound, link: &Link| (path.is_drained(&link.settings), link.queue.queued());
        let shortest = up.min_by_key(|((path, link), number)| (Some(*number) == after, rank(path, link)));
        let (_, link) = shortest?;
        let request = if after.is_none() {
            outbox.push_first(Control::Repair { peer: index, after: Some(link) });
            lanes.missing
        } else {
            lanes.requested = core::mem::take(&mut lanes.missing);
            lanes.requested
        };
        let path = &mut links.paths_mut(index)?.outbound[link];
        let (seq, to) = (path.numbers.take(None), path.end.endpoint);
        let peer = sessions.table().get(index)?;
        let (session, epoch) = (peer.session_out, peer.epoch());
        let space = outbox.space();
        Header { epoch, ..Header::new(Kind::Repair, link, session, seq) }.emit(space);
        let length = HEADER + request.emit(&mut space[HEADER..]);
        let length = sessions.seal_control(index, Number { link, seq }, space, length);
        Some(Written { link, to, length, numbered: Some(index) })
    }
}
