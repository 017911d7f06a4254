//! When a flow is to be signalled congestion: the `CoDel` state machine.
//!
//! Beside [`crate::send::queue`]. A queue that absorbs a burst is good; one that stays is not. So not the length of a queue
//! counts but how long its packets wait: when every one of them has waited for more than a target ([`TARGET`]) during an
//! interval ([`INTERVAL`]), one packet pays for it, and further ones do at growing frequency until a packet has not waited
//! so long. Both grow with the round trip of a long path ([`Limits`]): a sender who halves its window there would leave the
//! links idle. So it would if it paid again before its answer shows.
//!
//! Pure: it sees times, not packets. What "pays" means (mark, trim, drop) is up to the caller.
//! Source: RFC 8289, 4.2 to 4.4 and 5.3 to 5.6; the names are those of its pseudo-code.

use crate::time::{Instant, nanos};
use core::time::Duration;

/// A wait that does no harm.
pub(crate) const TARGET: Duration = Duration::from_millis(5);
/// How long a queue may stay above the target: the round trip of a slow connection, which needs that long to react.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Within so many intervals, a return goes on with the frequency that was found before.
const REMEMBERED: u32 = 16;

/// What is too long on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    target: Duration,
    interval: Duration,
    /// How long it takes until the queue shows that a packet has paid.
    answer: Duration,
}

impl Limits {
    /// The interval is a round trip, and the target a fifth of it, but never less than usual. RFC 8289, 4.3, recommends a tenth at
    /// most, for many flows at once. Here one flow has to fill all links, and with so short a queue CUBIC, which takes three tenths
    /// off its window, leaves them idle afterwards: a fifth carries 0.7 % more over links of 1 and 50 ms each way.
    ///
    /// A sender hears of a packet that has paid after a round trip, and takes its window back during the next (RFC 6937), which the
    /// queue makes longer.
    ///
    /// `spread`: how much further away one link is than another. The policy `adaptive` uses the further link for a flow of which more waits.
    pub(crate) fn of(round_trip: Duration, spread: Duration) -> Self {
        Self {
            target: TARGET.max(round_trip / 5) + spread,
            interval: INTERVAL.max(round_trip),
            answer: 3 * round_trip,
        }
    }

    /// The same while it is not known what the path carries. TCP and the path both send twice as much with each round trip then, so a queue
    /// stays although neither is too fast yet.
    pub(crate) fn of_start(self) -> Self {
        Self { target: self.target.max(INTERVAL), ..self }
    }
}

/// The state of one flow's queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Codel {
    /// When packets will have waited too long for an interval, if they go on so.
    first_above_time: Option<Instant>,
    /// Packets pay now and then.
    dropping: bool,
    /// When the next one pays.
    drop_next: Instant,
    /// `drop_next` is that of the packet that paid last; the time after it is computed with the next packet.
    drop_owed: bool,
    /// Packets that have paid since the state began, and what that was when it began.
    count: u32,
    lastcount: u32,
}

impl Codel {
    /// Whether the packet at the head of the queue pays. It has waited for `sojourn`; `is_last`: next to nothing waits
    /// behind it. A packet that pays by being dropped is followed by the next, which is judged in its turn.
    pub(crate) fn judge(&mut self, now: Instant, limits: Limits, sojourn: Duration, is_last: bool) -> bool {
        let ok_to_drop = self.is_above(now, limits, sojourn, is_last);
        if !self.dropping {
            if ok_to_drop {
                self.enter(now, limits);
            }
            return ok_to_drop;
        }
        if !ok_to_drop {
            self.dropping = false;
            return false;
        }
        if core::mem::take(&mut self.drop_owed) {
            self.drop_next = control_law(self.drop_next, limits, self.count);
        }
        if now < self.drop_next {
            return false;
        }
        self.count += 1;
        self.drop_owed = true;
        true
    }

    /// The queue has run empty.
    pub(crate) fn handle_empty(&mut self) {
        self.first_above_time = None;
        self.dropping = false;
    }

    /// Whether packets have waited too long for a whole interval.
    fn is_above(&mut self, now: Instant, limits: Limits, sojourn: Duration, is_last: bool) -> bool {
        if sojourn < limits.target || is_last {
            self.first_above_time = None;
            return false;
        }
        now >= *self.first_above_time.get_or_insert(now + limits.interval)
    }

    /// The first packet pays.
    fn enter(&mut self, now: Instant, limits: Limits) {
        let delta = self.count - self.lastcount;
        let lately = now.since(self.drop_next) < limits.interval * REMEMBERED;
        self.count = if delta > 1 && lately { delta } else { 1 };
        self.lastcount = self.count;
        self.dropping = true;
        self.drop_owed = false;
        self.drop_next = control_law(now, limits, self.count);
    }
}

