//! How the worker waits between turns: for its device and all its links at once, as the receive engine says
//! (`engine/src/receive.rs`).
//!
//! While it spins, the worker calls `epoll` without waiting, and polls the rings and the memory that have no
//! descriptor. Between two polls it offers the processor to others (`sched_yield(2)`): on a machine with few
//! processors, the frame that it waits for often comes from a thread that waits for this processor.

use std::thread;
use std::time::Duration;

use tabane_engine::receive::Wait;
use tabane_proto::Instant;

use super::links::WatchedLink;
use super::{READ_AGAIN, Ready, TAP, WAKER, Worker, clock};

impl Worker {
    /// Waits until something is ready or due; returns when that was, and what is ready.
    pub(super) fn wait(&mut self) -> (Instant, Ready) {
        let mut now = clock();
        self.engine.turn(now, std::mem::take(&mut self.moved));
        let due = self.bundle.poll_timeout(now);
        let due = self.wait_until(due, now);
        let links = || self.links.iter().flatten();
        let within = links().filter_map(|link| link.io.poll_within(link.wants_room)).min();
        let mut due = within.map_or(due, |within| due.min(now + within));
        let unwatched = self.bits_of(WatchedLink::is_unwatched);
        if unwatched != 0 {
            due = due.min(now + READ_AGAIN);
        }
        let links = || self.links.iter().flatten();
        let unannounced = links().filter_map(|link| link.io.poll_interval()).min();
        loop {
            let wait = self.engine.next(now, due, unannounced);
            let timeout = match wait {
                Wait::Spin => Duration::ZERO,
                Wait::Sleep(length) => length,
                Wait::SleepThrough(length) => {
                    thread::sleep(length);
                    Duration::ZERO
                }
            };
            let mut ready = self.wait_for_descriptors(timeout);
            now = clock();
            if self.poll_memory(now, &mut ready) {
                due = now;
            }
            self.engine.polled(now, ready.tap || ready.readable != 0);
            if ready != Ready::default() || now >= due {
                ready.writable |= unwatched;
                return (now, ready);
            }
            if wait == Wait::Spin {
                thread::yield_now();
            }
        }
    }

    /// What epoll reports within `timeout`.
    fn wait_for_descriptors(&mut self, timeout: Duration) -> Ready {
        let waited = self.poll.wait(Some(timeout)).map(|events| {
            let mut ready = Ready::default();
            events.for_each(|event| ready.note(event));
            ready
        });
        waited.unwrap_or_else(|error| {
            self.shared.device.count_unwatched(&error);
            // Anything may be ready: all descriptors are non-blocking, so trying costs a system call each.
            let (readable, writable) = (self.bits_of(|_| true), self.bits_of(|link| link.wants_room));
            Ready { tap: true, tap_failed: true, waker: true, readable, writable }
        })
    }

    /// The links for which `holds` is true, a bit each.
    fn bits_of(&self, holds: impl Fn(&WatchedLink) -> bool) -> u16 {
        let links = (0..).zip(&self.links);
        let those = links.filter(|(_, link)| link.as_ref().is_some_and(&holds));
        those.fold(0, |bits, (number, _): (u16, _)| bits | 1 << number)
    }

    /// Polls rings and memory, and adds what is ready there to `ready`; `true`: a node came or went.
    fn poll_memory(&mut self, now: Instant, ready: &mut Ready) -> bool {
        let mut changed = false;
        for (number, link) in (0_u8..).zip(&mut self.links) {
            let Some(link) = link else { continue };
            let seen = link.io.poll(Duration::from_nanos(now.as_nanos()), link.wants_room);
            ready.readable |= u16::from(seen.readable) << number;
            ready.writable |= u16::from(seen.writable) << number;
            if let Some(faults) = seen.faults {
                let nic = &self.nics[usize::from(number)];
                tracing::warn!(nic, ?faults, "another node writes impossible values into shared memory");
            }
            if let Some(carrier) = seen.carrier.filter(|carrier| *carrier != link.carrier) {
                link.carrier = carrier;
                self.bundle.handle_carrier(now, number, carrier);
                changed = true;
            }
        }
        changed
    }
}

impl Ready {
    fn note(&mut self, event: tabane_io::Ready) {
        match event.token {
            TAP => {
                self.tap |= event.readable;
                self.tap_failed |= event.error;
            }
            WAKER => self.waker = true,
            link => {
                self.readable |= u16::from(event.readable || event.error) << link;
                self.writable |= u16::from(event.writable) << link;
            }
        }
    }
}
