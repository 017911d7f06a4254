//! Properties of the engine when frames come at made-up times.

use super::spin::{SPAN, WINDOW_NS};
use super::*;
use alloc::vec::Vec;
use proptest::collection::vec;
use proptest::prelude::*;
use tabane_proto::time::nanos;

const POLL: Duration = Duration::from_micros(1);
/// How late a sleeper wakes up.
const WAKE: Duration = Duration::from_micros(30);
const FAR: Duration = Duration::from_secs(1);

/// A frame in one direction, and in the other.
const SENT: Moved = Moved { from_device: 1, to_device: 0 };
const CAME: Moved = Moved { from_device: 0, to_device: 1 };

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A worker that waits for frames, which come when the test says.
struct Rig {
    engine: Receive,
    now: Instant,
    /// When it spun: begin and end.
    spins: Vec<(Instant, Instant)>,
}

impl Rig {
    fn new(method: Method, share: u8) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let engine = Receive::new(now, Settings { method, share, ..Settings::default() });
        Self { engine, now, spins: Vec::new() }
    }

    /// Waits for what comes at `at` and moves `moved`; returns how late it was found.
    fn wait_for(&mut self, at: Instant, moved: Moved) -> Duration {
        loop {
            let begun = self.now;
            let step = self.engine.next(begun, begun + FAR, None);
            self.now = match step {
                Wait::Spin => begun + POLL,
                Wait::Sleep(most) => (begun + most).min(at.max(begun)) + WAKE,
                Wait::SleepThrough(length) => begun + length + WAKE,
            };
            if step == Wait::Spin {
                self.spins.push((begun, self.now));
            }
            let found = self.now >= at;
            self.engine.polled(self.now, found);
            if found {
                let late = self.now.since(at);
                self.engine.turn(self.now, moved);
                return late;
            }
            self.engine.turn(self.now, Moved::default());
        }
    }

    /// Waits for frames that come so long after each other, to and fro; returns how late each was found.
    fn play(&mut self, gaps: impl IntoIterator<Item = Duration>) -> Vec<Duration> {
        let turns = [SENT, CAME].into_iter().cycle();
        gaps.into_iter().zip(turns).map(|(gap, moved)| self.wait_for(self.now + gap, moved)).collect()
    }

    fn counters(&self) -> Counters {
        self.engine.counters()
    }
}

#[test]
fn each_engine_waits_in_its_own_way() {
    let now = Instant::from_nanos(1_000_000_000);
    let next = |method, due| {
        let mut engine = Receive::new(now, Settings { method, ..Settings::default() });
        engine.next(now, now + due, None)
    };
    assert_eq!(next(Method::Interrupt, FAR), Wait::Sleep(FAR));
    assert_eq!(next(Method::Timer, FAR), Wait::SleepThrough(micros(20)));
    assert_eq!(next(Method::Timer, micros(7)), Wait::SleepThrough(micros(7)));
    assert_eq!(next(Method::Busy, FAR), Wait::Spin);
    assert_eq!(next(Method::Adaptive, FAR), Wait::Sleep(FAR), "nothing is known yet");
}

#[test]
fn a_link_without_interrupts_bounds_each_sleep() {
    let start = Instant::from_nanos(1_000_000_000);
    let mut engine = Receive::new(start, Settings::default());
    assert_eq!(engine.next(start, start + FAR, Some(micros(32))), Wait::Sleep(SELDOM), "nothing moved yet");
    engine.turn(start, CAME);
    let mut after = |silence| engine.next(start + silence, start + FAR, Some(micros(32)));
    assert_eq!(after(micros(10)), Wait::Sleep(micros(32)), "frames move");
    assert_eq!(after(micros(8_000)), Wait::Sleep(micros(1_000)), "an eighth of the silence");
    assert_eq!(after(micros(500_000)), Wait::Sleep(SELDOM));
    assert_eq!(after(FAR - micros(10)), Wait::Sleep(micros(10)), "what is due comes first");
    let mut engine = Receive::new(start, Settings::default());
    let slow = engine.next(start + FAR, start + 2 * FAR, Some(micros(9_000)));
    assert_eq!(slow, Wait::Sleep(micros(9_000)), "an interval longer than that is kept");
}

#[test]
fn a_ping_pong_is_caught() {
    let mut rig = Rig::new(Method::Adaptive, 100);
    rig.play([micros(15); 20]);
    let before = rig.counters();
    assert!(rig.play([micros(15); 1_000]).iter().all(|late| *late < POLL));
    assert_eq!(rig.counters().sleeps, before.sleeps);
    assert_eq!(rig.counters().caught - before.caught, 1_000);
}

