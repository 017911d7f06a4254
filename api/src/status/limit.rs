//! What a path carries, what is wrong with it, and what keeps it from carrying more: a part of the judgement of [`super::health`].

use super::figures::short;
use super::health::{FULL_PERCENT, LOSS_MARKED, clock, described, reason};
use super::{LinkStatus, PathState, PathStatus, PeerStatus, Status};

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
        let before = earlier.path(node, self.link)?;
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

impl Status {
    /// What keeps more from being sent over the path, beside its NIC's name.
    #[must_use]
    pub fn limit(&self, peer: &PeerStatus, path: &PathStatus, sent: u64) -> String {
        if path.tx != PathState::Up || path.rx != PathState::Up {
            let why = reason(self, peer, path);
            let Some(why) = why else { return "-".to_owned() };
            let what = described(&path.nic, why);
            let own = |words: &str| what.strip_prefix(&format!("{} {words}", path.nic));
            let what = own("is ").or_else(|| own("")).unwrap_or(&what);
            return format!("{what} since {}", clock(&why.time));
        }
        let rate = path.rate_bps.map(|rate| format!("its rate, {}", short(rate, "bit/s")));
        let is_full = path.rate_bps.is_some_and(|rate| sent >= rate / 100 * FULL_PERCENT);
        match rate {
            Some(rate) if is_full => rate,
            _ if path.loss_percent >= LOSS_MARKED => "loss".to_owned(),
            Some(rate) if path.congested && sent > 0 => rate,
            None if path.congested && sent > 0 => "the way or the receiver".to_owned(),
            _ => "-".to_owned(),
        }
    }

    /// What is wrong with the path: what showed it, since when, and the figures of that moment; `None`: nothing.
    #[must_use]
    pub fn path_fault(
        &self,
        peer: &PeerStatus,
        path: &PathStatus,
        link: Option<&LinkStatus>,
    ) -> Option<String> {
        let why = reason(self, peer, path);
        let since = |what: String| match why {
            Some(why) => format!("{what} since {}", clock(&why.time)),
            None => what,
        };
        if link.is_some_and(|link| !link.carrier) {
            return Some(since(format!("{} has no carrier", path.nic)));
        }
        match why {
            _ if path.state() == "up" => None,
            None => Some(format!("{} is {}", path.nic, path.state())),
            Some(why) => {
                // The words before the comma say what `described` says.
                let figures = why.detail.split_once(": ").and_then(|(_, what)| what.split_once(", "));
                let figures = figures.map_or(String::new(), |(_, figures)| format!(": {figures}"));
                Some(since(described(&path.nic, why)) + &figures)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example;

    #[test]
    fn a_path_that_does_not_work_says_what_was_seen() {
        let found = |status: &Status| {
            let peer = &status.peers[0];
            status.path_fault(peer, &peer.paths[0], status.links.first())
        };
        let mut status = example();
        assert_eq!(found(&status), None);
        (status.peers[0].paths[0].rx, status.peers[0].paths[0].peer_link) = (PathState::Down, Some(1));
        assert_eq!(found(&status).as_deref(), Some("eth1 is out only"));
        status.troubles = status.events.clone();
        let want = "eth1 is a black hole since 03:05:28Z: 57 cells sent and none received for 3.1 ms";
        assert_eq!(found(&status).as_deref(), Some(want));
        status.links[0].carrier = false;
        assert_eq!(found(&status).as_deref(), Some("eth1 has no carrier since 03:05:28Z"));
    }

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
