//! Probes over a way that carries so much: what is found, how soon, and what is not taken for an MTU.

use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

const FULL: u16 = 1_452;
const HEADERS: u16 = 48;

/// A path that carries cells of at most `carries` bytes, and the clock.
struct Way {
    mtu: PathMtu,
    now: Instant,
    next: u64,
    count: u32,
    probed: Option<u32>,
    carries: u16,
    probes: Vec<u16>,
    falls: usize,
}

impl Way {
    fn new(full: u16, headers: u16, carries: u16) -> Self {
        let now = Instant::default() + Duration::from_secs(9);
        let mut mtu = PathMtu::new(now);
        mtu.fit(now, full, headers);
        Self { mtu, now, next: 0, count: 0, probed: None, carries, probes: Vec::new(), falls: 0 }
    }

    fn report(&mut self) -> Finding {
        let finding = self.mtu.handle_report(self.now, self.next, self.count, self.probed);
        self.falls += usize::from(finding == Finding::Fell);
        finding
    }

    /// A millisecond passes, with a heartbeat, and a probe before it when one is due; `arrives`: of the probe, if it fits.
    fn tick(&mut self, arrives: bool) -> Finding {
        self.now = self.now + Duration::from_millis(1);
        self.mtu.fit(self.now, self.mtu.full, self.mtu.headers);
        if self.mtu.poll(self.now) {
            let length = self.mtu.length().unwrap();
            self.probes.push(length);
            self.mtu.handle_sent(self.next);
            if length <= self.carries && arrives {
                self.count += 1;
                self.probed = Some(wire_seq(self.next));
            }
            self.next += 1;
        }
        self.next += 1;
        self.count += 1;
        self.report()
    }

    /// How many milliseconds pass until the search is over.
    fn search(&mut self) -> usize {
        1 + (0..60_000).position(|_| matches!(self.tick(true), Finding::Found { .. })).unwrap()
    }

    fn run(&mut self, millis: usize) {
        for _ in 0..millis {
            self.tick(true);
        }
    }
}

#[test]
fn a_path_that_carries_what_the_nics_take_is_confirmed_by_one_probe() {
    let mut way = Way::new(FULL, HEADERS, FULL);
    assert!(way.mtu.is_unconfirmed());
    assert_eq!(way.tick(true), Finding::Confirmed);
    way.run(29_000);
    assert_eq!((way.mtu.size(), &way.probes[..]), (FULL, &[FULL][..]));
    assert_eq!(way.mtu.packets(), Some((1_500, 1_500)));
}

#[test]
fn a_usual_mtu_is_found_exactly_within_half_a_second() {
    for packet in USUAL.into_iter().filter(|packet| (BASE..1_500).contains(packet)) {
        let mut way = Way::new(FULL, HEADERS, packet - HEADERS);
        let millis = way.search();
        assert!(millis < 500, "{packet}: {millis} ms");
        assert_eq!(way.mtu.packets(), Some((packet, 1_500)), "{:?}", way.probes);
        assert_eq!(way.falls, 1);
    }
}

#[test]
fn a_path_without_the_least_mtu_of_ipv6_is_found_as_well() {
    let mut way = Way::new(FULL, HEADERS, 1_006 - HEADERS);
    assert!(way.search() < 1_000);
    assert_eq!(way.mtu.packets(), Some((1_006, 1_500)));
    assert!(way.mtu.is_below_base());
    let mut way = Way::new(1_232, HEADERS, 0);
    way.search();
    assert_eq!(way.mtu.size(), CELL_LEAST, "no cell is smaller");
    way.run(60_000);
    assert_eq!(way.mtu.size(), CELL_LEAST);
}

#[test]
fn a_change_is_found_when_cells_are_lost_and_undone_by_itself() {
    let mut way = Way::new(FULL, HEADERS, FULL);
    way.run(1_000);
    way.carries = 1_352;
    way.next += 3;
    let millis = way.search();
    assert!(millis < 500, "{millis} ms");
    assert_eq!((way.mtu.size(), way.falls), (1_352, 1));
    way.carries = FULL;
    way.run(31_000);
    assert_eq!((way.mtu.size(), way.falls), (FULL, 1));
}