/// `interval / sqrt(count)` after `from`: what makes TCP's rate, which falls with the root of the loss, fall linearly. But not before
/// an answer.
fn control_law(from: Instant, limits: Limits, count: u32) -> Instant {
    // The square of an interval above 4.29 s does not fit into 64 bits.
    let interval = u128::from(nanos(limits.interval));
    let nanos = (interval * interval / u128::from(count.max(1))).isqrt();
    from + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(limits.answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn an_interval_of_any_length_has_a_root() {
        let of = |interval| Limits { interval, ..NEAR };
        let at = control_law(Instant::from_nanos(0), of(Duration::from_secs(2_000)), 4);
        assert_eq!(at, Instant::from_nanos(1_000_000_000_000));
        control_law(Instant::from_nanos(0), of(Duration::MAX), 1);
    }

    #[test]
    fn what_comes_after_the_queue_was_empty_has_an_interval_of_its_own() {
        let mut codel = Codel::default();
        let at = |millis| Instant::from_nanos(millis * 1_000_000);
        let pays = |codel: &mut Codel, millis| codel.judge(at(millis), NEAR, TARGET * 2, false);
        let interval = nanos(INTERVAL) / 1_000_000;
        assert!(!pays(&mut codel, 1_000) && pays(&mut codel, 1_000 + interval));
        codel.handle_empty();
        assert!(!pays(&mut codel, 1_002 + 2 * interval) && pays(&mut codel, 1_002 + 3 * interval));
    }

    /// The pseudo-code of RFC 8289, 5.5 and 5.6, word by word, over a queue of arrival times.
    #[derive(Default)]
    struct Rfc {
        queue: VecDeque<Instant>,
        first_above_time: u64,
        drop_next: u64,
        count: u32,
        lastcount: u32,
        dropping: bool,
        dropped: Vec<Instant>,
    }

    impl Rfc {
        fn control_law(t: u64, count: u32) -> u64 {
            control_law(Instant::from_nanos(t), NEAR, count).as_nanos()
        }

        fn dodequeue(&mut self, now: u64) -> (Option<Instant>, bool) {
            let Some(p) = self.queue.pop_front() else {
                self.first_above_time = 0;
                return (None, false);
            };
            let sojourn_time = now - p.as_nanos();
            if sojourn_time < nanos(TARGET) || self.queue.is_empty() {
                self.first_above_time = 0;
            } else if self.first_above_time == 0 {
                self.first_above_time = now + nanos(INTERVAL);
            } else if now >= self.first_above_time {
                return (Some(p), true);
            }
            (Some(p), false)
        }

        fn dequeue(&mut self, now: u64) -> Option<Instant> {
            let (mut p, mut ok_to_drop) = self.dodequeue(now);
            if self.dropping {
                self.dropping &= ok_to_drop;
                while now >= self.drop_next && self.dropping {
                    self.dropped.extend(p);
                    self.count += 1;
                    (p, ok_to_drop) = self.dodequeue(now);
                    if ok_to_drop {
                        self.drop_next = Self::control_law(self.drop_next, self.count);
                    } else {
                        self.dropping = false;
                    }
                }
            } else if ok_to_drop {
                self.dropped.extend(p);
                p = self.dodequeue(now).0;
                self.dropping = true;
                let delta = self.count - self.lastcount;
                self.count = 1;
                if delta > 1 && now.saturating_sub(self.drop_next) < 16 * nanos(INTERVAL) {
                    self.count = delta;
                }
                self.drop_next = Self::control_law(now, self.count);
                self.lastcount = self.count;
            }
            p
        }
    }

    /// The same over the same queue by the state machine.
    #[derive(Default)]
    struct Judged {
        queue: VecDeque<Instant>,
        codel: Codel,
        dropped: Vec<Instant>,
    }

    impl Judged {
        fn dequeue(&mut self, now: Instant) -> Option<Instant> {
            while let Some(head) = self.queue.pop_front() {
                if !self.codel.judge(now, NEAR, now.since(head), self.queue.is_empty()) {
                    return Some(head);
                }
                self.dropped.push(head);
            }
            self.codel.handle_empty();
            None
        }
    }

    fn millis(count: u64) -> Instant {
        Instant::from_nanos(count * 1_000_000)
    }

    /// A path whose round trip is shorter than the usual interval.
    const NEAR: Limits = Limits { target: TARGET, interval: INTERVAL, answer: Duration::ZERO };
    const LONG: Duration = Duration::from_millis(6);

    #[test]
    fn who_stays_above_pays_more_and_more_often() {
        let mut codel = Codel::default();
        let paid = (0..10_000).filter(|now| codel.judge(millis(1_000 + now), NEAR, LONG, false));
        let paid: Vec<_> = paid.take(5).collect();
        assert_eq!(paid, [100, 200, 271, 329, 379], "100 ms / sqrt(1), sqrt(2), sqrt(3), sqrt(4)");
    }

    #[test]
    fn a_long_path_is_given_more_time() {
        assert_eq!(Limits::of(Duration::ZERO, Duration::ZERO), NEAR);
        let far = Limits::of(Duration::from_millis(200), Duration::ZERO);
        let mut codel = Codel::default();
        assert!((0..1_000).all(|now| !codel.judge(millis(now), far, Duration::from_millis(39), false)));
        let paid =
            (0..10_000).filter(|now| codel.judge(millis(1_000 + now), far, Duration::from_millis(40), false));
        assert_eq!(paid.take(3).collect::<Vec<_>>(), [200, 800, 1_400], "200 ms, and three round trips each");
    }

    proptest! {
        #[test]
        fn it_does_what_the_pseudo_code_does(
            steps in proptest::collection::vec((1u64..20_000, 0usize..12, 1usize..4), 100..400),
            scale in 1u64..30,
        ) {
            let (mut rfc, mut judged) = (Rfc::default(), Judged::default());
            let mut now = 1_000_000_000;
            for (micros, arrivals, departures) in steps {
                now += micros * 1_000;
                let arrivals = if now / 1_000_000_000 % scale.min(4) == 0 { arrivals } else { arrivals / 8 };
                for _ in 0..arrivals {
                    rfc.queue.push_back(Instant::from_nanos(now));
                    judged.queue.push_back(Instant::from_nanos(now));
                }
                for _ in 0..departures {
                    let at = now + 100;
                    prop_assert_eq!(rfc.dequeue(at), judged.dequeue(Instant::from_nanos(at)));
                }
            }
            prop_assert_eq!(rfc.dropped, judged.dropped);
        }
    }
}
