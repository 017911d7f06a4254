//! The fair queue: turns, sparse flows, what is dropped when it is nearly full.

use super::*;
use crate::send::ring::Cell;
use crate::wire::record;
use alloc::vec;
use core::time::Duration;
use proptest::prelude::*;

/// Bytes of a cell, and of its payload.
const CELL: u16 = 1_452;
const PAYLOAD: usize = 1_436;

/// What is too long a wait on the way to any peer.
fn near(_cell: Cell) -> Limits {
    Limits::of(Duration::ZERO, Duration::ZERO)
}

struct Fixture {
    now: Instant,
    ring: Ring,
    queue: FairQueue,
    counters: Counters,
    out: VecDeque<u64>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            ring: Ring::new(CELL, 1_024),
            queue: FairQueue::default(),
            counters: Counters::default(),
            out: VecDeque::new(),
        }
    }

    fn later(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    /// A record of a lane's only flow waits.
    fn push(&mut self, lane: u8, cells: usize, kind: u8) {
        self.push_of(u64::from(lane), lane, cells, kind);
    }

    /// A record that fills so many cells waits on a lane; `kind` is the GSO type in its virtio header.
    fn push_of(&mut self, flow: u64, lane: u8, cells: usize, kind: u8) {
        let length = PAYLOAD * cells - PREFIX;
        let mut bytes = vec![0; PAYLOAD * cells];
        record::emit(length, &mut bytes);
        bytes[PREFIX + 1] = kind;
        let like = Cell { peer: 0, lane, since: self.now, ..Cell::default() };
        let flow = Flow { hash: flow << 32 | flow, gate: u16::try_from(flow).ok(), is_superframe: kind != 0 };
        let place = self.queue.place(0, flow);
        let slots = self.ring.append(&bytes, self.queue.open(place), like);
        self.queue.push(&mut self.ring, 0, place, slots);
    }

    /// Takes so many cells; returns the lanes that they are of.
    fn take(&mut self, cells: usize) -> Vec<u8> {
        self.fill(cells);
        self.drain().into_iter().map(|slot| self.ring.cell(slot).lane).collect()
    }

    /// Takes one turn, of so many cells at most; returns whether there were any.
    fn turn(&mut self, most: usize) -> bool {
        let Self { now, ring, queue, counters, out } = self;
        queue.take_turn(&mut Turn { now: *now, most, ring, counters, out }, near)
    }

    /// Takes turns until so many cells are there.
    fn fill(&mut self, most: usize) {
        while self.out.len() < most && self.turn(most) {}
    }

    /// The cells that were taken leave.
    fn drain(&mut self) -> Vec<u64> {
        let slots: Vec<_> = self.out.drain(..).collect();
        slots.iter().for_each(|slot| self.ring.release(*slot));
        slots
    }

    fn relieve(&mut self) {
        self.queue.relieve(self.now, &mut self.ring, &mut self.counters);
    }
}

fn count(lanes: &[u8], lane: u8) -> usize {
    lanes.iter().filter(|other| **other == lane).count()
}

#[test]
fn bulky_flows_share_and_a_sparse_one_goes_first() {
    let mut fixture = Fixture::new();
    (0..3).for_each(|_| fixture.push(1, 45, 1));
    (0..3).for_each(|_| fixture.push(2, 45, 1));
    let taken = fixture.take(40);
    assert!(count(&taken, 1).abs_diff(20) <= 5, "{taken:?}");
    fixture.push(3, 1, 0);
    assert_eq!(fixture.take(4)[0], 3);
    let taken = fixture.take(80);
    assert!(count(&taken, 1).abs_diff(40) <= 5, "{taken:?}");
}

#[test]
fn who_runs_empty_and_begins_anew_does_not_starve_the_others() {
    let mut fixture = Fixture::new();
    (0..4).for_each(|_| fixture.push(1, 45, 1));
    let mut taken = Vec::new();
    for _ in 0..50 {
        fixture.push(2, 3, 0);
        taken.extend(fixture.take(3));
    }
    assert!(count(&taken, 1) >= 60, "{taken:?}");
}

