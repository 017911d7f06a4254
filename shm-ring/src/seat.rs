//! A node's place in the window: it sends to and receives from all others.
//!
//! Callers call [`Seat::service`] first in each turn: it advances the heartbeat and checks which nodes are present.

use alloc::vec::Vec;
use core::ops::Deref;
use core::time::Duration;

use crate::Memory;
use crate::count::Count;
use crate::receiver::{Message, Receiver};
use crate::sender::{Sender, Unsent};
use crate::shape::{Shape, Window};

/// After so long with a full window of which a node has taken nothing, senders treat the node as absent.
const FULL_WITHIN: Duration = Duration::from_millis(50);

/// Counts of impossible values that others have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// More written than there is room for, or impossible messages.
    pub written: u64,
    /// More taken than was ever sent.
    pub taken: u64,
}

impl Faults {
    /// All of them.
    pub fn total(self) -> u64 {
        self.written + self.taken
    }
}

/// One node in one channel of the window.
#[derive(Debug)]
pub struct Seat<M> {
    memory: M,
    /// The pairs with all other nodes, in the order of the slots.
    pairs: Vec<Pair>,
    heartbeat: u64,
    /// The time of the caller.
    now: Duration,
    /// When [`Self::service`] did its work last.
    serviced: Option<Duration>,
    /// The pair that [`Self::receive`] reads first.
    next: usize,
    /// The pair whose window had no room for a message.
    blocked: Option<usize>,
}

/// Both directions between this node and one other.
#[derive(Debug)]
struct Pair {
    slot: u16,
    sender: Sender,
    receiver: Receiver,
    presence: Presence,
    /// Where this node's heartbeat is in the other's window.
    heartbeat_at: usize,
    /// When its window was found full, and how much the other side had taken then.
    full: Option<(Duration, u32)>,
}

impl<M: Memory> Seat<M> {
    /// Takes a seat. No other process may have this slot of this channel; `epoch` is not 0, and not that of the process
    /// that had the slot before.
    ///
    /// # Panics
    /// There is no such channel or slot.
    pub fn take(memory: M, shape: Shape, channel: u16, slot: u16, epoch: u32) -> Self {
        let pair = |other| {
            let (near, far) = (shape.window(channel, slot, other), shape.window(channel, other, slot));
            let receiver = Receiver::begin(&memory, near, far);
            let sender = Sender::begin(&memory, far, near, epoch);
            let presence = Presence::new(near);
            Pair { slot: other, sender, receiver, presence, heartbeat_at: far.heartbeat_at(), full: None }
        };
        let pairs = (0..shape.slots()).filter(|other| *other != slot).map(pair).collect();
        let (heartbeat, now) = (u64::from(epoch) << 32, Duration::ZERO);
        Self { memory, pairs, heartbeat, now, serviced: None, next: 0, blocked: None }
    }

    /// Advances the heartbeat and checks which nodes are present, if it is time for that; says whether it was.
    pub fn service(&mut self, now: Duration) -> bool {
        self.now = now;
        if self.serviced.is_some_and(|serviced| now.saturating_sub(serviced) < HEARTBEAT_EVERY) {
            return false;
        }
        self.serviced = Some(now);
        self.heartbeat += 1;
        for pair in &mut self.pairs {
            self.memory.store(pair.heartbeat_at, self.heartbeat);
            pair.presence.check(&self.memory, now);
        }
        true
    }

    /// Whether another node is present.
    pub fn has_company(&self) -> bool {
        self.pairs.iter().any(|pair| pair.presence.is_present())
    }

    /// The slots of the other nodes that are present.
    pub fn company(&self) -> impl Iterator<Item = u16> {
        self.pairs.iter().filter(|pair| pair.presence.is_present()).map(|pair| pair.slot)
    }

    /// Writes one message into the window of node `to`.
    ///
    /// # Errors
    /// Why it was not written. A node whose window stays full counts as absent.
    pub fn send<S: Deref<Target = [u8]>>(
        &mut self,
        to: u16,
        slices: &[S],
        segment: usize,
    ) -> Result<(), Unsent> {
        let index = self.pairs.iter().position(|pair| pair.slot == to).ok_or(Unsent::Absent)?;
        let pair = &mut self.pairs[index];
        if !pair.presence.is_present() {
            return Err(Unsent::Absent);
        }
        let sent = pair.sender.send(&self.memory, slices, segment);
        if sent != Err(Unsent::Full) {
            return sent;
        }
        pair.note_full(self.now);
        if pair.is_stuck(self.now) {
            return Err(Unsent::Absent);
        }
        self.blocked = Some(index);
        sent
    }

