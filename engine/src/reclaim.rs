//! When buffers come back that a device has sent: the transmit side's completion engine.
//!
//! A buffer belongs to the device from [`Reclaim::post`] until the device has read it. That it has can be told by an
//! interrupt, which costs much, or be seen in a register when the next packet is sent anyway, which costs little. But who
//! waits for room sends nothing, and so would wait for ever: [`Method::Lazy`] stalls. [`Method::Adaptive`] is lazy while
//! there is room, and lets the device interrupt while there is little.
//!
//! The device finishes descriptors in the order in which they were posted; how many it still holds (`outstanding`) is all
//! that it has to tell.
//!
//! Invariants: a buffer that was posted is handed back once, in order. Under [`Method::Adaptive`], interrupts are on
//! whenever a packet was refused last.
//! Source: Shimizu et al., section 4.1, "adaptive algorithm switching".

use alloc::collections::VecDeque;

/// Who says that buffers can come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The device, by interrupts.
    Interrupt,
    /// Whoever sends next, by a poll of the device. Stalls when there is no room to send.
    Lazy,
    /// The sender while there is room, the device while there is little.
    Adaptive(Marks),
}

impl Method {
    /// All of them, `adaptive` with the usual marks.
    pub const ALL: [Self; 3] = [Self::Interrupt, Self::Lazy, Self::Adaptive(Marks::USUAL)];

    /// The name in files and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Lazy => "lazy",
            Self::Adaptive(_) => "adaptive",
        }
    }
}

impl Default for Method {
    fn default() -> Self {
        Self::Adaptive(Marks::USUAL)
    }
}

/// Shares of the room that are free, in percent. What is short counts: descriptors or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    low: u8,
    high: u8,
}

impl Marks {
    /// A quarter and a half.
    pub const USUAL: Self = Self::new(25, 50);

    /// Interrupts begin below `low` and end from `high` on.
    ///
    /// # Panics
    /// When `low` is not below `high`, or `high` beyond 100.
    #[must_use]
    pub const fn new(low: u8, high: u8) -> Self {
        assert!(low < high && high <= 100, "marks in order, in percent");
        Self { low, high }
    }
}

/// Why the device is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A packet is about to be posted.
    Send,
    /// The device has interrupted, or has just been allowed to.
    Interrupt,
}

/// What is used and can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Descriptors.
    pub descriptors: usize,
    /// Bytes of buffers.
    pub bytes: usize,
}

impl Room {
    fn holds(self, other: Self) -> bool {
        other.descriptors <= self.descriptors && other.bytes <= self.bytes
    }

    /// How much of `whole` this is, in percent, by what is scarcer.
    fn percent_of(self, whole: Self) -> usize {
        let percent = |part: usize, of: usize| part.saturating_mul(100) / of.max(1);
        percent(self.descriptors, whole.descriptors).min(percent(self.bytes, whole.bytes))
    }
}

/// What has happened since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Buffers that came back at a send.
    pub reclaimed_at_sends: u64,
    /// Buffers that came back by an interrupt.
    pub reclaimed_by_interrupts: u64,
    /// Interrupts, whatever they brought back.
    pub interrupts: u64,
    /// How often interrupts were switched on.
    pub to_interrupts: u64,
    /// How often they were switched off.
    pub to_lazy: u64,
    /// Packets for which there was no room.
    pub refused: u64,
}

/// The engine: buffers that a device holds, oldest first.
#[derive(Debug)]
pub struct Reclaim<B> {
    method: Method,
    room: Room,
    free: Room,
    /// Each with its bytes.
    posted: VecDeque<(B, usize)>,
    interrupts: bool,
    counters: Counters,
}

impl<B> Reclaim<B> {
    /// An engine for a device with so much room.
    #[must_use]
    pub fn new(method: Method, room: Room) -> Self {
        let posted = VecDeque::with_capacity(room.descriptors);
        let interrupts = method == Method::Interrupt;
        Self { method, room, free: room, posted, interrupts, counters: Counters::default() }
    }

    /// Whether the device is to interrupt. To be read after each call; a device that interrupts only for what it
    /// finishes from then on has to be asked once more ([`Cause::Interrupt`]) when this has become true.
    #[must_use]
    pub fn interrupts(&self) -> bool {
        self.interrupts
    }

    /// Whether the next send begins with a poll of the device.
    #[must_use]
    pub fn asks_at_send(&self) -> bool {
        !self.interrupts && !self.posted.is_empty()
    }

    /// Whether there is room for a packet. Where there is none, it is to be tried again after the next reclaim.
    pub fn admits(&mut self, packet: Room) -> bool {
        debug_assert!(self.room.holds(packet), "this packet never fits");
        let admitted = self.free.holds(packet);
        if !admitted {
            self.refuse();
        }
        admitted
    }

    /// A packet is not posted: there is no room for it, or the device has enough.
    pub fn refuse(&mut self) {
        self.counters.refused += 1;
        // Whatever the marks say: who waits for room does not send.
        if matches!(self.method, Method::Adaptive(_)) {
            self.switch(true);
        }
    }

    /// Who says that buffers can come back.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Takes back what the device no longer holds, oldest first.
    ///
    /// At a send, this is nothing where interrupts do it. More `outstanding` than was posted counts as all of it.
    pub fn reclaim(&mut self, cause: Cause, outstanding: usize) -> impl Iterator<Item = B> {
        let mut done = self.posted.len().saturating_sub(outstanding);
        match cause {
            Cause::Send if self.interrupts => done = 0,
            Cause::Send => self.counters.reclaimed_at_sends += done as u64,
            Cause::Interrupt => {
                self.counters.interrupts += 1;
                self.counters.reclaimed_by_interrupts += done as u64;
            }
        }
        self.free.descriptors += done;
        self.free.bytes += self.posted.range(..done).map(|(_, bytes)| bytes).sum::<usize>();
        self.look_at_marks();
        self.posted.drain(..done).map(|(buffer, _)| buffer)
    }

    /// The device gets a buffer of a packet that was admitted.
    ///
    /// # Panics
    /// When there is no room for it.
    pub fn post(&mut self, buffer: B, bytes: usize) {
        assert!(self.free.holds(Room { descriptors: 1, bytes }), "only what was admitted is posted");
        self.free.descriptors -= 1;
        self.free.bytes -= bytes;
        self.posted.push_back((buffer, bytes));
        self.look_at_marks();
    }

    /// Buffers that have not come back.
    #[must_use]
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// What has happened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn look_at_marks(&mut self) {
        let Method::Adaptive(Marks { low, high }) = self.method else { return };
        let free = self.free.percent_of(self.room);
        if free < usize::from(low) {
            self.switch(true);
        } else if free >= usize::from(high) {
            self.switch(false);
        }
    }

    fn switch(&mut self, interrupts: bool) {
        if self.interrupts != interrupts {
            self.interrupts = interrupts;
            let count =
                if interrupts { &mut self.counters.to_interrupts } else { &mut self.counters.to_lazy };
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests;
