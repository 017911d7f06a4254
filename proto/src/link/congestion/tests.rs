//! A window against a bottleneck: what the path carries, and how long its queue becomes.

use super::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes of a cell.
const CELL: u64 = 1_468;
/// From one step to the next.
const STEP: u64 = 250_000;

/// A bottleneck behind the NIC, and a report of it each few milliseconds.
struct Path {
    congestion: Congestion,
    now: u64,
    /// Bits per second, and how long a cell takes there and a report back without a queue.
    rate: u64,
    way: u64,
    /// Nanoseconds that the queue may last; what comes beyond is lost.
    longest: u64,
    /// One cell of so many is lost on the way.
    loses: u64,
    /// Nanoseconds that a cell is held up at most, with all behind it; and what the last one drew.
    jitter: u64,
    drawn: u64,
    /// Numbers and times at which they arrive, and reports on their way back.
    cells: VecDeque<(u64, u64)>,
    reports: VecDeque<(u64, Duration, Arrived)>,
    free: u64,
    next: u64,
    highest: u64,
    received: u64,
    report_at: u64,
    heartbeats: u8,
    /// How far the peer's clock is ahead, in microseconds.
    clock: u64,
    /// The queue in milliseconds at each report.
    queues: Vec<f64>,
    /// By how many milliseconds the wait of a cell differed from what was foreseen.
    errors: Vec<f64>,
}

impl Path {
    /// One that was quiet until now.
    fn new(megabits: u64, way_millis: u64, longest_millis: u64) -> Self {
        let mut path = Self {
            congestion: Congestion::new(),
            now: 1_000_000_000,
            rate: megabits * 1_000_000,
            way: way_millis * 1_000_000,
            longest: longest_millis * 1_000_000,
            loses: u64::MAX,
            jitter: 0,
            drawn: 1,
            cells: VecDeque::new(),
            reports: VecDeque::new(),
            free: 0,
            next: 1,
            highest: 0,
            received: 0,
            report_at: 0,
            heartbeats: 0,
            clock: 7_000_000,
            queues: Vec::new(),
            errors: Vec::new(),
        };
        path.run(100, 0);
        path
    }

    /// Sends as much as the window allows for so long, or `most` bytes in a step; returns what arrived in Mbit/s.
    fn run(&mut self, millis: u64, most: u64) -> f64 {
        self.queues.clear();
        self.errors.clear();
        let (until, before) = (self.now + millis * 1_000_000, self.received);
        while self.now < until {
            self.send(most);
            self.arrive();
            self.now += STEP;
        }
        (self.received - before) as f64 * CELL as f64 * 8.0 / (millis as f64 * 1_000.0)
    }

    fn send(&mut self, most: u64) {
        let now = Instant::from_nanos(self.now);
        let mut left = most;
        while left >= CELL && !self.congestion.is_full(now) {
            let waits = self.free.saturating_sub(self.now) as f64 / 1e6;
            self.errors.push((self.congestion.wait(now).as_secs_f64() * 1e3 - waits).abs());
            let cells = (self.congestion.batch_limit(now).min(left) / CELL).clamp(1, 44);
            (0..cells).for_each(|_| self.send_cell());
            left -= (cells * CELL).min(left);
            self.congestion.handle_sent(now, self.next, cells * CELL);
        }
    }

    fn send_cell(&mut self) {
        let start = self.free.max(self.now);
        if start - self.now <= self.longest && !self.next.is_multiple_of(self.loses) {
            self.free = start + CELL * 8_000_000_000 / self.rate;
            let arrives = self.arrives();
            self.cells.push_back((self.next, arrives));
        }
        self.next += 1;
    }

    /// When a cell arrives that leaves the bottleneck last.
    fn arrives(&mut self) -> u64 {
        self.drawn =
            self.drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let held_up = (self.drawn >> 33) % (self.jitter + 1);
        let last = self.cells.back().map_or(0, |(_, at)| *at);
        last.max(self.free.max(self.now) + self.way + held_up)
    }