#[test]
fn what_comes_seldom_is_slept_for() {
    let mut rig = Rig::new(Method::Adaptive, 100);
    rig.play([micros(100_000); 50]);
    assert_eq!((rig.counters().spins, rig.counters().sleeps), (0, 50));
}

/// Answers after 20 us and questions after 5 ms, 100 of each, which move frames as `moved` says in turn: the answers
/// are caught, the questions slept for. Returns for how long it spun.
fn spun_for_answers(moved: [Moved; 2]) -> Duration {
    let mut rig = Rig::new(Method::Adaptive, 100);
    for number in 0..100 {
        let [question, answer] = [(5_000, moved[0]), (20, moved[1])]
            .map(|(gap, moved)| rig.wait_for(rig.now + micros(gap), moved));
        assert!(number < 16 || (question, answer < POLL) == (WAKE, true), "{question:?} {answer:?}");
    }
    Duration::from_nanos(rig.counters().spun_ns)
}

#[test]
fn the_engine_spins_for_answers_and_not_for_the_next_question() {
    let wait = micros(26);
    for moved in [[SENT, CAME], [CAME, SENT]] {
        let spun = spun_for_answers(moved);
        assert!(spun < 100 * wait, "as long as an answer takes and a quarter of that: {spun:?}");
    }
    let spun = spun_for_answers([CAME, CAME]);
    assert!(spun < 200 * wait, "and as long after, where the direction does not distinguish them: {spun:?}");
}

#[test]
fn the_engine_does_not_spin_for_heartbeats_in_quiet() {
    let mut rig = Rig::new(Method::Adaptive, 100);
    rig.play([micros(15); 100]);
    let before = rig.counters().spun_ns;
    for number in 0..1_000 {
        rig.wait_for(rig.now + micros(if number % 2 == 0 { 15 } else { 10_000 }), Moved::default());
    }
    let spun = Duration::from_nanos(rig.counters().spun_ns - before);
    assert!(spun < micros(20), "only the wait after the last frame: {spun:?}");
}

/// Others take the processor for 3 ms, `times` times, each after so many frames that come soon; says for how many
/// milliseconds the engine did not spin after each.
fn back_offs(times: usize, frames: usize) -> Vec<u128> {
    let mut rig = Rig::new(Method::Adaptive, 100);
    // Too few to gather.
    let gap = micros(30);
    rig.play([gap; 20]);
    let back_off = |_| {
        rig.play(core::iter::repeat_n(gap, frames));
        assert_eq!(rig.engine.next(rig.now, rig.now + FAR, None), Wait::Spin);
        rig.now = rig.now + micros(3_000);
        rig.engine.polled(rig.now, false);
        let taken = rig.now;
        assert!(matches!(rig.engine.next(rig.now, rig.now + FAR, None), Wait::Sleep(_)));
        rig.engine.turn(rig.now, CAME);
        let spins = rig.counters().spins;
        while rig.counters().spins == spins {
            rig.play([gap]);
        }
        rig.now.since(taken).as_millis()
    };
    (0..times).map(back_off).collect()
}

#[test]
fn who_is_kept_from_the_processor_sleeps_for_longer_and_longer() {
    assert_eq!(back_offs(12, 20), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 640, 640]);
}

#[test]
fn interruptions_that_spinning_makes_up_for_are_soon_forgotten() {
    assert_eq!(back_offs(12, 260), [1; 12]);
    assert_eq!(back_offs(12, 30_000)[11], 1, "however many frames there were");
}

/// Frames come so long after each other, while a worker that spins gets the processor back after 3 ms; says how often
/// it slept in a second, after a tenth.
fn sleeps_among_others(gap: Duration) -> u64 {
    let mut rig = Rig::new(Method::Adaptive, 90);
    let start = rig.now;
    let mut before = 0;
    while rig.now < start + micros(1_100_000) {
        if rig.now < start + micros(100_000) {
            before = rig.counters().sleeps;
        }
        let begun = rig.now;
        let spins = rig.engine.next(begun, begun + FAR, None) == Wait::Spin;
        rig.now = begun + if spins { micros(3_000) } else { gap + WAKE };
        rig.engine.polled(rig.now, true);
        let frames = nanos(rig.now.since(begun)) / nanos(gap);
        rig.engine.turn(rig.now, Moved { from_device: 0, to_device: u32::try_from(frames).expect("few") });
    }
    rig.counters().sleeps - before
}

#[test]
fn many_frames_gather_while_others_have_the_processor() {
    assert_eq!(sleeps_among_others(micros(20)), 0, "no frame is slept for");
    assert!(sleeps_among_others(micros(60)) > 9_000, "nearly each is");
}

