//! What is wrong with a path, and since when: from its state, and from the events that tell why it has that state.

use super::figures::{age, percent};
use crate::error::one_line;
use crate::events::Entry;
use crate::status::{LinkStatus, PathState, PathStatus, Status};

/// Why a path does not carry what it could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// In a few words, for a table.
    pub(super) word: String,
    /// In a sentence.
    pub(super) sentence: String,
}

/// What is wrong with the path `path` to the peer `node` over `link`; `None`: nothing.
pub(super) fn fault(
    status: &Status,
    node: &str,
    path: &PathStatus,
    link: Option<&LinkStatus>,
) -> Option<Fault> {
    let nic = one_line(&path.nic);
    if link.is_some_and(|link| !link.carrier) {
        let since = latest(status, node, path).map_or(String::new(), |event| since(status, event));
        return Some(Fault {
            word: "no carrier".to_owned(),
            sentence: format!("{nic} has no carrier{since}"),
        });
    }
    let way = match (path.tx, path.rx) {
        (PathState::Down, PathState::Down) => "is down",
        (PathState::Down, _) => "cannot send",
        (_, PathState::Down) => "receives nothing",
        (PathState::Suspect, _) => {
            let loss = percent(path.loss_percent);
            let sentence =
                format!("{nic} loses {loss} of its cells, and carries no data while another is better");
            return Some(Fault { word: format!("loses {loss}"), sentence });
        }
        _ => return None,
    };
    let Some(event) = latest(status, node, path) else {
        return Some(Fault { word: way.to_owned(), sentence: format!("{nic} {way}") });
    };
    let word = event.signal.as_deref().map_or(way.to_owned(), word);
    let why = event.detail.split_once(": ").map_or(&*event.detail, |(_, why)| why);
    Some(Fault { word, sentence: format!("{nic} {way}{}: {}", since(status, event), one_line(why)) })
}

/// The latest event that a path went down. What this node saw itself says more than what its peer reported.
fn latest<'a>(status: &'a Status, node: &str, path: &PathStatus) -> Option<&'a Entry> {
    let about = |event: &&Entry| {
        let ours = event.nic.as_ref().map_or(event.link == Some(path.link), |nic| *nic == path.nic);
        event.what == "link-down" && event.peer.as_deref() == Some(node) && ours
    };
    let up = |event: &&Entry| event.what == "link-up" && event.nic.as_deref() == Some(&path.nic);
    // What happened before the path was up last tells nothing about now.
    let begun = status.events.iter().rposition(|event| up(&event) && event.peer.as_deref() == Some(node));
    let mut here = status.events[begun.unwrap_or(0)..].iter().filter(about);
    let own = here.clone().rfind(|event| event.signal.as_deref() != Some("report"));
    own.or_else(|| here.next_back())
}

fn since(status: &Status, event: &Entry) -> String {
    match status.now_ns.saturating_sub(event.at_ns) {
        0..1_000_000_000 => String::new(),
        ns => format!(" for {}", age(ns)),
    }
}

/// What showed that a link is dead, as `docs/events.md` names it.
fn word(signal: &str) -> String {
    match signal {
        "carrier" => "no carrier".to_owned(),
        "report" => "not received".to_owned(),
        "too-small" => "MTU too small".to_owned(),
        other => one_line(&other.replace('-', " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example;

    const NODE: &str = "02:00:00:00:00:02/7420";

    fn event(what: &str, nic: Option<&str>, signal: &str, detail: &str) -> Entry {
        Entry {
            what: what.to_owned(),
            peer: Some(NODE.to_owned()),
            link: Some(0),
            nic: nic.map(str::to_owned),
            signal: Some(signal.to_owned()).filter(|signal| !signal.is_empty()),
            detail: detail.to_owned(),
            ..Entry::default()
        }
    }

    fn found(status: &Status) -> Option<Fault> {
        fault(status, NODE, &status.peers[0].paths[0], status.links.first())
    }

    #[test]
    fn a_sound_path_has_no_fault() {
        assert_eq!(found(&example()), None);
    }

    #[test]
    fn a_dead_path_tells_what_was_seen_here() {
        let mut status = example();
        (status.peers[0].paths[0].tx, status.peers[0].paths[0].rx) = (PathState::Down, PathState::Down);
        status.now_ns = 12_000_000_000;
        status.events = vec![
            event("link-down", Some("eth1"), "carrier", "sending over eth1: an older reason"),
            event("link-up", Some("eth1"), "", "sending over eth1"),
            event("link-down", None, "burst-skew", "receiving from the peer's link 0: burst skew, 57 cells"),
            event("link-down", Some("eth1"), "report", "sending over eth1: the peer does not receive it"),
        ];
        let fault = found(&status).expect("a fault");
        assert_eq!(fault.word, "burst skew");
        assert_eq!(fault.sentence, "eth1 is down for 12s: burst skew, 57 cells");
        status.events.clear();
        assert_eq!(found(&status).expect("a fault").sentence, "eth1 is down");
    }

    #[test]
    fn carrier_and_loss() {
        let mut status = example();
        status.peers[0].paths[0].tx = PathState::Suspect;
        status.peers[0].paths[0].loss_percent = 14.6;
        assert_eq!(found(&status).expect("a fault").word, "loses 15%");
        status.links[0].carrier = false;
        assert_eq!(found(&status).expect("a fault").sentence, "eth1 has no carrier");
    }
}
