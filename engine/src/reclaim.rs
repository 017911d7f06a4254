//! The reclaim engine: when a driver takes back buffers that the device has sent.
//!
//! A buffer belongs to the device from [`Reclaim::post`] until the device has read it. The device can report that by an
//! interrupt, which costs much; or the driver reads a register when it sends the next packet, which costs little. But a
//! sender that waits for room sends nothing, and so waits for ever under [`Method::Lazy`]. [`Method::Adaptive`] is lazy
//! while there is room, and lets the device interrupt while there is little.
//!
//! The device finishes descriptors in the order in which they were posted, so it only needs to show how many it still
//! holds (`outstanding`).
//!
//! Invariants: a buffer that was posted is handed back once, in order. Under [`Method::Adaptive`], interrupts are on
//! whenever a packet was refused last.
//! Source: Shimizu et al., section 4.1, "adaptive algorithm switching".

use alloc::collections::VecDeque;

/// What triggers taking buffers back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The device, by interrupts.
    Interrupt,
    /// The next send, by a poll of the device. A sender that waits for room then waits for ever.
    Lazy,
    /// The next send while there is room, interrupts while there is little.
    Adaptive(Watermarks),
}

impl Method {
    /// All of them, `adaptive` with the usual watermarks.
    pub const ALL: [Self; 3] = [Self::Interrupt, Self::Lazy, Self::Adaptive(Watermarks::USUAL)];

    /// The name in files and flags.
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
        Self::Adaptive(Watermarks::USUAL)
    }
}

/// Shares of the room that are free, in percent, of descriptors or bytes, whichever are scarcer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    low: u8,
    high: u8,
}

impl Watermarks {
    /// A quarter and a half.
    pub const USUAL: Self = Self::new(25, 50);

    /// Interrupts begin below `low`, which is below `high`, and end from `high` on, at most 100.
    pub const fn new(low: u8, high: u8) -> Self {
        assert!(low < high && high <= 100, "watermarks in order, in percent");
        Self { low, high }
    }
}

/// Why the driver polls the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A packet is about to be posted.
    Send,
    /// The device has interrupted, or may do so from now on.
    Interrupt,
}

/// Descriptors and bytes that are used or can be used.
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

/// Counters since the beginning.
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
    pub fn new(method: Method, room: Room) -> Self {
        let posted = VecDeque::with_capacity(room.descriptors);
        let interrupts = method == Method::Interrupt;
        Self { method, room, free: room, posted, interrupts, counters: Counters::default() }
    }

    /// Whether the device is to interrupt. The driver reads this after each call. A device that interrupts only for
    /// what it finishes from then on has to be polled once more ([`Cause::Interrupt`]) when this has become true.
    pub fn interrupts(&self) -> bool {
        self.interrupts
    }

    /// Whether the next send begins with a poll of the device.
    pub fn asks_at_send(&self) -> bool {
        !self.interrupts && !self.posted.is_empty()
    }

    /// Whether there is room for a packet. If there is none, the driver tries again after the next reclaim.
    pub fn admits(&mut self, packet: Room) -> bool {
        debug_assert!(self.room.holds(packet), "this packet never fits");
        let admitted = self.free.holds(packet);
        if !admitted {
            self.refuse();
        }
        admitted
    }

    /// Notes that a packet is not posted: there is no room for it, or the device has enough.
    pub fn refuse(&mut self) {
        self.counters.refused += 1;
        // Whatever the watermarks: a sender that waits for room does not send.
        if matches!(self.method, Method::Adaptive(_)) {
            self.switch(true);
        }
    }

    /// What triggers taking buffers back.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Takes back what the device no longer holds, oldest first.
    ///
    /// At a send it takes back nothing while interrupts are on. More `outstanding` than was posted counts as all of it.
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
        self.check_watermarks();
        self.posted.drain(..done).map(|(buffer, _)| buffer)
    }

    /// Gives the device a buffer of a packet that was admitted.
    pub fn post(&mut self, buffer: B, bytes: usize) {
        assert!(self.free.holds(Room { descriptors: 1, bytes }), "only what was admitted is posted");
        self.free.descriptors -= 1;
        self.free.bytes -= bytes;
        self.posted.push_back((buffer, bytes));
        self.check_watermarks();
    }

    /// Buffers that have not come back.
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn check_watermarks(&mut self) {
        let Method::Adaptive(Watermarks { low, high }) = self.method else { return };
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