#[test]
fn a_flow_that_waits_with_another_is_followed_by_its_next_frames() {
    let mut fixture = Fixture::new();
    let of_one_set = |number: usize| (number * (QUEUES / WAYS)) as u64;
    let place = |fixture: &Fixture, flow: u64| {
        fixture.queue.place(0, Flow { hash: flow << 32 | flow, gate: None, is_superframe: false }).queue
    };
    fixture.push_of(of_one_set(0), 1, 45, 1);
    (1..WAYS).for_each(|number| fixture.push_of(of_one_set(number), 2, 1, 0));
    let late = of_one_set(WAYS);
    let shared = place(&fixture, late);
    assert_eq!(shared, place(&fixture, of_one_set(0)), "no queue of the set is free");
    fixture.push_of(late, 3, 1, 0);
    fixture.take(30);
    assert_eq!(place(&fixture, late), shared, "a queue is free, and the flow's first frame has not left");
    fixture.take(30);
    assert_eq!(fixture.queue.new.len() + fixture.queue.old.len(), 0);
    assert!(!fixture.queue.queues[shared].is_shared);
}

#[test]
fn flows_have_queues_of_their_own_while_some_are_free() {
    let mut fixture = Fixture::new();
    let hash = |queue: &FairQueue, peer, hash| {
        queue.place(peer, Flow { hash, gate: None, is_superframe: false }).hash
    };
    assert_ne!(hash(&fixture.queue, 1, 0), hash(&fixture.queue, 1, 1), "two flows to one peer");
    let of_one_set = |number: usize| (number * (QUEUES / WAYS)) as u64;
    (0..2).for_each(|_| fixture.push_of(of_one_set(1), 1, 1, 0));
    fixture.push_of(of_one_set(2), 2, 1, 0);
    assert_eq!(fixture.queue.new.len() + fixture.queue.old.len(), 2);
}

#[test]
fn on_fast_links_a_turn_is_a_superframe_and_on_slow_ones_a_few_cells() {
    for (bytes, cells) in [(100, 5), (6_000, 5), (30_000, 21), (usize::MAX, 46)] {
        let mut fixture = Fixture::new();
        fixture.queue.set_turn(bytes);
        (1..=4).for_each(|record| fixture.push(1 + record % 2, 40, 1));
        let lanes = fixture.take(120);
        let turn = lanes.iter().take_while(|lane| **lane == lanes[0]).count();
        assert_eq!(turn, cells, "{bytes}");
    }
}

#[test]
fn a_lane_that_is_alone_leaves_in_one_turn() {
    let mut fixture = Fixture::new();
    fixture.push(1, 45, 1);
    assert!(fixture.turn(128));
    assert_eq!(fixture.out.len(), 45);
    assert!(!fixture.turn(128));
}

#[test]
fn a_flow_that_waits_too_long_loses_frames_until_it_does_no_longer() {
    let mut fixture = Fixture::new();
    for _ in 0..150 {
        (0..2).for_each(|_| fixture.push(1, 1, 0));
        fixture.later(1);
        fixture.take(1);
    }
    let late = fixture.counters.drop_queue_late;
    assert!((1..=3).contains(&late), "{late} in 150 ms");
    fixture.take(1_000);
    fixture.push(1, 1, 0);
    fixture.take(1);
    assert!(!fixture.ring.has_waiting());
}

#[test]
fn a_full_queue_costs_the_fattest_flow_and_nobody_else() {
    let mut fixture = Fixture::new();
    (0..20).for_each(|_| fixture.push(1, 1, 0));
    while !fixture.ring.is_nearly_full() {
        fixture.push(2, 1, 0);
    }
    let waiting = fixture.ring.waiting_max();
    fixture.take(2);
    (0..50).for_each(|_| {
        fixture.push(2, 1, 0);
        fixture.relieve();
    });
    assert_eq!(fixture.counters.drop_queue_full, 49);
    let taken = fixture.take(1_024);
    assert_eq!((taken.len(), count(&taken, 1)), (waiting - 1, 18));
}

#[test]
fn superframes_of_tcp_are_spared_and_so_are_those_who_wait_beside_them() {
    let mut fixture = Fixture::new();
    (0..20).for_each(|_| fixture.push(1, 1, 0));
    while !fixture.ring.is_nearly_full() {
        fixture.push(2, 45, 1);
    }
    fixture.relieve();
    assert_eq!(fixture.counters.drop_queue_full, 0);
    assert!(fixture.ring.is_nearly_full(), "reading stops");
}

