//! Cells are sealed on the way out and opened on the way in, where the bundle has a group key.
//!
//! Beside [`crate::send::transmit`] and [`crate::receive::deliver`]. The ring keeps what was read, for a cell that is sent again gets another number.
//! So sealing is also the copy from the ring to a buffer that stays in the processor's cache, from which a batch leaves
//! in one piece. What is heard is opened where the kernel put it. The tag covers the header and the payload; the nonce is
//! the link and the link's full number, which no key sees twice.
//!
//! Invariants: a secured bundle sends nothing to a peer but sealed cells; nothing of a cell counts before it is opened.

use crate::bundle::Bundle;
use crate::group::peer::Peer;
use crate::receive::pool::Piece;
use crate::session::keyring::Refused;
use crate::session::security::{Number, TAG};
use crate::time::Instant;
use crate::wire::Malformed;
use crate::wire::cell::{HEADER, Header};

/// Bytes of the buffer in which batches are sealed.
pub(crate) const SEALED_MAX: usize = 65_536;

impl Bundle {
    /// Bytes that sealing adds to each cell.
    pub(crate) fn tag(&self) -> usize {
        if self.security.is_some() { TAG } else { 0 }
    }

    /// Whether cells may be sent to a peer: not as long as they would have to be sealed and there is no key.
    pub(crate) fn may_send(&self, peer: &Peer) -> bool {
        self.security.is_none() || peer.keys.is_some()
    }

    /// Seals the first cells of `run`, whose headers are written, into one piece; the first has the number `seq`.
    pub(crate) fn seal_run(&mut self, index: u16, port: u8, cells: usize, mut seq: u64) {
        let keys = self.peers.get_mut(index).and_then(|peer| peer.keys.as_mut());
        let Some(keys) = keys else { return };
        let mut rest = &mut self.sealed[..];
        for slot in &self.run[..cells] {
            let (header, payload) = self.arena.sent(*slot).split_at(HEADER);
            let (cell, behind) = rest.split_at_mut(HEADER + payload.len() + TAG);
            cell[..HEADER].copy_from_slice(header);
            keys.seal(Number { link: port, seq }, header, payload, &mut cell[HEADER..]);
            (rest, seq) = (behind, seq + 1);
        }
    }

    /// Seals the message of `length` bytes in `control_bytes`, which has the latest number of its link. Returns how long
    /// it is now.
    pub(crate) fn seal_control(&mut self, index: u16, port: u8, length: usize) -> usize {
        let Some(peer) = self.peers.get_mut(index) else { return length };
        let seq = peer.outbound[usize::from(port)].next_seq().wrapping_sub(1);
        let Some(keys) = &mut peer.keys else { return length };
        let (header, rest) = self.control_bytes.split_at_mut(HEADER);
        let payload = &mut self.sealed[..length - HEADER];
        payload.copy_from_slice(&rest[..length - HEADER]);
        keys.seal(Number { link: port, seq }, header, payload, &mut rest[..length - HEADER + TAG]);
        length + TAG
    }

    /// Opens a cell of a session in place; gives it without its tag. `None`: it is not authentic, or was here before.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        index: u16,
        header: &Header,
        cell: Piece,
    ) -> Result<Option<Piece>, Malformed> {
        let Some(peer) = self.peers.get_mut(index) else { return Ok(None) };
        let Some(keys) = &mut peer.keys else {
            let is_open = self.security.is_none() && header.epoch == 0;
            return is_open.then_some(Some(cell)).ok_or(Malformed::Field);
        };
        let Some(seq) = peer.inbound[usize::from(header.link)].unwrap(header.link_seq) else {
            self.counters.drop_session += 1;
            return Ok(None);
        };
        let number = Number { link: header.link, seq };
        let (head, sealed) = self.pool.bytes_mut(cell).split_at_mut(HEADER);
        match keys.open(now, header.epoch, number, head, sealed) {
            #[expect(clippy::cast_possible_truncation, reason = "TAG is 16")]
            Ok(()) => return Ok(Some(Piece { length: cell.length - TAG as u16, ..cell })),
            Err(Refused::Replayed) => self.counters.drop_replayed += 1,
            Err(Refused::Forged) => self.counters.drop_forged += 1,
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