#[test]
fn without_losses_no_more_is_asked_than_each_half_minute() {
    let mut way = Way::new(FULL, HEADERS, FULL);
    way.run(100_000);
    assert_eq!(way.probes.len(), 4);
    let mut way = Way::new(FULL, HEADERS, 1_352);
    way.search();
    let asked = way.probes.len();
    way.run(100_000);
    assert!(way.probes.len() - asked < 100, "{}", way.probes.len() - asked);
    assert_eq!(way.falls, 1, "a search changes nothing before it is over");
}

#[test]
fn losses_of_other_cells_ask_five_times_a_second_at_most() {
    let mut way = Way::new(FULL, HEADERS, FULL);
    for _ in 0..10_000 {
        way.next += 1;
        way.tick(true);
    }
    assert!((40..=51).contains(&way.probes.len()), "{}", way.probes.len());
    assert_eq!(way.falls, 0);
}

#[test]
fn four_lost_probes_in_a_row_are_chance_and_five_are_the_mtu() {
    let mut way = Way::new(FULL, HEADERS, FULL);
    way.tick(true);
    for lost in [4, 5] {
        way.mtu.doubt(way.now);
        let before = way.probes.len();
        while way.probes.len() < before + lost {
            way.tick(false);
        }
        assert_eq!(way.falls, lost - 4);
        way.run(20);
    }
}

#[test]
fn a_dead_path_says_nothing() {
    let mut way = Way::new(FULL, HEADERS, FULL);
    way.tick(true);
    way.mtu.doubt(way.now);
    assert!(way.mtu.poll(way.now));
    way.mtu.handle_sent(way.next);
    way.next += 1;
    for _ in 0..10_000 {
        way.now = way.now + Duration::from_millis(1);
        assert!(!way.mtu.poll(way.now), "one is on its way");
        assert_eq!(way.mtu.handle_report(way.now, way.next - 1, way.count, way.probed), Finding::Nothing);
    }
    way.run(100);
    assert_eq!((way.mtu.size(), way.mtu.lost, way.falls), (FULL, 1, 0));
}

#[test]
fn a_path_that_was_left_is_asked_again_before_it_is_believed() {
    let mut way = Way::new(FULL, HEADERS, FULL);
    way.tick(true);
    way.mtu.leave(way.now);
    assert!(way.mtu.is_unconfirmed());
    assert_eq!(way.tick(true), Finding::Confirmed);
    way.mtu.fit(way.now, 8_952, HEADERS);
    assert_eq!((way.mtu.size(), way.mtu.is_unconfirmed()), (8_952, true));
}

#[test]
fn a_probe_that_did_not_leave_is_written_again() {
    let mut way = Way::new(FULL, HEADERS, FULL);
    assert!(way.mtu.poll(way.now));
    way.mtu.handle_sent(0);
    way.mtu.take_back();
    assert_eq!(way.mtu.due(), Some(way.now + PROBE_EVERY));
    way.run(20);
    assert!(!way.mtu.is_unconfirmed());
}

proptest! {
    #[test]
    fn cells_are_never_longer_than_what_passes_once_the_search_is_over(
        full in CELL_LEAST..9_000, headers in 20_u16..60, carries in CELL_LEAST..9_000, losses in any::<u64>()
    ) {
        let mut way = Way::new(full, headers, carries);
        for tick in 0..20_000 {
            // Two probes of a length in a row do not arrive by chance.
            let arrives = tick % 64 % 3 == 0 || losses >> (tick % 64) & 1 == 0;
            way.tick(arrives);
        }
        let passes = carries.min(full);
        prop_assert!(way.mtu.size() <= passes);
        prop_assert!(losses != 0 || way.mtu.size() + STEP >= passes, "{} of {passes}", way.mtu.size());
        prop_assert!(way.probes.len() < 2_000);
        prop_assert!(way.probes.iter().all(|length| (CELL_LEAST..=full).contains(length)));
    }
}
