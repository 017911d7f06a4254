//! What each path carries now: the difference between two statuses of one bundle.

use super::{PathStatus, Status};

/// What a path carries, in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// To the peer.
    pub sent: u64,
    /// From the peer.
    pub received: u64,
}

impl PathStatus {
    /// What the path has carried between `earlier` and `later`, of the same bundle; `None` where that cannot be told.
    pub fn rates(&self, node: &str, earlier: &Status, later: &Status) -> Option<Rates> {
        let peer = earlier.peers.iter().find(|peer| peer.node == node)?;
        let before = peer.paths.iter().find(|path| path.link == self.link)?;
        let nanos = later.now_ns.checked_sub(earlier.now_ns).filter(|nanos| *nanos > 0)?;
        let rate = |before: u64, now: u64| {
            let bits = u128::from(now.checked_sub(before)?) * 8 * 1_000_000_000;
            u64::try_from(bits / u128::from(nanos)).ok()
        };
        Some(Rates {
            sent: rate(before.all_sent(), self.all_sent())?,
            received: rate(before.all_received(), self.all_received())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example;

    #[test]
    fn rates_are_what_passed_between_two_statuses() {
        let (earlier, mut later) = (example(), example());
        later.now_ns += 250_000_000;
        let path = &mut later.peers[0].paths[0];
        (path.bytes_sent, path.bytes_received) = (path.bytes_sent + 1_000_000, path.bytes_received + 25);
        let (peer, path) = (&later.peers[0], &later.peers[0].paths[0]);
        let rates = path.rates(&peer.node, &earlier, &later);
        assert_eq!(rates, Some(Rates { sent: 32_000_000, received: 800 }));
        assert_eq!(path.rates("another", &earlier, &later), None);
        assert_eq!(path.rates(&peer.node, &later, &later), None, "no time has passed");
        let restarted = &earlier.peers[0].paths[0];
        assert_eq!(restarted.rates(&peer.node, &later, &earlier), None);
    }
}
