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

    /// Interrupts begin below `low` and end from `high` on.
    ///
    /// # Panics
    /// When `low` is not below `high`, or `high` beyond 100.
    #[must_use]
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
    #[must_use]
    pub fn new(method: Method, room: Room) -> Self {
        let posted = VecDeque::with_capacity(room.descriptors);
        let interrupts = method == Method::Interrupt;
        Self { method, room, free: room, posted, interrupts, counters: Counters::default() }
    }

    /// Whether the device is to interrupt. The driver reads this after each call. A device that interrupts only for
    /// what it finishes from then on has to be polled once more ([`Cause::Interrupt`]) when this has become true.
    #[must_use]
    pub fn interrupts(&self) -> bool {
        self.interrupts
    }

    /// Whether the next send begins with a poll of the device.
    #[must_use]
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
    #[must_use]
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
    ///
    /// # Panics
    /// When there is no room for it.
    pub fn post(&mut self, buffer: B, bytes: usize) {
        assert!(self.free.holds(Room { descriptors: 1, bytes }), "only what was admitted is posted");
        self.free.descriptors -= 1;
        self.free.bytes -= bytes;
        self.posted.push_back((buffer, bytes));
        self.check_watermarks();
    }

    /// Buffers that have not come back.
    #[must_use]
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// The counters.
    #[must_use]
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
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const ROOM: Room = Room { descriptors: 16, bytes: 16_000 };
    const ADAPTIVE: Method = Method::Adaptive(Watermarks::new(25, 50));

    /// A device, its driver and a sender that numbers its buffers.
    struct Rig {
        engine: Reclaim<u64>,
        /// Descriptors that the device has not finished.
        outstanding: usize,
        /// It interrupts only for what it finishes while it may, and not for what was finished before.
        is_edge_triggered: bool,
        /// It has finished something while it may interrupt, or may now and had finished something.
        is_pending: bool,
        sent: u64,
        back: Vec<u64>,
    }

    impl Rig {
        fn new(method: Method, is_edge_triggered: bool) -> Self {
            let engine = Reclaim::new(method, ROOM);
            Self { engine, outstanding: 0, is_edge_triggered, is_pending: false, sent: 0, back: Vec::new() }
        }

        /// Sends a packet of such fragments, if it is admitted.
        fn send(&mut self, fragments: &[usize]) -> bool {
            let before = self.engine.interrupts();
            let packet = Room { descriptors: fragments.len(), bytes: fragments.iter().sum() };
            let admitted = self.engine.admits(packet);
            if admitted {
                self.back.extend(self.engine.reclaim(Cause::Send, self.outstanding));
                for bytes in fragments {
                    self.engine.post(self.sent, *bytes);
                    self.sent += 1;
                }
                self.outstanding += fragments.len();
            }
            self.poll(before);
            admitted
        }

        /// The device finishes descriptors.
        fn finish(&mut self, count: usize) {
            let count = count.min(self.outstanding);
            self.outstanding -= count;
            self.is_pending |= count > 0 && self.engine.interrupts();
        }

        /// The interrupt that is pending, if one is.
        fn interrupt(&mut self) -> bool {
            let came = core::mem::take(&mut self.is_pending);
            if came {
                let before = self.engine.interrupts();
                self.back.extend(self.engine.reclaim(Cause::Interrupt, self.outstanding));
                self.poll(before);
            }
            came
        }

        /// What a driver does after each call.
        fn poll(&mut self, before: bool) {
            if before || !self.engine.interrupts() {
                return;
            }
            if self.is_edge_triggered {
                self.back.extend(self.engine.reclaim(Cause::Interrupt, self.outstanding));
            } else {
                self.is_pending = self.engine.posted() > self.outstanding;
            }
        }

        /// The device finishes everything and interrupts as long as it may; whether the sender gets through then.
        fn gets_through(&mut self, fragments: &[usize]) -> bool {
            for _ in 0..=ROOM.descriptors {
                if self.send(fragments) {
                    return true;
                }
                self.finish(1);
                self.interrupt();
            }
            self.send(fragments)
        }
    }

    fn ascending(count: u64) -> Vec<u64> {
        (0..count).collect()
    }

    #[test]
    fn lazy_alone_waits_for_ever_when_the_room_is_used_up() {
        let mut rig = Rig::new(Method::Lazy, false);
        while rig.send(&[1_000, 1_000]) {}
        assert_eq!(rig.sent, 16);
        rig.finish(16);
        for _ in 0..1_000 {
            assert!(!rig.interrupt() && !rig.send(&[1_000]), "the device is idle, and no driver polls");
        }
        assert_eq!((rig.engine.posted(), rig.back.len()), (16, 0));
    }

    #[test]
    fn adaptive_is_lazy_while_there_is_room() {
        let mut rig = Rig::new(ADAPTIVE, false);
        for _ in 0..100 {
            assert!(rig.send(&[1_000, 1_000]) && !rig.interrupt());
            rig.finish(2);
        }
        let counters = rig.engine.counters();
        assert_eq!((counters.reclaimed_at_sends, counters.interrupts, counters.to_interrupts), (198, 0, 0));
    }

    #[test]
    fn adaptive_switches_at_the_low_watermark_and_back_at_the_high_one() {
        let mut rig = Rig::new(ADAPTIVE, false);
        // 12 of 16 descriptors leave a quarter, which is not below the watermark.
        (0..12).for_each(|_| assert!(rig.send(&[100]) && !rig.engine.interrupts()));
        assert!(rig.send(&[100]) && rig.engine.interrupts());
        rig.finish(4);
        assert!(rig.interrupt() && rig.engine.interrupts(), "7 of 16 are free");
        rig.finish(1);
        assert!(rig.interrupt() && !rig.engine.interrupts(), "8 of 16 are free");
        let counters = rig.engine.counters();
        assert_eq!((counters.to_interrupts, counters.to_lazy, counters.reclaimed_by_interrupts), (1, 1, 5));
    }

    #[test]
    fn bytes_can_be_short_where_descriptors_are_not() {
        let mut rig = Rig::new(ADAPTIVE, false);
        assert!(rig.send(&[12_001]) && rig.engine.interrupts());
        assert!(!rig.send(&[4_000]) && rig.send(&[3_999]));
    }

    #[test]
    fn a_sender_that_is_refused_waits_by_interrupt_whatever_the_watermarks() {
        let mut rig = Rig::new(ADAPTIVE, false);
        assert!(rig.send(&[6_000]) && !rig.engine.interrupts(), "more than half is free");
        assert!(!rig.send(&[10_001]) && rig.engine.interrupts());
        rig.finish(1);
        assert!(rig.interrupt() && rig.send(&[10_001]));
    }

    #[test]
    fn what_was_finished_before_interrupts_were_on_comes_back_too() {
        for is_edge_triggered in [false, true] {
            let mut rig = Rig::new(ADAPTIVE, is_edge_triggered);
            assert!(rig.send(&[6_000]));
            rig.finish(1);
            assert!(!rig.send(&[10_001]));
            assert!(rig.interrupt() != is_edge_triggered);
            assert!(rig.send(&[10_001]));
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(Vec<usize>),
        Finish(usize),
        Interrupt,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let fragments = proptest::collection::vec(1_usize..=1_000, 1..=ROOM.descriptors);
        let step = prop_oneof![
            3 => fragments.prop_map(Step::Send),
            2 => (0..=ROOM.descriptors).prop_map(Step::Finish),
            1 => Just(Step::Interrupt),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn every_buffer_comes_back_once_and_in_order(
            steps in steps(),
            method in prop_oneof![Just(Method::Interrupt), Just(Method::Lazy), Just(ADAPTIVE)],
            is_edge_triggered in any::<bool>(),
        ) {
            let mut rig = Rig::new(method, is_edge_triggered);
            for step in steps {
                match step {
                    Step::Send(fragments) => drop(rig.send(&fragments)),
                    Step::Finish(count) => rig.finish(count),
                    Step::Interrupt => drop(rig.interrupt()),
                }
                let counters = rig.engine.counters();
                prop_assert_eq!(&rig.back, &ascending(rig.back.len() as u64));
                prop_assert_eq!(rig.back.len() + rig.engine.posted(), usize::try_from(rig.sent).unwrap());
                prop_assert_eq!(
                    counters.reclaimed_at_sends + counters.reclaimed_by_interrupts,
                    rig.back.len() as u64
                );
                prop_assert!(counters.to_interrupts - counters.to_lazy <= 1);
                prop_assert!(rig.outstanding <= rig.engine.posted(), "the device holds what was posted");
            }
            rig.finish(ROOM.descriptors);
            let rest = rig.engine.reclaim(Cause::Interrupt, 0);
            rig.back.extend(rest);
            prop_assert_eq!(rig.back, ascending(rig.sent));
            prop_assert_eq!(rig.engine.free, ROOM);
        }

        #[test]
        fn adaptive_never_waits_for_ever(
            packets in proptest::collection::vec(
                proptest::collection::vec(1_usize..=1_000, 1..=ROOM.descriptors), 1..100),
            low in 0_u8..99,
            above in 1_u8..=100,
            is_edge_triggered in any::<bool>(),
        ) {
            let watermarks = Watermarks::new(low, low.saturating_add(above).min(100));
            let mut rig = Rig::new(Method::Adaptive(watermarks), is_edge_triggered);
            for packet in &packets {
                prop_assert!(rig.gets_through(packet), "{packet:?} waits for ever");
            }
        }
    }
}
