//! Whether the device has a carrier: as long as some worker can reach some peer, and a little longer.
//!
//! Peers send to each worker by itself, so workers notice a few milliseconds apart that a peer has come or gone. The
//! device has one carrier: each worker has a bit for what it knows, and the carrier follows from all of them.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tabane_process::locked;
use tabane_proto::Instant;

/// How long the device keeps its carrier while no peer can be reached, also before the first one is: Linux
/// may hold a device that regains its carrier back for a second or more, and most interruptions are shorter.
const CARRIER_KEPT: Duration = Duration::from_secs(3);

/// Which workers can reach a peer.
#[derive(Debug)]
pub(crate) struct Reach {
    /// Workers that can reach some peer, a bit each.
    reachable: AtomicU64,
    /// Workers whose last peer has said that it ends, a bit each.
    left: AtomicU64,
    /// When some peer could be reached last, in nanoseconds of the workers' clock; at first, when the device was
    /// opened.
    reached: AtomicU64,
    /// Whether the device has a carrier, as it was set last.
    carrier: AtomicBool,
    /// One worker at a time sets the carrier, so that the last setting follows from all bits.
    setting: Mutex<()>,
}

impl Reach {
    /// Of a device that has a carrier or none.
    pub(crate) fn new(now: Instant, carrier: bool) -> Self {
        Self {
            reachable: AtomicU64::new(0),
            left: AtomicU64::new(0),
            reached: AtomicU64::new(now.as_nanos()),
            carrier: AtomicBool::new(carrier),
            setting: Mutex::default(),
        }
    }

    pub(crate) fn carrier(&self) -> bool {
        self.carrier.load(Ordering::Relaxed)
    }

    /// Notes whether `worker`, a number below 64, can reach a peer now, and whether its last peer has said that it
    /// ends.
    pub(crate) fn note(&self, now: Instant, worker: u16, has_way: bool, was_left: bool) {
        for (bits, is_set) in [(&self.reachable, has_way), (&self.left, was_left)] {
            let bit = 1 << (worker % 64);
            // The bit rarely changes, and a load is cheaper than an exchange.
            if (bits.load(Ordering::Relaxed) & bit != 0) == is_set {
                continue;
            }
            if is_set {
                bits.fetch_or(bit, Ordering::Relaxed);
            } else {
                bits.fetch_and(!bit, Ordering::Relaxed);
            }
        }
        if has_way {
            self.reached.fetch_max(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Sets the device's carrier by `set` if it has to change; `true`: it is known whether there is a peer.
    pub(crate) fn follow(&self, now: Instant, set: impl FnOnce(bool) -> io::Result<()>) -> bool {
        match self.wanted(now) {
            None => return false,
            Some(wanted) if wanted == self.carrier() => return true,
            Some(_) => {}
        }
        let _setting = locked(&self.setting);
        if let Some(wanted) = self.wanted(now)
            && self.carrier.swap(wanted, Ordering::Relaxed) != wanted
            && let Err(error) = set(wanted)
        {
            tracing::debug!(%error, "the device keeps its carrier");
        }
        true
    }

    /// The carrier that the device should have; `None`: leave it.
    fn wanted(&self, now: Instant) -> Option<bool> {
        if self.reachable.load(Ordering::Relaxed) != 0 {
            return Some(true);
        }
        let silent_for = now.since(Instant::from_nanos(self.reached.load(Ordering::Relaxed)));
        let is_lost = self.left.load(Ordering::Relaxed) != 0 || silent_for > CARRIER_KEPT;
        is_lost.then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// The changes of the carrier after `steps`: when, which worker, whether it can reach a peer, and whether
    /// its last peer has ended.
    fn changes(steps: &[(u64, u16, bool, bool)]) -> Vec<(u64, bool)> {
        let (reach, changes) = (Reach::new(at(0), true), RefCell::new(Vec::new()));
        for (millis, worker, has_way, was_left) in steps {
            reach.note(at(*millis), *worker, *has_way, *was_left);
            reach.follow(at(*millis), |carrier| {
                changes.borrow_mut().push((*millis, carrier));
                Ok(())
            });
        }
        changes.into_inner()
    }

    #[test]
    fn a_farewell_that_workers_receive_one_after_the_other_ends_the_carrier_once() {
        let (way, left) = ((true, false), (false, true));
        let steps = [(1, 0, way), (1, 1, way), (10, 0, left), (11, 1, way), (12, 0, left), (13, 1, left)];
        let steps = steps.map(|(at, worker, (has_way, was_left))| (at, worker, has_way, was_left));
        assert_eq!(changes(&steps), [(13, false)], "when the last one has received it");
        let missed = [(1, 0, true, false), (1, 1, true, false), (10, 0, false, true), (210, 1, false, false)];
        assert_eq!(changes(&missed), [(210, false)], "one has missed it");
    }

    #[test]
    fn the_carrier_outlives_a_silence_of_three_seconds_and_comes_back_with_any_path() {
        let steps = [
            (1, 0, true, false),
            (5, 1, true, false),
            (10, 0, false, false),
            (10, 1, false, false),
            (3_005, 0, false, false),
            (3_006, 1, false, false),
            (9_000, 0, false, false),
            (9_001, 1, true, false),
            (9_002, 0, false, false),
        ];
        assert_eq!(changes(&steps), [(3_006, false), (9_001, true)]);
        assert_eq!(changes(&[(2_999, 0, false, false)]), []);
    }
}
