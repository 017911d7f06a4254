//! The receive ring: received packets, in one frame each or several.

use rustix::net::xdp::{XdpDesc, XdpDescOptions};

use super::ring::Ring;

/// Most pieces of one packet: the kernel's bound is 18.
pub(super) const PIECES: usize = 20;

/// This side takes.
#[derive(Debug)]
pub(super) struct ReceiveRing(pub(super) Ring<XdpDesc>);

impl ReceiveRing {
    /// The pieces of the oldest packet, and their number; `None` when none has come whole.
    pub(super) fn first(&self) -> Option<([XdpDesc; PIECES], usize)> {
        let mut pieces = [XdpDesc { addr: 0, len: 0, options: XdpDescOptions::empty() }; PIECES];
        let waiting = self.0.waiting();
        for (before, piece) in (0..waiting).zip(&mut pieces) {
            *piece = self.0.peek(before);
            if !piece.options.contains(XdpDescOptions::XDP_PKT_CONTD) {
                return Some((pieces, before as usize + 1));
            }
        }
        // A packet of more pieces than the kernel allows: each is then taken for a packet.
        (waiting as usize >= PIECES).then_some((pieces, PIECES))
    }

    /// Gives the places of so many pieces back.
    pub(super) fn take(&mut self, pieces: usize) {
        self.0.take(u32::try_from(pieces).unwrap_or_default());
    }
}
