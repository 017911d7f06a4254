//! Seals cells on the way out and opens them on the way in, where the bundle has a group key.
//!
//! Between [`crate::send::transmit`] and the links, and between the links and [`crate::bundle`]. The ring keeps cells in the
//! clear, for a cell that is sent again gets another number. So sealing is also the copy from the ring to a buffer that stays
//! in the processor's cache, from which a batch leaves in one piece. Cells are opened where the kernel put them. The tag
//! covers the header and the payload; the nonce is the link and the link's full number, which no key sees twice.
//!
//! Invariants: a secured bundle sends nothing to a peer but sealed cells; nothing of a cell counts before it is opened.

use crate::outputs::counters::Counters;
use crate::security::{Number, TAG};
use crate::session::Sessions;
use crate::session::keyring::Refused;
use crate::time::Instant;
use crate::wire::Malformed;
use crate::wire::cell::{HEADER, Header};

/// Bytes of the buffer in which batches are sealed.
pub(crate) const SEALED_MAX: usize = 65_536;

impl Sessions {
    /// Bytes that sealing adds to each cell.
    pub(crate) fn tag(&self) -> usize {
        if self.is_sealing() { TAG } else { 0 }
    }

    pub(crate) fn is_sealing(&self) -> bool {
        self.security.is_some()
    }

    /// Whether cells may be sent to a peer: not while they must be sealed and there is no key.
    pub(crate) fn may_send(&self, index: u16) -> bool {
        !self.is_sealing() || self.table.get(index).is_some_and(|session| session.keys.is_some())
    }

    /// Seals cells, whose headers are written, into one piece; the first has the number `seq` of a link.
    pub(crate) fn seal_run<'a>(
        &mut self,
        index: u16,
        link: u8,
        mut seq: u64,
        cells: impl Iterator<Item = &'a [u8]>,
    ) {
        let keys = self.table.get_mut(index).and_then(|session| session.keys.as_mut());
        let Some(keys) = keys else { return };
        let mut rest = &mut self.sealed[..];
        for cell in cells {
            let (header, payload) = cell.split_at(HEADER);
            let (cell, behind) = rest.split_at_mut(HEADER + payload.len() + TAG);
            cell[..HEADER].copy_from_slice(header);
            keys.seal(Number { link, seq }, header, payload, &mut cell[HEADER..]);
            (rest, seq) = (behind, seq + 1);
        }
    }

    /// The first bytes of the batch that was sealed last.
    pub(crate) fn sealed(&self, bytes: usize) -> &[u8] {
        &self.sealed[..bytes]
    }

    /// Seals the message of `length` bytes at the start of `message`, which has this number of its link. Returns how long it
    /// is now.
    pub(crate) fn seal_control(
        &mut self,
        index: u16,
        number: Number,
        message: &mut [u8],
        length: usize,
    ) -> usize {
        let keys = self.table.get_mut(index).and_then(|session| session.keys.as_mut());
        let Some(keys) = keys else { return length };
        let (header, rest) = message.split_at_mut(HEADER);
        let payload = &mut self.sealed[..length - HEADER];
        payload.copy_from_slice(&rest[..length - HEADER]);
        keys.seal(number, header, payload, &mut rest[..length - HEADER + TAG]);
        length + TAG
    }

    /// Opens a cell of a session in place; returns how long its tag is. `seq`: its link's full number. `None`: the cell is
    /// not authentic, was received before, or is of another session.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        index: u16,
        header: &Header,
        seq: Option<u64>,
        cell: &mut [u8],
        counters: &mut Counters,
    ) -> Result<Option<u16>, Malformed> {
        let is_open = !self.is_sealing() && header.epoch == 0;
        let Some(session) = self.table.get_mut(index) else { return Ok(None) };
        let Some(keys) = &mut session.keys else {
            return is_open.then_some(Some(0)).ok_or(Malformed::Field);
        };
        let Some(seq) = seq else {
            counters.drop_session += 1;
            return Ok(None);
        };
        let number = Number { link: header.link, seq };
        let (head, sealed) = cell.split_at_mut(HEADER);
        let opened = keys.open(now, header.epoch, number, head, sealed);
        session.beyond = match opened {
            Ok(()) => 0,
            Err(_) => session.beyond.saturating_add(keys.is_beyond(header.epoch).into()),
        };
        match opened {
            #[expect(clippy::cast_possible_truncation, reason = "TAG is 16")]
            Ok(()) => return Ok(Some(TAG as u16)),
            Err(Refused::Replayed) => counters.drop_replayed += 1,
            Err(Refused::Forged) => counters.drop_forged += 1,
        }
        Ok(None)
    }
}