    /// Whether a message that found no room should be sent again: the node has taken something, or counts as absent.
    pub fn has_room_again(&mut self) -> bool {
        let Some(pair) = self.blocked.map(|index| &mut self.pairs[index]) else { return true };
        let reads = pair.presence.is_present() && pair.sender.follow(&self.memory);
        let waits = reads && pair.has_taken_nothing() && !pair.is_stuck(self.now);
        if !waits {
            self.blocked = None;
        }
        !waits
    }

    /// Limits the bytes that wait in each window; one message may go beyond it.
    pub fn set_limit(&mut self, bytes: usize) {
        for pair in &mut self.pairs {
            pair.sender.set_limit(bytes);
        }
    }

    /// Whether [`Self::receive`] may find a message.
    pub fn has_news(&self) -> bool {
        self.pairs.iter().any(|pair| pair.receiver.has_news(&self.memory))
    }

    /// Takes one message and says from which slot, or `None` when there is none. Reads each window at most once,
    /// and begins with the next one each time.
    pub fn receive(&mut self, into: &mut [u8]) -> Option<(Message, u16)> {
        for _ in 0..self.pairs.len() {
            let index = self.next;
            self.next = (index + 1) % self.pairs.len();
            let pair = &mut self.pairs[index];
            if let Some(message) = pair.receiver.receive(&self.memory, into) {
                return Some((message, pair.slot));
            }
        }
        None
    }

    /// Bytes that wait in the windows of nodes that take them.
    pub fn waiting(&mut self) -> usize {
        let Self { pairs, memory, now, .. } = self;
        let present = pairs.iter_mut().filter(|pair| pair.presence.is_present());
        let taken = present.filter_map(|pair| pair.sender.follow(memory).then_some(pair));
        taken.filter(|pair| !pair.is_stuck(*now)).map(|pair| pair.sender.waiting_bytes()).sum()
    }

    /// The faults so far.
    pub fn faults(&self) -> Faults {
        let sum = |total: Faults, pair: &Pair| Faults {
            written: total.written + pair.receiver.faults,
            taken: total.taken + pair.sender.faults,
        };
        self.pairs.iter().fold(Faults::default(), sum)
    }

    /// Leaves the seat: the others see at once that it is empty.
    pub fn leave(&mut self) {
        for pair in &mut self.pairs {
            pair.receiver.end(&self.memory);
            pair.sender.end(&self.memory);
        }
    }
}

impl Pair {
    /// Notes that the window is full, unless the other side has taken nothing since that was noted.
    fn note_full(&mut self, now: Duration) {
        if !self.has_taken_nothing() {
            self.full = Some((now, self.sender.taken()));
        }
    }

    /// Whether the other side has taken nothing since its window was found full.
    fn has_taken_nothing(&self) -> bool {
        self.full.is_some_and(|(_, taken)| taken == self.sender.taken())
    }

    /// Whether that has lasted too long.
    fn is_stuck(&self, now: Duration) -> bool {
        let long = |since| now.saturating_sub(since) >= FULL_WITHIN;
        self.has_taken_nothing() && self.full.is_some_and(|(since, _)| long(since))
    }
}

// Whether the other side of a pair is present: it has an epoch and the same shape, and its heartbeat goes on.
//
// A node that is seen for the first time counts as present until its heartbeat has stood still for too long. That is
// safe: the sender writes nothing for it before it has confirmed the sender's epoch.

/// How often a node advances its heartbeat.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(10);
/// A node whose heartbeat stands still for so long counts as absent: longer than a busy host keeps a process waiting.
/// The core, which uses the window, notices silence much earlier; this time only decides whether any node is there.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(1);

/// The presence of the node that writes a window.
#[derive(Debug)]
struct Presence {
    window: Window,
    /// The heartbeat as it was read last; `None` before.
    heartbeat: Option<u64>,
    /// When it was found to have advanced last, in the caller's time.
    since: Duration,
    is_present: bool,
}

impl Presence {
    fn new(window: Window) -> Self {
        Self { window, heartbeat: None, since: Duration::ZERO, is_present: false }
    }

    /// Reads the node's words again.
    fn check(&mut self, memory: &impl Memory, now: Duration) {
        let heartbeat = memory.load(self.window.heartbeat_at());
        if self.heartbeat.replace(heartbeat) != Some(heartbeat) {
            self.since = now;
        }
        let advances = now.saturating_sub(self.since) < HEARTBEAT_WITHIN;
        let epoch = Count::from_word(memory.load(self.window.written_at())).epoch;
        let same = memory.load(self.window.shape_at()) == self.window.shape().word();
        self.is_present = advances && epoch != 0 && same;
    }

    fn is_present(&self) -> bool {
        self.is_present
    }
}