#[test]
fn a_burst_does_not_make_frames_many() {
    let mut rate = Rate::default();
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut after = |passed, frames| {
        now = now + passed;
        rate.count(now, frames);
        rate.is_high()
    };
    assert!(!after(SPAN, 1_000), "as the span before is unknown");
    assert!(!after(SPAN / 10, 399) && !after(SPAN * 9 / 10, 1), "40,000 in a second");
    assert!(!after(SPAN / 10, 399) && after(SPAN * 9 / 10, 2), "and more");
}

#[test]
fn a_share_of_nothing_is_interrupts() {
    let mut rig = Rig::new(Method::Adaptive, 0);
    rig.play([micros(15); 100]);
    assert_eq!((rig.counters().spins, rig.counters().sleeps), (0, 100));
}

#[test]
fn a_used_up_share_is_saved_for_before_it_is_spent_again() {
    let mut rig = Rig::new(Method::Adaptive, 20);
    rig.play([micros(15); 20_000]);
    let pauses = rig.spins.windows(2).map(|pair| pair[1].0.since(pair[0].1));
    let long: Vec<_> = pauses.filter(|pause| *pause > micros(1_000)).collect();
    // Half a window's worth of a fifth: 2 ms of spinning, saved in 10 ms.
    assert!(long.len() > 5 && long.iter().all(|pause| pause.as_millis() == 10), "{long:?}");
}

#[test]
fn what_is_changed_holds_at_once() {
    let mut rig = Rig::new(Method::Busy, 100);
    rig.play([micros(15); 3]);
    let settings = Settings { method: Method::Interrupt, ..rig.engine.settings() };
    rig.engine.change(rig.now, settings);
    assert_eq!(rig.engine.settings(), settings);
    assert_eq!(rig.engine.next(rig.now, rig.now + FAR, None), Wait::Sleep(FAR));
}

/// Gaps of all sizes, most of them such that spinning pays.
fn gaps() -> impl Strategy<Value = Vec<Duration>> {
    let gap = prop_oneof![4 => 0..80_u64, 1 => 80..2_000_u64, 1 => 2_000..50_000_u64];
    vec(gap.prop_map(micros), 1..400)
}

proptest! {
    /// The bound of the invariant, for each span that begins and ends with a spin.
    #[test]
    fn spinning_takes_no_more_than_its_share(gaps in gaps(), share in 0..=100_u8) {
        let mut rig = Rig::new(Method::Adaptive, share);
        rig.play(gaps);
        let percent = u64::from(share);
        let ends: Vec<u64> = rig.spins.iter().map(|(_, end)| end.as_nanos()).collect();
        let spun: u64 = rig.spins.iter().map(|(begin, end)| nanos(end.since(*begin))).sum();
        prop_assert_eq!(spun, rig.counters().spun_ns);
        for first in (0..ends.len()).step_by(97) {
            let begin = rig.spins[first].0.as_nanos();
            for last in (first..ends.len()).step_by(89) {
                let spent = (last - first + 1) as u64 * 1_000;
                let allowed = (ends[last] - begin + WINDOW_NS) * percent / 100 + 2_000;
                prop_assert!(spent <= allowed, "{} ns of {}", spent, ends[last] - begin);
            }
        }
    }

    /// No wait is longer than what is due allows, whatever came before; so nothing is ever missed.
    #[test]
    fn nobody_waits_beyond_what_is_due(
        gaps in gaps(),
        method in prop::sample::select(&Method::ALL[..]),
        due in 0..100_000_u64,
        unannounced in prop::option::of(1..100_000_u64),
    ) {
        let mut rig = Rig::new(method, 50);
        rig.play(gaps);
        let wait = rig.engine.next(rig.now, rig.now + micros(due), unannounced.map(micros));
        let length = match wait {
            Wait::Spin => Duration::ZERO,
            Wait::Sleep(length) | Wait::SleepThrough(length) => length,
        };
        prop_assert!(length <= micros(due));
    }

    /// For the last waits, no other time to spin would have cost less.
    #[test]
    fn no_other_time_to_spin_for_would_have_cost_less(
        lengths in vec(0..200_u64, 1..=16),
        sleep in 1..150_u64,
        other in 0..200_u64,
    ) {
        let mut waits = Waits::default();
        lengths.iter().for_each(|length| waits.record(micros(*length)));
        let cost = |spin: u64| -> u64 {
            lengths.iter().map(|wait| if *wait <= spin { *wait } else { spin + sleep }).sum()
        };
        // Without the margin, which is a fifth of the whole.
        let best = waits.best(micros(sleep)) * 4 / 5;
        prop_assert!(cost(nanos(best) / 1_000) <= cost(other), "{:?} {}", best, other);
    }
}
