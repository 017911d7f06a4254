//! How the worker waits between turns: for its device and all its links at once, as the receive engine says
//! (`proto/src/engine/receive.rs`).
//!
//! A look is one call of `epoll` that does not wait, and a glance at the memory of links that nothing tells of, or not of
//! everything. Between two
//! looks the processor is offered to others (`sched_yield(2)`): on a machine with few processors, what is looked for is
//! often made by somebody who waits for this one.

use std::thread;
use std::time::Duration;

use tabane_io::AnyLink;
use tabane_proto::Instant;
use tabane_proto::engine::receive::Wait;

use super::{Ready, TAP, WAKER, Worker, clock};

/// How often room is looked for in the rings of AF_XDP: a batch leaves in this time at 10 Gbit/s.
const ROOM: Duration = Duration::from_micros(50);

impl Worker {
    /// Waits until something is ready or due; says what, and when that was seen.
    pub(super) fn wait(&mut self) -> std::io::Result<(Instant, Ready)> {
        let mut now = clock();
        self.engine.turn(now, std::mem::take(&mut self.moved));
        let due = self.bundle.poll_timeout(now);
        let due = self.wait_until(due, now);
        let mut due = self.rings_due(now).map_or(due, |rings| rings.min(due));
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

    /// How often, under traffic, is to be looked at the links that nothing tells of.
    fn shortest_poll(&self) -> Option<Duration> {
        let polls = self.ports.iter().flatten().filter_map(|port| match &port.link {
            AnyLink::Mem(link) => Some(link.poll()),
            AnyLink::Ether(_) | AnyLink::Udp(_) => None,
        });
        polls.min()
    }

    /// When the rings of Ethernet links are to be looked at, if epoll does not tell.
    fn rings_due(&self, now: Instant) -> Option<Instant> {
        let due = self.ports.iter().flatten().filter_map(|port| match &port.link {
            AnyLink::Ether(link) if link.has_news() => Some(now),
            AnyLink::Ether(link) => link.wants_tending(port.wants_room).then_some(now + ROOM),
            AnyLink::Mem(_) | AnyLink::Udp(_) => None,
        });
        due.min()
    }

    /// Looks into rings and shared memory, and notes what is there as what epoll would have said of these links; `true`:
    /// somebody came or went.
    fn glance(&mut self, now: Instant, ready: &mut Ready) -> bool {
        let mut changed = false;
        for (number, port) in (0_u8..).zip(&mut self.ports) {
            let Some(port) = port else { continue };
            let link = match &mut port.link {
                AnyLink::Mem(link) => link,
                AnyLink::Ether(link) => {
                    ready.readable |= u16::from(link.has_news()) << number;
                    if link.wants_tending(port.wants_room) {
                        ready.writable |= u16::from(link.tend() && port.wants_room) << number;
                    }
                    continue;
                }
                AnyLink::Udp(_) => continue,
            };
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
