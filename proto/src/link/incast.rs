//! Whether a link is crowded: other peers' cells come in by it, so that one peer's may be waiting for them in the switch.
//!
//! Beside [`crate::link::health`] and [`crate::link::outbound`]. Incast fills the queue of the switch's port to the receiver within a
//! millisecond, long before any measured delay tells so. Then a peer's cells are late and nothing is dead: what comes from
//! the others by the same link shows that switch and cable live. When a switch dies, all of them fall silent together.

use crate::time::Instant;
use core::time::Duration;

/// How much longer a path over a crowded link may owe cells: 1 MiB in a switch's queue at 42 Mbit/s. A queue that stands for
/// longer is measured as skew.
pub(crate) const CROWDED_FOR: Duration = Duration::from_millis(200);
/// A link is crowded while another peer was heard on it so lately: whoever lives is heard on each link each 10 ms, or
/// when what stands before it in the queue has passed.
pub(crate) const OTHERS_HEARD_WITHIN: Duration = Duration::from_millis(20);

/// Who came in by a link lately.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crowd {
    /// The peer that was heard last, and when.
    last: Option<(u16, Instant)>,
    /// When any other peer was.
    before: Option<Instant>,
}

impl Crowd {
    /// A cell of `peer` came in.
    pub(crate) fn note(&mut self, now: Instant, peer: u16) {
        if let Some((other, at)) = self.last
            && other != peer
        {
            self.before = Some(at);
        }
        self.last = Some((peer, now));
    }

    /// Whether another peer than `peer` was heard within the last `span`.
    pub(crate) fn heard_others(&self, now: Instant, peer: u16, span: Duration) -> bool {
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
    fn a_peer_is_no_crowd_to_itself() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let span = Duration::from_millis(4);
        let mut crowd = Crowd::default();
        crowd.note(at(1), 7);
        assert!(!crowd.heard_others(at(1), 7, span) && crowd.heard_others(at(1), 8, span));
        crowd.note(at(2), 8);
        crowd.note(at(3), 8);
        assert!(crowd.heard_others(at(4), 7, span) && crowd.heard_others(at(4), 8, span));
        assert!(!crowd.heard_others(at(5), 8, span), "peer 7 was heard 4 ms ago");
        assert!(!crowd.heard_others(at(7), 7, span), "so was peer 8");
    }
}
