//! Properties of the engine over a device that finishes any descriptors at any time.

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
