//! Incast: several peers send to one link at once, so that the cells of one may wait in the switch behind those of others.
//!
//! Beside [`crate::link::health`] and [`crate::link::outbound`]. Incast fills the queue of the switch's port to the receiver within a
//! millisecond, long before any measured delay shows it. Then a peer's cells are late and nothing is dead: what arrives from
//! the others over the same link shows that switch and cable work. When a switch dies, all of them fall silent together.

use crate::time::Instant;
use core::time::Duration;

/// How much longer cells of a path may be missing under incast: 1 MiB in a switch's queue at 42 Mbit/s. A queue that stands for
/// longer is measured as skew.
pub(crate) const INCAST_EXTRA: Duration = Duration::from_millis(200);
/// A link has incast while it has received from another peer so lately: each live peer sends over each link each 10 ms, and
/// its cell arrives when what stands before it in the queue has passed.
pub(crate) const OTHERS_WITHIN: Duration = Duration::from_millis(20);

/// From whom a link has received lately.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Incast {
    /// The peer of the last cell, and when it came.
    last: Option<(u16, Instant)>,
    /// When the last cell of any other peer came.
    before: Option<Instant>,
}

impl Incast {
    pub(crate) fn note(&mut self, now: Instant, peer: u16) {
        if let Some((other, at)) = self.last
            && other != peer
        {
            self.before = Some(at);
        }
        self.last = Some((peer, now));
    }

    /// Whether the link has received from another peer than `peer` within the last `span`.
    pub(crate) fn received_others(&self, now: Instant, peer: u16, span: Duration) -> bool {
        let others = match self.last {
            Some((last, at)) if last != peer => Some(at),
            _ => self.before,
        };
        others.is_some_and(|at| now.since(at) < span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_alone_is_no_incast() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let span = Duration::from_millis(4);
        let mut incast = Incast::default();
        incast.note(at(1), 7);
        assert!(!incast.received_others(at(1), 7, span) && incast.received_others(at(1), 8, span));
        incast.note(at(2), 8);
        incast.note(at(3), 8);
        assert!(incast.received_others(at(4), 7, span) && incast.received_others(at(4), 8, span));
        assert!(!incast.received_others(at(5), 8, span), "peer 7 was received 4 ms ago");
        assert!(!incast.received_others(at(7), 7, span), "so was peer 8");
    }
}