    fn arrive(&mut self) {
        while let Some((number, _)) = self.cells.front().copied().filter(|(_, at)| *at <= self.now) {
            self.cells.pop_front();
            (self.highest, self.received) = (number, self.received + 1);
        }
        if self.now >= self.report_at {
            // Heartbeats both ways for 16 cells, as they pay for them.
            self.send_cell();
            self.report_at = self.now + (16 * CELL * 8_000_000_000 / self.rate).clamp(1_000_000, 10_000_000);
            let queue = self.free.saturating_sub(self.now);
            self.queues.push(queue as f64 / 1e6);
            let took = self.arrives() - self.now;
            let delay = u32::try_from(took / 1_000 + self.clock).unwrap() & 0xff_ffff;
            let count = u32::try_from(self.received).unwrap();
            self.heartbeats = self.heartbeats.wrapping_add(1);
            let heartbeats = self.heartbeats;
            let arrived = Arrived {
                next: self.highest + 1,
                count,
                heartbeats,
                delay,
                nic: Duration::ZERO,
                written: u32::try_from(self.now / 1_000 % (1 << 32)).unwrap(),
                gathers: None,
            };
            let trip = Duration::from_nanos(2 * self.way + queue);
            self.reports.push_back((self.now + self.way, trip, arrived));
        }
        while let Some((_, trip, arrived)) = self.reports.front().copied().filter(|(at, ..)| *at <= self.now)
        {
            self.reports.pop_front();
            self.congestion.handle_trip(trip);
            self.congestion.handle_report(Instant::from_nanos(self.now), self.next, arrived);
        }
    }

    /// Once `settled` milliseconds are over, at least this share of the rate arrives for as many as `measured`, and at most one
    /// report in 20 finds a queue of more than `longest` milliseconds. Returns the share of cells that were lost.
    fn is_used(&mut self, [settled, measured]: [u64; 2], least: f64, longest: f64) -> f64 {
        self.run(settled, u64::MAX);
        let (sent, received) = (self.next, self.received);
        let share = self.run(measured, u64::MAX) * 1e6 / self.rate as f64;
        self.queues.sort_by(f64::total_cmp);
        let worst = self.queues[self.queues.len() * 19 / 20];
        let (rate, way, jitter) = (self.rate, self.way, self.jitter);
        assert!(share >= least, "{rate} bit/s, {way} ns, {jitter} ns of jitter: {share} of it");
        assert!(worst <= longest, "{rate} bit/s, {way} ns, {jitter} ns of jitter: {worst} ms of queue");
        1.0 - (self.received - received) as f64 / (self.next - sent) as f64
    }
}

#[test]
fn a_bottleneck_is_busy_and_its_queue_short_at_any_rate_and_length() {
    for (megabits, way, longest) in [
        (5, 10, 100),
        (20, 0, 100),
        (50, 0, 100),
        (50, 40, 100),
        (200, 10, 10),
        (500, 0, 4),
        (500, 40, 10),
        (5_000, 0, 4),
    ] {
        Path::new(megabits, way, longest).is_used([2_000, 3_000], 0.95, 11.0);
    }
}

#[test]
fn the_wait_of_a_cell_is_foreseen_also_on_a_long_way_and_whoever_holds_it_back() {
    for (megabits, way) in [(50, 0), (50, 40), (500, 10)] {
        let mut path = Path::new(megabits, way, 100);
        path.run(3_000, u64::MAX);
        let mut worst = |most| {
            path.run(2_000, most);
            path.errors.sort_by(f64::total_cmp);
            path.errors[path.errors.len() * 9 / 10]
        };
        let errors = [worst(u64::MAX), worst((megabits * STEP * 9 / 80_000).max(CELL))];
        assert!(errors.iter().all(|error| *error <= 2.0), "{megabits} Mbit/s, {way} ms: {errors:.2?} ms");
    }
}

#[test]
fn a_path_that_varies_is_used_up_and_its_queue_stays_short() {
    for (megabits, longest, jitter) in
        [(5, 200, 10), (20, 150, 3), (50, 100, 10), (50, 100, 30), (200, 20, 10)]
    {
        let mut path = Path::new(megabits, 10, longest);
        path.jitter = jitter * 1_000_000;
        path.run(1_000, 0);
        path.is_used([3_000, 5_000], 0.93, 40.0);
    }
}