#[test]
fn a_flow_of_superframes_loses_no_other_frame_either() {
    let mut fixture = Fixture::new();
    fixture.push(1, 1, 0);
    while !fixture.ring.is_nearly_full() {
        fixture.push(2, 45, 1);
        fixture.push(2, 1, 0);
    }
    fixture.take(46);
    while !fixture.ring.is_nearly_full() {
        fixture.push(2, 1, 0);
    }
    fixture.relieve();
    assert_eq!(fixture.counters.drop_queue_full, 0);
}

#[test]
fn a_sparse_flow_of_a_paused_lane_is_still_next() {
    let mut fixture = Fixture::new();
    (1..=3).for_each(|flow| (0..2).for_each(|_| fixture.push_of(flow, 7, 45, 1)));
    fixture.push(1, 45, 1);
    fixture.take(150);
    fixture.queue.pause(0, Some(7));
    assert_eq!(fixture.take(1), []);
    fixture.push_of(9, 7, 1, 0);
    assert_eq!(fixture.take(1), []);
    fixture.queue.resume();
    fixture.fill(46);
    let Fixture { ring, out, .. } = &fixture;
    let is_sparse = |slot: &u64| ring.cell(*slot).first_record == 0 && ring.filled(*slot)[PREFIX + 1] == 0;
    assert!(out.iter().any(is_sparse), "at most a record is before it");
}

#[test]
fn a_packet_or_a_superframe_is_the_least_that_its_sender_may_have() {
    let told = |kind, waiting| {
        let mut fixture = Fixture::new();
        (0..waiting).for_each(|_| fixture.push(1, 20, kind));
        for _ in 0..100 {
            fixture.push(1, 20, kind);
            fixture.later(20);
            fixture.take(20);
        }
        fixture.counters.drop_queue_late
    };
    assert_eq!([told(1, 1), told(0, 1)], [0, 0], "one behind the packet that leaves");
    assert!(told(0, 2) > 0, "two of them are a queue");
}

#[test]
fn what_waits_for_a_peer_that_is_gone_is_forgotten() {
    let mut fixture = Fixture::new();
    fixture.push(1, 45, 1);
    fixture.push(5, 1, 0);
    assert_eq!(fixture.queue.forget_peer(0, &mut fixture.ring), 46);
    assert!(!fixture.ring.has_waiting());
    assert_eq!(fixture.take(10), []);
    fixture.push(1, 1, 0);
    assert_eq!(fixture.take(10), [1]);
}

#[test]
fn queues_of_one_lane_send_whole_records_and_the_sparse_one_is_next() {
    let mut fixture = Fixture::new();
    fixture.push_of(1, 7, 45, 1);
    fixture.push_of(2, 7, 45, 1);
    assert_eq!(fixture.take(60).len(), 60);
    fixture.push_of(3, 7, 1, 0);
    let begins = |fixture: &mut Fixture| {
        assert!(fixture.turn(1));
        let [slot] = fixture.drain()[..] else { panic!("a turn of one cell") };
        let ring = &fixture.ring;
        (ring.cell(slot).first_record == 0, ring.filled(slot)[PREFIX + 1] == 0)
    };
    assert!((0..30).all(|_| !begins(&mut fixture).0), "the record that has begun");
    assert_eq!(begins(&mut fixture), (true, true), "the sparse flow");
    assert!(!fixture.ring.has_waiting());
}

#[test]
fn a_small_flow_among_a_hundred_large_ones_waits_for_a_record_at_most() {
    let mut fixture = Fixture::new();
    fixture.ring = Ring::new(CELL, 16_384);
    for flow in 0..100_u8 {
        (0..2).for_each(|_| fixture.push_of(flow.into(), flow % 16, 45, 1));
    }
    fixture.take(5_000);
    for lane in 0..16 {
        fixture.push_of(1_000 + u64::from(lane), lane, 1, 0);
        let taken = fixture.take(46);
        let rest = taken.iter().take_while(|other| **other == lane).count();
        assert!((1..=45).contains(&rest), "{taken:?}");
        assert!(fixture.queue.new.is_empty());
    }
}

