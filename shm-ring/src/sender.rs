//! One direction of a pair, at the end that writes.
//!
//! The sender keeps its counts to itself and never reads back what it publishes. Of the other side it reads one word,
//! how much it has taken, and uses it only if it is possible.

use core::ops::Deref;

use crate::Memory;
use crate::count::Count;
use crate::receiver::Message;
use crate::shape::{HEAD, Window};

/// Why a message was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// No node reads what this sender writes.
    Absent,
    /// There is no room until the other side takes something.
    Full,
    /// There is no such message: it is empty or too long, or has too many datagrams.
    Misshapen,
}

/// Units by which messages of a single unit may exceed the limit, so that control messages do not wait for data.
const SHORT_EXTRA: usize = 16;

/// Writes messages into a window of the other side.
#[derive(Debug)]
pub struct Sender {
    /// The other side's, which this one writes.
    out: Window,
    /// This node's own, where the other side says what it has taken.
    back: Window,
    epoch: u32,
    /// Units written in this epoch.
    written: u32,
    /// Units of them that the other side has taken, by the last possible value.
    taken: u32,
    /// Whether the other side has confirmed this epoch.
    confirmed: bool,
    /// Bytes that may wait.
    limit: usize,
    /// Impossible words that were read.
    pub(crate) faults: u64,
}

impl Sender {
    /// Begins a new incarnation: what was written before no longer counts. `epoch` is not 0, and not that of the one
    /// before.
    pub fn begin(memory: &impl Memory, out: Window, back: Window, epoch: u32) -> Self {
        debug_assert!(epoch != 0);
        memory.store(out.shape_at(), out.shape().word());
        memory.store(out.written_at(), Count { epoch, units: 0 }.word());
        Self { out, back, epoch, written: 0, taken: 0, confirmed: false, limit: usize::MAX, faults: 0 }
    }

    /// Says that no node writes here any more.
    pub fn end(&mut self, memory: &impl Memory) {
        memory.store(self.out.written_at(), Count::default().word());
        self.confirmed = false;
    }

    /// Reads how much the other side has taken. Says whether it reads what this sender writes.
    pub fn follow(&mut self, memory: &impl Memory) -> bool {
        let said = Count::from_word(memory.load(self.back.taken_at()));
        self.confirmed = said.epoch == self.epoch;
        if self.confirmed {
            let newly = said.units.wrapping_sub(self.taken);
            if newly <= self.waiting() {
                self.taken = said.units;
            } else {
                self.faults += 1;
            }
        }
        self.confirmed
    }

    /// Writes one message, whose datagrams are `segment` bytes long, the last perhaps shorter.
    ///
    /// # Errors
    /// Why it was not written.
    pub fn send<S: Deref<Target = [u8]>>(
        &mut self,
        memory: &impl Memory,
        slices: &[S],
        segment: usize,
    ) -> Result<(), Unsent> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        let message = Message::new(length, segment.min(length)).ok_or(Unsent::Misshapen)?;
        let units = self.out.units_for(length);
        if !self.confirmed || !self.has_room(units) {
            self.follow(memory);
        }
        if !self.confirmed {
            return Err(Unsent::Absent);
        }
        if !self.has_room(units) {
            return Err(Unsent::Full);
        }
        let mut offset = HEAD;
        for slice in slices {
            let mut rest: &[u8] = slice;
            for (at, piece) in self.out.pieces(self.written, offset, slice.len()) {
                let (now, later) = rest.split_at(piece);
                memory.write(at, now);
                rest = later;
            }
            offset += slice.len();
        }
        memory.write(self.out.unit_at(self.written), &message.head());
        self.written = self.written.wrapping_add(units);
        memory.store(self.out.written_at(), Count { epoch: self.epoch, units: self.written }.word());
        Ok(())
    }

    /// Limits the bytes that wait; one message may go beyond it, and some short ones.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Bytes of the units that are written and not taken; never more than the ring has.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting() as usize * self.out.shape().unit()
    }

    /// Units that the other side has taken in this epoch, modulo 2^32.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    fn waiting(&self) -> u32 {
        self.written.wrapping_sub(self.taken)
    }

    fn has_room(&self, units: u32) -> bool {
        let extra = if units == 1 { SHORT_EXTRA * self.out.shape().unit() } else { 0 };
        self.out.shape().units() - self.waiting() >= units
            && self.waiting_bytes() < self.limit.saturating_add(extra)
    }
}
