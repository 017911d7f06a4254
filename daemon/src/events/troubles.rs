//! Which events tell of a state that lasts: the reasons why a bundle is not healthy.
//!
//! Invariant: at most [`KEPT`] are kept, and an event ends those that it contradicts.

use std::sync::Arc;

use super::Entry;

/// As many as a bundle of 16 links has with 32 peers in both directions.
const KEPT: usize = 1_024;
/// Whoever greets in vain is reported once a minute; after this time nobody greets any more. In nanoseconds.
const GREETS_FOR: u64 = 90_000_000_000;

/// The events whose state lasts, oldest first.
#[derive(Debug, Default)]
pub(super) struct Troubles(Vec<Arc<Entry>>);

impl Troubles {
    pub(super) fn note(&mut self, entry: &Arc<Entry>) {
        self.0.retain(|trouble| !ends(trouble, entry));
        if lasts(entry) {
            if self.0.len() == KEPT {
                self.0.remove(0);
            }
            self.0.push(Arc::clone(entry));
        }
    }

    /// Those that last at CLOCK_MONOTONIC `now_ns`, oldest first.
    pub(super) fn last(&self, now_ns: u64) -> Vec<Entry> {
        let lasts = |trouble: &&Arc<Entry>| {
            !is_greeting(trouble) || now_ns.saturating_sub(trouble.at_ns) < GREETS_FOR
        };
        self.0.iter().filter(lasts).map(|trouble| Entry::clone(trouble)).collect()
    }
}

/// Whether the event begins a state that another event ends. Links that someone takes out are no trouble.
fn lasts(entry: &Entry) -> bool {
    match entry.what.as_str() {
        "link-down" => !matches!(entry.signal.as_deref(), Some("removed" | "farewell")),
        "link-suspect" | "nic-gone" => true,
        _ => is_greeting(entry),
    }
}

/// Whether somebody greets whom the bundle does not take for a peer.
fn is_greeting(entry: &Entry) -> bool {
    matches!(entry.what.as_str(), "stranger" | "peer-refused")
}

/// Whether `later` ends the state that `trouble` began, or tells of it anew.
fn ends(trouble: &Entry, later: &Entry) -> bool {
    let same_peer = || (trouble.worker, &trouble.peer) == (later.worker, &later.peer);
    let same_link = || trouble.link == later.link;
    let same_path = || same_peer() && same_link() && trouble.direction == later.direction;
    match (trouble.what.as_str(), later.what.as_str()) {
        ("link-down" | "link-suspect", "link-up" | "link-down") => same_path(),
        ("link-suspect", "link-suspect" | "link-trusted") => same_path(),
        ("link-down" | "link-suspect", "peer-left" | "peer-expired") => same_peer(),
        ("link-down" | "link-suspect", "link-removed") => same_link() && trouble.nic.is_some(),
        ("nic-gone", "nic-back" | "link-removed") => same_link(),
        ("stranger", "peer-joined") => true,
        ("stranger", "stranger") => trouble.detail == later.detail,
        ("peer-refused", "peer-refused" | "peer-joined") => same_peer(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(what: &str, peer: &str, link: u32, direction: &str) -> Arc<Entry> {
        let nic = (direction == "sending").then(|| format!("eth{link}"));
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (what, peer, direction) = (what.to_owned(), text(peer), text(direction));
        Arc::new(Entry { what, peer, link: Some(link), nic, direction, ..Entry::default() })
    }

    /// What lasts after these events, each as `WHAT PEER LINK DIRECTION`.
    fn left(events: &[&str]) -> Vec<String> {
        let mut troubles = Troubles::default();
        for event in events {
            let mut words = event.split(' ');
            let [what, peer, link, direction] = [(); 4].map(|()| words.next().unwrap_or(""));
            troubles.note(&entry(what, peer, link.parse().unwrap_or(0), direction));
        }
        troubles
            .last(0)
            .into_iter()
            .map(|entry| format!("{} {}", entry.what, entry.link.unwrap_or(0)))
            .collect()
    }

    #[test]
    fn a_trouble_lasts_until_an_event_ends_it() {
        assert_eq!(left(&["link-down a 1 sending", "link-up a 0 sending"]), ["link-down 1"]);
        assert_eq!(left(&["link-down a 1 sending", "link-up b 1 sending"]), ["link-down 1"]);
        assert_eq!(left(&["link-down a 1 sending", "link-up a 1 receiving"]), ["link-down 1"]);
        for end in ["link-up a 1 sending", "peer-left a", "link-removed  1"] {
            assert!(left(&["link-down a 1 sending", end]).is_empty(), "{end}");
        }
        let suspect = "link-suspect a 1 sending";
        assert!(left(&[suspect, suspect, "link-trusted a 1 sending"]).is_empty());
        assert_eq!(left(&[suspect, "link-down a 1 sending"]), ["link-down 1"]);
        assert!(left(&["nic-gone  1", "nic-back  1"]).is_empty());
    }

    #[test]
    fn the_peers_link_of_the_same_number_is_another() {
        assert_eq!(left(&["link-down a 1 receiving", "link-removed  1"]), ["link-down 1"]);
    }

    #[test]
    fn whoever_greets_no_more_is_forgotten() {
        let mut troubles = Troubles::default();
        troubles.note(&entry("stranger", "", 0, ""));
        assert_eq!(troubles.last(GREETS_FOR - 1).len(), 1);
        assert!(troubles.last(GREETS_FOR).is_empty());
        troubles.note(&entry("peer-joined", "a", 0, ""));
        assert!(troubles.last(0).is_empty(), "the bundle has a peer");
    }

    #[test]
    fn their_number_is_bounded() {
        let mut troubles = Troubles::default();
        (0..2_000).for_each(|link| troubles.note(&entry("link-down", "a", link, "sending")));
        assert_eq!(troubles.last(0).len(), KEPT);
    }
}
