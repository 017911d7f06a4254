//! Coalesces cells into receive buffers, as GRO does for UDP: one buffer takes cells of one sender and one length, and
//! as the last one perhaps a shorter one.

use std::net::SocketAddr;

use crate::link::ReceiveBuffer;

/// The most cells in one buffer, as with UDP.
const CELLS_MAX: usize = 128;

/// Buffers that are being filled.
pub(super) struct Coalescer<'a, 'b> {
    buffers: &'a mut [ReceiveBuffer<'b>],
    /// Buffers in use; the last of them may take more.
    filled: usize,
}

impl<'a, 'b> Coalescer<'a, 'b> {
    pub(super) fn new(buffers: &'a mut [ReceiveBuffer<'b>]) -> Self {
        Self { buffers, filled: 0 }
    }

    /// Buffers in use.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Takes a cell of `length` bytes, which `copy` writes; `false`: there is no room for it, and nothing was written.
    pub(super) fn push(&mut self, from: SocketAddr, length: usize, copy: impl FnOnce(&mut [u8])) -> bool {
        if let Some(last) = self.filled.checked_sub(1).map(|last| &mut self.buffers[last])
            && takes(last, from, length)
        {
            copy(&mut last.bytes[last.len..last.len + length]);
            last.len += length;
            return true;
        }
        let Some(next) = self.buffers.get_mut(self.filled).filter(|next| next.bytes.len() >= length) else {
            return false;
        };
        copy(&mut next.bytes[..length]);
        (next.len, next.segment, next.from) = (length, length, from);
        self.filled += 1;
        true
    }
}

/// Whether a cell may follow those that are there: none of them is shorter than the first.
fn takes(buffer: &ReceiveBuffer<'_>, from: SocketAddr, length: usize) -> bool {
    let whole = buffer.len.is_multiple_of(buffer.segment);
    let fits = length <= buffer.segment && buffer.len + length <= buffer.bytes.len();
    whole && fits && buffer.from == from && buffer.len / buffer.segment < CELLS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coalesces these cells into `room`; gives the buffers' cells, and whether each was taken.
    fn coalesced(room: &mut [[u8; 10]], cells: &[(u16, &str)]) -> (Vec<Vec<String>>, Vec<bool>) {
        let mut buffers: Vec<ReceiveBuffer<'_>> = room.iter_mut().map(|b| ReceiveBuffer::new(b)).collect();
        let mut coalescer = Coalescer::new(&mut buffers);
        let taken = cells.iter().map(|(port, cell)| {
            let from = SocketAddr::from(([127, 0, 0, 1], *port));
            coalescer.push(from, cell.len(), |bytes| bytes.copy_from_slice(cell.as_bytes()))
        });
        let (taken, filled) = (taken.collect(), coalescer.filled());
        let text = |cell: &[u8]| String::from_utf8_lossy(cell).into_owned();
        (buffers[..filled].iter().map(|b| b.datagrams().map(text).collect()).collect(), taken)
    }

    #[test]
    fn cells_of_one_length_and_sender_share_a_buffer() {
        let cells = [(1, "aaa"), (1, "bbb"), (1, "c"), (1, "ddd"), (2, "eee"), (2, "ffff")];
        let (buffers, taken) = coalesced(&mut [[0; 10]; 4], &cells);
        assert_eq!(buffers, [vec!["aaa", "bbb", "c"], vec!["ddd"], vec!["eee"], vec!["ffff"]]);
        assert_eq!(taken, [true; 6]);
    }

    #[test]
    fn what_finds_no_room_is_left() {
        let (buffers, taken) =
            coalesced(&mut [[0; 10]; 1], &[(1, "aaaa"), (1, "bbbb"), (1, "cccc"), (2, "d")]);
        assert_eq!(buffers, [vec!["aaaa", "bbbb"]]);
        assert_eq!(taken, [true, true, false, false]);
    }
}
