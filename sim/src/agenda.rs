//! The agenda: the time, and the queue of events that drives the world.
//!
//! Invariant: events come out by time, and those of one time in the order in which they went in, so that a run is the
//! same each time.

use crate::cable::{Passage, Place};
use crate::competitor::Fate;
use crate::fault::Fault;
use std::collections::BTreeMap;
use tabane_proto::{Instant, PolicyKind};

/// Something that happens to one part of the world.
pub(crate) enum Event {
    Start(u8),
    /// A datagram has arrived at its switch.
    Switch(Passage),
    /// The first datagram of the router's queue for a node has left, if this is still its turn.
    Router(Place, u64),
    /// A competing flow that shares a router's queue begins, or gets the acknowledgement or the loss of a segment.
    Competitor(Place, Fate),
    Interrupt(Place),
    Writable(Place),
    /// A NIC's carrier has changed, and the kernel signals it to the node.
    Carrier(Place, bool),
    Timer(u8),
    /// A worker that was busy, or is woken late, takes its turn.
    Wake(u8),
    Flow(usize),
    FlowEnd(usize),
    Fault(Fault, bool),
    Policy(u8, PolicyKind),
    Injection,
    Deed,
}

#[derive(Default)]
pub(crate) struct Agenda {
    pub(crate) now: Instant,
    /// By time and number.
    events: BTreeMap<(Instant, u64), Event>,
    /// Events that were put in since the beginning.
    count: u64,
}

impl Agenda {
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        self.events.insert((at, self.count), event);
        self.count += 1;
    }

    /// Goes on to the next event, or to `until` if none happens by then.
    pub(crate) fn pop(&mut self, until: Instant) -> Option<Event> {
        let first = self.events.first_entry().filter(|first| first.key().0 <= until);
        let at = first.as_ref().map_or(until, |first| first.key().0);
        debug_assert!(at >= self.now, "time goes forward");
        self.now = at;
        first.map(|first| first.remove())
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Event> {
        self.events.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_and_then_in_the_order_of_arrival() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos;
        for (time, node) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            agenda.push(at(time), Event::Timer(node));
        }
        let mut order = Vec::new();
        while let Some(Event::Timer(node)) = agenda.pop(at(4)) {
            order.push(node);
        }
        assert_eq!(order, [1, 3], "later events stay");
        assert_eq!((agenda.now, agenda.waiting().count()), (at(4), 2));
    }
}
