//! What the lab asks of a bundle's status. The types are the daemon's own: who renames a field renames it here, too.

pub use tabane_api::Entry;
pub use tabane_api::Status;
pub use tabane_api::status::{CompletionStatus, LinkStatus, PathState, PathStatus, PeerStatus};

pub const LINK_UP: &str = "link-up";
/// A link is not used any more.
pub const LINK_DOWN: &str = "link-down";
/// A link loses so much that it is avoided.
pub const LINK_SUSPECT: &str = "link-suspect";
/// What a path carries was found.
pub const PATH_MTU: &str = "path-mtu";

/// Questions to a status. Links count as everywhere in the lab.
pub trait Questions {
    /// Whether `peers` peers are known, each over `links` links that are up both ways.
    fn is_ready(&self, peers: usize, links: usize) -> bool;

    /// The events of this kind on `link` at or after `since_ns`, oldest first.
    fn events_of(&self, what: &str, link: usize, since_ns: u64) -> impl DoubleEndedIterator<Item = &Entry>;

    /// The first of [`Questions::events_of`].
    fn first_event(&self, what: &str, link: usize, since_ns: u64) -> Option<&Entry> {
        self.events_of(what, link, since_ns).next()
    }

    /// The counter `name`.
    fn counter(&self, name: &str) -> u64;
}

impl Questions for Status {
    fn is_ready(&self, peers: usize, links: usize) -> bool {
        self.peers.len() == peers && self.peers.iter().all(|peer| paths_up(peer) == links)
    }

    fn events_of(&self, what: &str, link: usize, since_ns: u64) -> impl DoubleEndedIterator<Item = &Entry> {
        let is_meant =
            move |event: &&Entry| event.what == what && is_on(event, link) && event.at_ns >= since_ns;
        self.events.iter().filter(is_meant)
    }

    fn counter(&self, name: &str) -> u64 {
        let Some(count) = self.counters.get(name) else {
            panic!("{} has no counter `{name}`; it has {:?}", self.name, self.counters.keys());
        };
        *count
    }
}

pub fn is_on(event: &Entry, link: usize) -> bool {
    event.link.is_some_and(|number| number as usize == link)
}

/// Number of paths to the peer that are up in both directions.
pub fn paths_up(peer: &PeerStatus) -> usize {
    peer.paths.iter().filter(|path| (path.tx, path.rx) == (PathState::Up, PathState::Up)).count()
}

/// Share of the frames that came back by an interrupt.
pub fn by_interrupt(completion: &CompletionStatus) -> f64 {
    let all = completion.reclaimed_at_sends + completion.reclaimed_by_interrupts;
    if all == 0 { 0.0 } else { completion.reclaimed_by_interrupts as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented one: a peer, one link of two up, and an event.
    fn example() -> Status {
        serde_json::from_str(include_str!("../../docs/status.example.json")).unwrap()
    }

    #[test]
    fn paths_are_counted_by_both_directions() {
        let mut status = example();
        let links = status.peers[0].paths.len();
        status.peers[0].paths.iter_mut().for_each(|path| (path.tx, path.rx) = (PathState::Up, PathState::Up));
        assert!(status.is_ready(1, links) && !status.is_ready(1, links + 1) && !status.is_ready(2, links));
        status.peers[0].paths[0].rx = PathState::Suspect;
        assert!(status.is_ready(1, links - 1));
    }

    #[test]
    fn events_are_found_by_kind_link_and_time() {
        let status = example();
        let event = &status.events[0];
        let (what, link, at_ns) = (event.what.as_str(), event.link.unwrap() as usize, event.at_ns);
        assert_eq!(status.first_event(what, link, at_ns), Some(event));
        for (what, link, since_ns) in
            [("other", link, at_ns), (what, link + 1, at_ns), (what, link, at_ns + 1)]
        {
            assert_eq!(status.first_event(what, link, since_ns), None);
        }
    }

    #[test]
    #[should_panic(expected = "tb0 has no counter `frames_snet`; it has")]
    fn a_counter_that_does_not_exist_fails() {
        let status = example();
        assert_eq!(status.counter("frames_sent"), status.counters["frames_sent"]);
        status.counter("frames_snet");
    }
}
