//! How the worker waits between turns: for its device and all its links at once, as the receive engine says
//! (`proto/src/engine/receive.rs`).
//!
//! A look is one call of `epoll` that does not wait, and a glance at the memory of links that nothing tells of. Between two
//! looks the processor is offered to others (`sched_yield(2)`): on a machine with few processors, what is looked for is
//! often made by somebody who waits for this one.

use std::thread;
use std::time::Duration;

use tabane_io::AnyLink;
use tabane_proto::Instant;
use tabane_proto::engine::receive::Wait;

use super::{Ready, TAP, WAKER, Worker, clock};

impl Worker {
    /// Waits until something is ready or due; says what, and when that was seen.
    pub(super) fn wait(&mut self) -> std::io::Result<(Instant, Ready)> {
        let mut now = clock();
        self.engine.turn(now, std::mem::take(&mut self.moved));
        let due = self.bundle.poll_timeout(now);
        let mut due = self.wait_until(due, now);
        let unannounced = self.shortest_poll();
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
            if self.look_at_memory(now, &mut ready) {
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

    /// How often, under traffic, is to be looked at the links that nothing tells of.
    fn shortest_poll(&self) -> Option<Duration> {
        let polls = self.ports.iter().flatten().filter_map(|port| match &port.link {
            AnyLink::Mem(link) => Some(link.poll()),
            AnyLink::Udp(_) => None,
        });
        polls.min()
    }

    /// Looks who is in shared memory, and notes these links as what epoll would have said of them; `true`: somebody came or
    /// went.
    fn look_at_memory(&mut self, now: Instant, ready: &mut Ready) -> bool {
        let mut changed = false;
        for (number, port) in (0_u8..).zip(&mut self.ports) {
            let Some(port) = port else { continue };
            let AnyLink::Mem(link) = &mut port.link else { continue };
            if let Some(faults) = link.tend(Duration::from_nanos(now.as_nanos())) {
                let nic = &self.nics[usize::from(number)];
                tracing::warn!(nic, ?faults, "another node writes what cannot be true");
            }
            ready.readable |= u16::from(link.has_news()) << number;
            ready.writable |= u16::from(port.wants_room && link.has_room_again()) << number;
            if link.has_carrier() != port.carrier {
                port.carrier = link.has_carrier();
                self.bundle.handle_carrier(now, number, port.carrier);
                changed = true;
            }
        }
        changed
    }
}
