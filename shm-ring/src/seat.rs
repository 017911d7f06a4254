//! A node's place in the window: what it sends to all others, and hears of them.
//!
//! Call [`Seat::service`] each time before the others, with the time: it keeps the heartbeat going and looks who is there.

use alloc::vec::Vec;
use core::ops::Deref;
use core::time::Duration;

use crate::memory::Memory;
use crate::receiver::{Message, Receiver};
use crate::sender::{Sender, Unsent};
use crate::shape::Shape;
use crate::sighting::{BEAT_EVERY, Sighting};

/// A node that takes nothing for so long while its window is full does not keep what is sent to others waiting.
const FULL_WITHIN: Duration = Duration::from_millis(50);

/// What could not be true, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Others wrote of more than there is room for, or messages that cannot be.
    pub written: u64,
    /// Others took what was never sent.
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
    /// In the order of the slots, without the own one.
    ways: Vec<Way>,
    beat: u64,
    /// The time of the caller.
    now: Duration,
    /// When it was looked who is there.
    tended: Option<Duration>,
    /// Where the next look for a message begins.
    next: usize,
    /// The way whose window had no room for a message.
    blocked: Option<usize>,
}

/// The way to one other node and from it.
#[derive(Debug)]
struct Way {
    slot: u16,
    sender: Sender,
    receiver: Receiver,
    sighting: Sighting,
    /// Where our heartbeat is in its window.
    beat_at: usize,
    /// When its window was found full, and how far the other side was then.
    full: Option<(Duration, u32)>,
}

impl<M: Memory> Seat<M> {
    /// Takes a seat. Nobody else may sit in this slot of this channel; `epoch` is not 0, and not that of whoever sat
    /// there before.
    ///
    /// # Panics
    /// There is no such channel or slot.
    pub fn take(memory: M, shape: Shape, channel: u16, slot: u16, epoch: u32) -> Self {
        let way = |other| {
            let (near, far) = (shape.window(channel, slot, other), shape.window(channel, other, slot));
            let receiver = Receiver::begin(&memory, near, far);
            let sender = Sender::begin(&memory, far, near, epoch);
            let sighting = Sighting::new(near);
            Way { slot: other, sender, receiver, sighting, beat_at: far.beat_at(), full: None }
        };
        let ways = (0..shape.slots()).filter(|other| *other != slot).map(way).collect();
        let (beat, now) = (u64::from(epoch) << 32, Duration::ZERO);
        Self { memory, ways, beat, now, tended: None, next: 0, blocked: None }
    }

    /// It is `now`: beats and looks who is there, when it is time for that; whether it was.
    pub fn service(&mut self, now: Duration) -> bool {
        self.now = now;
        if self.tended.is_some_and(|tended| now.saturating_sub(tended) < BEAT_EVERY) {
            return false;
        }
        self.tended = Some(now);
        self.beat += 1;
        for way in &mut self.ways {
            self.memory.store(way.beat_at, self.beat);
            way.sighting.look(&self.memory, now);
        }
        true
    }

    /// Whether anybody else is there.
    pub fn has_company(&self) -> bool {
        self.ways.iter().any(|way| way.sighting.present())
    }

    /// The slots of the others who are there.
    pub fn company(&self) -> impl Iterator<Item = u16> {
        self.ways.iter().filter(|way| way.sighting.present()).map(|way| way.slot)
    }

    /// Writes one message into the window of node `to`.
    ///
    /// # Errors
    /// Why it was not written. [`Unsent::Full`] is said of a node that takes; one that does not is as absent.
    pub fn send<S: Deref<Target = [u8]>>(
        &mut self,
        to: u16,
        slices: &[S],
        segment: usize,
    ) -> Result<(), Unsent> {
        let index = self.ways.iter().position(|way| way.slot == to).ok_or(Unsent::Absent)?;
        let way = &mut self.ways[index];
        if !way.sighting.present() {
            return Err(Unsent::Absent);
        }
        let sent = way.sender.send(&self.memory, slices, segment);
        if sent != Err(Unsent::Full) {
            return sent;
        }
        way.note_full(self.now);
        if way.is_stuck(self.now) {
            return Err(Unsent::Absent);
        }
        self.blocked = Some(index);
        sent
    }

    /// Whether a message that found no room is worth another try: something was taken meanwhile, or never will be.
    pub fn has_room_again(&mut self) -> bool {
        let Some(way) = self.blocked.map(|index| &mut self.ways[index]) else { return true };
        let reads = way.sighting.present() && way.sender.follow(&self.memory);
        let waits = reads && way.has_taken_nothing() && !way.is_stuck(self.now);
        if !waits {
            self.blocked = None;
        }
        !waits
    }

    /// Bounds what waits in each window, in bytes; one message may go beyond it.
    pub fn set_limit(&mut self, bytes: usize) {
        for way in &mut self.ways {
            way.sender.set_limit(bytes);
        }
    }

    /// Whether it is worth to call [`Self::receive`].
    pub fn has_news(&self) -> bool {
        self.ways.iter().any(|way| way.receiver.has_news(&self.memory))
    }

    /// Takes one message and says from which slot, or `None` when there is none. Looks at each window once at most, each
    /// time beginning with the next one.
    pub fn receive(&mut self, into: &mut [u8]) -> Option<(Message, u16)> {
        for _ in 0..self.ways.len() {
            let index = self.next;
            self.next = (index + 1) % self.ways.len();
            let way = &mut self.ways[index];
            if let Some(message) = way.receiver.receive(&self.memory, into) {
                return Some((message, way.slot));
            }
        }
        None
    }

    /// Bytes that wait in the windows of those who take them.
    pub fn waiting(&mut self) -> usize {
        let Self { ways, memory, now, .. } = self;
        let present = ways.iter_mut().filter(|way| way.sighting.present());
        let taken = present.filter_map(|way| way.sender.follow(memory).then_some(way));
        taken.filter(|way| !way.is_stuck(*now)).map(|way| way.sender.waiting_bytes()).sum()
    }

    /// What could not be true so far.
    pub fn faults(&self) -> Faults {
        let sum = |total: Faults, way: &Way| Faults {
            written: total.written + way.receiver.faults,
            taken: total.taken + way.sender.faults,
        };
        self.ways.iter().fold(Faults::default(), sum)
    }

    /// Leaves: the others see at once that nobody is there.
    pub fn leave(&mut self) {
        for way in &mut self.ways {
            way.receiver.end(&self.memory);
            way.sender.end(&self.memory);
        }
    }
}

impl Way {
    /// Its window is full; since when, if nothing has been taken meanwhile.
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
