//! The speed of a node's worker: a fault may make it take time for each datagram, or wake up late.
//!
//! Beside [`crate::turn`]. Without a fault a turn takes no time. A slow worker reads at most [`READ_AT_ONCE`] datagrams of
//! each socket in a turn and is busy with them for a while; a late one begins its turn some time after its cause. Datagrams
//! that arrive meanwhile wait in the sockets, and those that do not fit are lost, as in a kernel.
//!
//! Invariant: a worker that does not run has an event that wakes it.

use core::time::Duration;
use tabane_proto::Instant;

/// Datagrams that a slow worker reads from one socket before it does anything else: one `recvmmsg`.
pub(crate) const READ_AT_ONCE: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Worker {
    /// The time that it takes for each datagram.
    pub(crate) per_datagram: Duration,
    /// How long after its cause a turn begins.
    pub(crate) late: Duration,
    /// When it is woken, if it does not run before.
    wakes_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// It does.
    Now,
    /// Not before the event that was announced already.
    Later,
    /// Not before an event that has to be put in for this time.
    At(Instant),
}

impl Worker {
    /// There is a cause for a turn.
    pub(crate) fn cause(&mut self, now: Instant) -> Begins {
        match self.wakes_at {
            Some(at) if now < at => Begins::Later,
            None if self.late > Duration::ZERO => self.sleep(now + self.late),
            _ => {
                self.wakes_at = None;
                Begins::Now
            }
        }
    }

    /// The event that wakes it is here; returns whether it is the latest one.
    pub(crate) fn is_woken(&self, now: Instant) -> bool {
        self.wakes_at == Some(now)
    }

    /// Datagrams that it reads from one socket in one turn.
    pub(crate) fn reads_at_once(&self) -> usize {
        if self.per_datagram > Duration::ZERO { READ_AT_ONCE } else { usize::MAX }
    }

    /// It has read so many datagrams. Returns the event for its next turn, if it is busy with them until then.
    pub(crate) fn has_read(&mut self, now: Instant, datagrams: usize) -> Option<Instant> {
        let busy = self.per_datagram * u32::try_from(datagrams).unwrap_or(u32::MAX);
        if busy == Duration::ZERO {
            return None;
        }
        self.wakes_at = Some(now + busy);
        self.wakes_at
    }

    fn sleep(&mut self, until: Instant) -> Begins {
        self.wakes_at = Some(until);
        Begins::At(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    fn micros(count: u64) -> Instant {
        Instant::from_nanos(count * 1_000)
    }

    #[test]
    fn a_late_worker_is_woken_once_for_all_causes_of_the_meantime() {
        let mut worker = Worker { late: 10 * MICRO, ..Worker::default() };
        assert_eq!(worker.cause(micros(5)), Begins::At(micros(15)));
        assert_eq!(worker.cause(micros(14)), Begins::Later);
        assert!(worker.is_woken(micros(15)));
        assert_eq!(worker.cause(micros(15)), Begins::Now);
        assert!(!worker.is_woken(micros(15)), "the event of a turn that has begun otherwise");
    }

    #[test]
    fn a_slow_worker_is_busy_with_what_it_has_read() {
        let mut worker = Worker { per_datagram: 2 * MICRO, ..Worker::default() };
        assert_eq!(worker.cause(micros(5)), Begins::Now);
        assert_eq!(worker.has_read(micros(5), 64), Some(micros(133)));
        assert_eq!(worker.cause(micros(132)), Begins::Later);
        assert_eq!(worker.cause(micros(133)), Begins::Now);
        assert_eq!(worker.has_read(micros(133), 0), None, "nothing to do: the next cause is served at once");
    }

    #[test]
    fn a_worker_without_a_fault_takes_no_time() {
        let mut worker = Worker::default();
        assert_eq!((worker.cause(micros(5)), worker.reads_at_once()), (Begins::Now, usize::MAX));
        assert_eq!(worker.has_read(micros(5), 1_000), None);
    }
}