#[test]
fn a_rate_that_changes_is_followed_on_a_path_that_varies() {
    let mut path = Path::new(50, 10, 200);
    path.jitter = 10_000_000;
    path.run(1_000, 0);
    path.run(3_000, u64::MAX);
    for (megabits, within) in [(5, 2_000), (50, 5_000)] {
        path.rate = megabits * 1_000_000;
        path.is_used([within, 2_000], 0.9, 60.0);
    }
}

#[test]
fn a_path_that_varies_by_more_in_quiet_is_known_to() {
    let mut path = Path::new(50, 10, 100);
    for jitter in [4, 20] {
        path.jitter = jitter * 1_000_000;
        path.run(2_000, 0);
        let known = path.congestion.variation().expect("it varies").as_millis();
        assert!((u128::from(jitter) / 2..=u128::from(jitter)).contains(&known), "{jitter} ms: {known} ms");
    }
}

#[test]
fn a_path_that_varies_no_more_has_the_law_of_others() {
    let mut path = Path::new(50, 10, 100);
    path.jitter = 10_000_000;
    path.run(1_000, 0);
    path.run(1_000, u64::MAX);
    assert!(path.congestion.variation().is_some());
    path.jitter = 0;
    path.run(4_000, 0);
    assert!(path.congestion.variation().is_none());
    path.is_used([2_000, 3_000], 0.95, 11.0);
}

#[test]
fn a_rate_that_falls_is_followed_in_300_milliseconds_and_one_that_rises_in_2_seconds() {
    let mut path = Path::new(50, 10, 1_000);
    path.run(2_000, u64::MAX);
    path.rate = 5_000_000;
    path.is_used([300, 1_000], 0.9, 50.0);
    path.rate = 50_000_000;
    path.is_used([2_000, 1_000], 0.95, f64::INFINITY);
}

#[test]
fn loss_without_a_queue_costs_no_more_than_itself() {
    let mut path = Path::new(50, 20, 100);
    path.loses = 100;
    path.is_used([2_000, 3_000], 0.93, 11.0);
}

#[test]
fn a_queue_shorter_than_wanted_loses_little_once_it_is_known() {
    let lost = Path::new(200, 5, 2).is_used([2_000, 3_000], 0.93, f64::INFINITY);
    assert!(lost <= 0.005, "{lost}");
}

#[test]
fn a_policer_has_no_queue_and_loses_little() {
    let lost = Path::new(50, 10, 1).is_used([3_000, 5_000], 0.8, f64::INFINITY);
    assert!(lost <= 0.15, "{lost}");
}

#[test]
fn who_sends_less_than_the_window_allows_keeps_it() {
    let mut path = Path::new(1_000, 1, 10);
    path.run(1_000, u64::MAX);
    path.run(50, 8 * CELL);
    let window = path.congestion.window.size();
    path.run(5_000, 8 * CELL);
    assert_eq!(path.congestion.window.size(), window);
    assert!(path.congestion.rate().is_some());
    path.run(10_000, 8 * CELL);
    assert_eq!(path.congestion.rate(), None, "nothing was held back for long");
}

#[test]
fn a_way_that_becomes_longer_is_no_queue_for_long() {
    let mut path = Path::new(50, 5, 100);
    path.run(2_000, u64::MAX);
    path.way += 25_000_000;
    path.is_used([25_000, 3_000], 0.95, 11.0);
}

#[test]
fn clocks_that_drift_while_nothing_is_sent_are_no_queue() {
    let mut path = Path::new(50, 5, 100);
    path.run(2_000, u64::MAX);
    // 100 ppm in 10 minutes.
    for _ in 0..60 {
        path.clock += 1_000;
        path.run(10_000, 0);
    }
    assert!(path.congestion.queue() <= Duration::from_millis(4), "{:?}", path.congestion.queue());
    path.is_used([1_000, 3_000], 0.95, 11.0);
}
