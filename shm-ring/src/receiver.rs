//! One direction of a pair, at the end that reads.
//!
//! The receiver trusts nothing that it reads: neither how much there is nor how long a message is. When a word is
//! impossible, the messages behind it cannot be found either, so the receiver skips all that is there, and reads the
//! next message from where it begins.

use crate::Memory;
use crate::count::Count;
use crate::shape::{HEAD, MESSAGE_MAX, Window};

/// A message that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Its length, in bytes; at least 1.
    pub length: usize,
    /// Length of each datagram in it but the last, which may be shorter; 1 to `length`.
    pub segment: usize,
}

impl Message {
    /// The most datagrams that one message has.
    pub const DATAGRAMS_MAX: usize = 128;

    /// A message of such a length and segment; `None` when there is no such message.
    pub(crate) fn new(length: usize, segment: usize) -> Option<Self> {
        let possible = (1..=MESSAGE_MAX).contains(&length) && (1..=length).contains(&segment);
        let message = Self { length, segment };
        (possible && length.div_ceil(segment) <= Self::DATAGRAMS_MAX).then_some(message)
    }

    fn from_head(head: [u8; HEAD]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = head;
        let half = |bytes| usize::try_from(u32::from_le_bytes(bytes)).ok();
        Self::new(half([a, b, c, d])?, half([e, f, g, h])?)
    }

    pub(crate) fn head(self) -> [u8; HEAD] {
        (((self.segment as u64) << 32) | self.length as u64).to_le_bytes()
    }
}

/// Takes messages out of this side's window for one sender.
#[derive(Debug)]
pub struct Receiver {
    /// This node's own, which the other side writes.
    window: Window,
    /// The other side's, where this one says what it has taken.
    back: Window,
    /// The incarnation of the sender that is followed; 0 before it was seen.
    epoch: u32,
    taken: u32,
    /// Units that the sender had written when its count was read last.
    seen: u32,
    /// Impossible words that were read.
    pub(crate) faults: u64,
}

impl Receiver {
    /// Begins without a sender: `back` says that nothing is taken, so messages written before are skipped.
    pub fn begin(memory: &impl Memory, window: Window, back: Window) -> Self {
        memory.store(back.taken_at(), Count::default().word());
        Self { window, back, epoch: 0, taken: 0, seen: 0, faults: 0 }
    }

    /// Says that no node reads here any more.
    pub fn end(&mut self, memory: &impl Memory) {
        memory.store(self.back.taken_at(), Count::default().word());
        self.epoch = 0;
    }

    /// Takes the next message, or `None` when there is none: reads the sender's words at most once, and copies once.
    /// `into` holds the longest message; a longer one is a fault.
    pub fn receive(&mut self, memory: &impl Memory, into: &mut [u8]) -> Option<Message> {
        if self.seen == self.taken && !self.refresh(memory) {
            return None;
        }
        let mut head = [0; HEAD];
        memory.read(self.window.unit_at(self.taken), &mut head);
        let there = self.seen.wrapping_sub(self.taken);
        let message = Message::from_head(head)
            .filter(|message| message.length <= into.len() && self.window.units_for(message.length) <= there);
        let Some(message) = message else {
            self.faults += 1;
            self.pass(memory, there);
            return None;
        };
        let Message { length, .. } = message;
        let mut rest = &mut into[..length];
        for (at, piece) in self.window.pieces(self.taken, HEAD, length) {
            let (now, later) = rest.split_at_mut(piece);
            memory.read(at, now);
            rest = later;
        }
        self.pass(memory, self.window.units_for(length));
        Some(message)
    }

    /// Whether [`Self::receive`] may find a message.
    pub fn has_news(&self, memory: &impl Memory) -> bool {
        let said = Count::from_word(memory.load(self.window.written_at()));
        said.epoch != 0 && said != Count { epoch: self.epoch, units: self.taken }
    }

    /// Reads how much there is; says whether there is something.
    fn refresh(&mut self, memory: &impl Memory) -> bool {
        let said = Count::from_word(memory.load(self.window.written_at()));
        if said.epoch == 0 {
            return false;
        }
        let newly = said.units.wrapping_sub(self.taken);
        if said.epoch == self.epoch && newly <= self.window.shape().units() {
            self.seen = said.units;
            return newly != 0;
        }
        // A sender that has just begun has written nothing yet: messages in the ring were for an earlier receiver.
        self.faults += u64::from(said.epoch == self.epoch);
        self.epoch = said.epoch;
        self.seen = said.units;
        self.pass(memory, newly);
        false
    }

    /// Takes so many units more, and says so.
    fn pass(&mut self, memory: &impl Memory, units: u32) {
        self.taken = self.taken.wrapping_add(units);
        memory.store(self.back.taken_at(), Count { epoch: self.epoch, units: self.taken }.word());
    }
}