#[test]
fn superframes_that_wait_for_a_link_of_their_own_are_not_spared() {
    let mut fixture = Fixture::new();
    fixture.push(1, 1, 0);
    while !fixture.ring.is_nearly_full() {
        fixture.push(2, 45, 1);
    }
    fixture.queue.pause(0, Some(2));
    assert_eq!(fixture.take(100), [1]);
    fixture.later(100);
    fixture.relieve();
    assert_eq!(fixture.counters.drop_queue_full, 0, "it may go on at once");
    fixture.later(1);
    assert!(fixture.ring.is_nearly_full());
    fixture.relieve();
    assert!(fixture.counters.drop_queue_full == 1 && !fixture.ring.is_nearly_full());
    fixture.queue.resume();
    assert_eq!(fixture.take(2), [2, 2], "what stood still is first");
}

#[test]
fn a_flow_with_more_than_its_share_is_shut_until_enough_has_left() {
    let mut fixture = Fixture::new();
    fixture.queue.set_wanted(60);
    let mut said = Vec::new();
    let mut listen = |fixture: &mut Fixture| {
        said.clear();
        said.extend(
            core::iter::from_fn(|| fixture.queue.gates.pop()).map(|gate| (gate.gate, gate.is_closed)),
        );
        said.clone()
    };
    fixture.push(1, 45, 1);
    assert_eq!(listen(&mut fixture), [], "alone, it may have all that is to wait");
    fixture.push(2, 20, 1);
    fixture.push(1, 1, 1);
    assert_eq!(listen(&mut fixture), [(1, true)], "of 60, the share of two is 30");
    while fixture.queue.queues.iter().any(|queue| queue.is_closed) {
        fixture.take(1);
    }
    assert_eq!(listen(&mut fixture), [(1, false)]);
    (0..2).for_each(|_| fixture.push(1, 40, 1));
    fixture.queue.forget_peer(0, &mut fixture.ring);
    assert_eq!(listen(&mut fixture), [(1, true), (1, false)]);
    fixture.queue.set_wanted(usize::MAX);
    (0..10).for_each(|_| fixture.push(1, 45, 1));
    assert_eq!(listen(&mut fixture), [], "as many as may");
}

proptest! {
    /// Whatever waits, and however many cells leave at once: each lane is a stream of whole records.
    #[test]
    fn lanes_are_streams_of_records(
        steps in proptest::collection::vec((0u64..12, 1usize..12, 1usize..40, 0u8..4), 1..120),
    ) {
        let mut fixture = Fixture::new();
        let mut sent: [Vec<u64>; 4] = Default::default();
        let mut drain = |fixture: &mut Fixture, most: usize| {
            fixture.fill(most);
            for slot in fixture.drain() {
                sent[usize::from(fixture.ring.cell(slot).lane)].push(slot);
            }
        };
        let mut expected = [0; 12];
        for (flow, cells, most, pause) in steps {
            if !fixture.ring.is_nearly_full() {
                let lane = u8::try_from(flow % 4).unwrap();
                fixture.push_of(flow, lane, cells, 0);
                expected[usize::try_from(flow).unwrap()] += cells;
            }
            if pause == 3 {
                fixture.queue.pause(0, Some(u8::try_from(flow % 4).unwrap()));
            } else {
                fixture.queue.resume();
            }
            drain(&mut fixture, most);
        }
        fixture.queue.resume();
        drain(&mut fixture, 10_000);
        prop_assert!(!fixture.ring.has_waiting());
        for slots in &sent {
            let mut lacking = 0;
            for slot in slots {
                let bytes = fixture.ring.filled(*slot);
                if lacking == 0 {
                    let Ok(record::Start::Frame(length)) = record::parse(bytes) else {
                        return Err(TestCaseError::fail("no record begins where one ended"));
                    };
                    lacking = PREFIX + length;
                }
                prop_assert!(bytes.len() <= lacking);
                lacking -= bytes.len();
            }
            prop_assert_eq!(lacking, 0);
        }
        prop_assert_eq!(sent.iter().map(Vec::len).sum::<usize>(), expected.iter().sum::<usize>());
    }
}
