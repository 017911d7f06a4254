//! What is wrong with a path, in a sentence: what showed it, since when, and the figures of that moment.

use tabane_api::Status;
use tabane_api::status::health::{clock, described, reason};
use tabane_api::status::{LinkStatus, PathStatus, PeerStatus};
use tabane_config::problem::one_line;

/// What is wrong with a path to `peer` over `link`; `None`: nothing.
pub(super) fn fault(
    status: &Status,
    peer: &PeerStatus,
    path: &PathStatus,
    link: Option<&LinkStatus>,
) -> Option<String> {
    let why = reason(status, peer, path);
    let since = |what: String| match why {
        Some(why) => format!("{what} since {}", clock(&why.time)),
        None => what,
    };
    if link.is_some_and(|link| !link.carrier) {
        return Some(one_line(&since(format!("{} has no carrier", path.nic))));
    }
    match why {
        _ if path.state() == "up" => None,
        None => Some(one_line(&format!("{} is {}", path.nic, path.state()))),
        Some(why) => {
            // The words before the comma say what `described` says.
            let figures = why.detail.split_once(": ").and_then(|(_, what)| what.split_once(", "));
            let figures = figures.map_or(String::new(), |(_, figures)| format!(": {figures}"));
            Some(one_line(&format!("{}{figures}", since(described(&path.nic, why)))))
        }
    }
}

#[cfg(test)]
mod tests {
    use tabane_api::status::PathState;

    use super::*;
    use crate::example::example;

    fn found(status: &Status) -> Option<String> {
        let peer = &status.peers[0];
        fault(status, peer, &peer.paths[0], status.links.first())
    }

    #[test]
    fn a_sound_path_has_no_fault() {
        assert_eq!(found(&example()), None);
    }

    #[test]
    fn a_dead_path_tells_what_was_seen() {
        let mut status = example();
        (status.peers[0].paths[0].rx, status.peers[0].paths[0].peer_link) = (PathState::Down, Some(1));
        assert_eq!(found(&status).as_deref(), Some("eth1 is out only"));
        status.troubles = status.events.clone();
        let want = "eth1 is a black hole since 03:05:28Z: 57 cells sent and none received for 3.1 ms";
        assert_eq!(found(&status).as_deref(), Some(want));
        status.links[0].carrier = false;
        assert_eq!(found(&status).as_deref(), Some("eth1 has no carrier since 03:05:28Z"));
    }
}
