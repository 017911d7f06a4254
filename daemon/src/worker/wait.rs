//! How the worker waits between turns: for its device and all its links at once, as the receive engine says
//! (`proto/src/engine/receive.rs`).
//!
//! A look is one call of `epoll` that does not wait, and a glance at rings and memory that no descriptor tells of. Between
//! two looks the processor is offered to others (`sched_yield(2)`): on a machine with few processors, what is looked for is
//! often made by somebody who waits for this one.

use std::thread;
use std::time::Duration;

use tabane_proto::Instant;
use tabane_proto::engine::receive::Wait;

use super::{Ready, TAP, WAKER, Worker, clock};

impl Worker {
    /// Waits until something is ready or due; says what, and when that was seen.
    pub(super) fn wait(&mut self) -> std::io::Result<(Instant, Ready)> {
        let mut now = clock();
        self.engine.turn(now, std::mem::take(&mut self.moved));
        let due = self.bundle.poll_timeout(now);
        let due = self.wait_until(due, now);
        let ports = || self.ports.iter().flatten();
        let within = ports().filter_map(|port| port.link.glance_within(port.wants_room)).min();
        let mut due = within.map_or(due, |within| due.min(now + within));
        let unannounced = ports().filter_map(|port| port.link.poll()).min();
        loop {
            let wait = self.engine.next(now, due, unannounced);
            let timeout = match wait {
                Wait::Look => Duration::ZERO,
                Wait::Sleep(length) => length,
                Wait::Nap(length) => {
                    thread::sleep(length);
                    Duration::ZERO
                }
            };
            let mut ready = self.look(timeout)?;
            now = clock();
            if self.glance(now, &mut ready) {
                due = now;
            }
            self.engine.looked(now, ready.tap || ready.readable != 0);
            if ready != Ready::default() || now >= due {
                return Ok((now, ready));
            }
            if wait == Wait::Look {
                thread::yield_now();
            }
        }
    }

    /// What epoll says within `timeout`.
    fn look(&mut self, timeout: Duration) -> std::io::Result<Ready> {
        let mut ready = Ready::default();
        for event in self.poll.wait(Some(timeout))? {
            match event.token {
                TAP => ready.tap = true,
                WAKER => ready.waker = true,
                port => {
                    ready.readable |= u16::from(event.readable || event.error) << port;
                    ready.writable |= u16::from(event.writable) << port;
                }
            }
        }
        Ok(ready)
    }

    /// Looks where no descriptor tells, and notes what is there as what epoll would have said; `true`: somebody came or went.
    fn glance(&mut self, now: Instant, ready: &mut Ready) -> bool {
        let mut changed = false;
        for (number, port) in (0_u8..).zip(&mut self.ports) {
            let Some(port) = port else { continue };
            let seen = port.link.glance(Duration::from_nanos(now.as_nanos()), port.wants_room);
            ready.readable |= u16::from(seen.readable) << number;
            ready.writable |= u16::from(seen.writable) << number;
            if let Some(faults) = seen.faults {
                let nic = &self.nics[usize::from(number)];
                tracing::warn!(nic, ?faults, "another node writes what cannot be true");
            }
            if let Some(carrier) = seen.carrier.filter(|carrier| *carrier != port.carrier) {
                port.carrier = carrier;
                self.bundle.handle_carrier(now, number, carrier);
                changed = true;
            }
        }
        changed
    }
}
