//! Turns an event of the core into an entry of the event log. `docs/events.md` explains the entries to users; the tests here compare.

use std::net::SocketAddr;
use std::time::Duration;

use tabane_config::key::public;
use tabane_proto::{Direction, Event, Expiry, Mismatch, NodeId, Refusal, Signal};

use super::Entry;

/// The event without its number and its time. `nics` name the links of this node.
pub(super) fn describe(event: &Event, nics: &[String]) -> Entry {
    match event {
        Event::PeerJoined { peer, name, sealed } => {
            let sealed = if *sealed { "sealed" } else { "not sealed" };
            about("peer-joined", peer, format!("{}, {sealed}", name.as_str()))
        }
        Event::PeerLeft { peer } => about("peer-left", peer, "silent for too long, or restarted".to_owned()),
        Event::PeerExpired { peer, expiry } => about("peer-expired", peer, expired(*expiry)),
        Event::PeerRefused { peer, refusal } => about("peer-refused", peer, refused(*refusal)),
        Event::Stranger { link, from, mismatch } => met(*link, *from, *mismatch, nics),
        Event::LinkUp { peer, link, direction } => on_link("link-up", peer, *link, *direction, nics),
        Event::LinkDown { peer, link, direction, signal } => {
            with_signal(on_link("link-down", peer, *link, *direction, nics), *signal)
        }
        Event::LinkSuspect { peer, link, lost } => losing(sending("link-suspect", peer, *link, nics), *lost),
        Event::LinkTrusted { peer, link, lost } => losing(sending("link-trusted", peer, *link, nics), *lost),
        Event::LinkDrained { peer, link } => {
            adding(sending("link-drained", peer, *link, nics), "the peer drains its end")
        }
        Event::LinkResumed { peer, link } => {
            adding(sending("link-resumed", peer, *link, nics), "the peer does not drain its end any more")
        }
        Event::PathMtu { peer, link, packet, nic } => {
            carrying(sending("path-mtu", peer, *link, nics), *packet, *nic)
        }
        Event::RunsLost { peer, link } => {
            let entry = on_link("segments-lost", peer, *link, Direction::Sending, nics);
            let detail = format!(
                "{}: what leaves as one frame for the NIC to segment is lost; for a while cells leave one by one",
                entry.detail
            );
            Entry { detail, ..entry }
        }
    }
}

fn about(what: &str, peer: &NodeId, detail: String) -> Entry {
    Entry { what: what.to_owned(), peer: Some(peer.to_string()), detail, ..Entry::default() }
}

fn on_link(what: &str, peer: &NodeId, link: u8, direction: Direction, nics: &[String]) -> Entry {
    let nic = nics.get(usize::from(link)).filter(|_| direction == Direction::Sending).cloned();
    let (direction, detail) = match direction {
        Direction::Sending => ("sending", format!("sending over {}", nic.as_deref().unwrap_or("?"))),
        Direction::Receiving => ("receiving", format!("receiving from the peer's link {link}")),
    };
    let (link, direction) = (Some(link.into()), Some(direction.to_owned()));
    Entry { link, nic, direction, ..about(what, peer, detail) }
}

/// What happened to a link of this node.
fn sending(what: &str, peer: &NodeId, link: u8, nics: &[String]) -> Entry {
    on_link(what, peer, link, Direction::Sending, nics)
}

fn adding(entry: Entry, more: &str) -> Entry {
    Entry { detail: format!("{}: {more}", entry.detail), ..entry }
}

/// Adds losses, in parts of 10,000.
fn losing(entry: Entry, lost: u32) -> Entry {
    let detail = format!("{} loses {:.1} % of the cells", entry.detail, f64::from(lost) / 100.0);
    Entry { lost_ppm: Some(lost * 100), detail, ..entry }
}

/// Adds the largest packets that the path and the NICs take.
fn carrying(entry: Entry, packet: u16, nic: u16) -> Entry {
    // Of IPv6: what carries less is worth no smaller cells.
    const LEAST: u16 = 1_280;
    let more = match packet {
        packet if packet >= nic => "that is all that the NICs send".to_owned(),
        packet if packet < LEAST => {
            format!("the NICs send {nic}; it is left out while another path carries more")
        }
        _ => format!("the NICs send {nic}"),
    };
    let entry = adding(entry, &format!("the path carries packets of {packet} bytes; {more}"));
    Entry { mtu: Some(packet), mtu_of_nics: Some(nic), ..entry }
}

fn with_signal(entry: Entry, signal: Signal) -> Entry {
    let (name, overdue, waited, why) = match signal {
        Signal::BurstSkew { overdue, waited } => {
            let why =
                format!("burst skew, {overdue} cells sent and none received for {:.1} ms", millis(waited));
            ("burst-skew", Some(overdue), Some(waited), why)
        }
        Signal::Silence { waited } => {
            let why = format!("silence, nothing received for {:.0} ms", millis(waited));
            ("silence", None, Some(waited), why)
        }
        Signal::Carrier => ("carrier", None, None, "the NIC lost its carrier".to_owned()),
        Signal::SendError => ("send-error", None, None, "the kernel refuses to send".to_owned()),
        Signal::Removed => ("removed", None, None, "this node takes it out".to_owned()),
        Signal::Farewell => ("farewell", None, None, "the peer takes it out".to_owned()),
        Signal::TooSmall => ("too-small", None, None, "the MTU at one end is too small for cells".to_owned()),
        Signal::Report => ("report", None, None, "the peer does not receive it".to_owned()),
    };
    let waited_us = waited.map(|waited| u64::try_from(waited.as_micros()).unwrap_or(u64::MAX));
    Entry { signal: Some(name.to_owned()), overdue, waited_us, ..adding(entry, &why) }
}

/// Who greets on a link of this node, and what the user may have meant.
fn met(link: u8, from: SocketAddr, mismatch: Mismatch, nics: &[String]) -> Entry {
    let nic = nics.get(usize::from(link)).cloned();
    let why = match mismatch {
        Mismatch::Key => "has another key; give both nodes the same key file",
        Mismatch::Unsealed => "does not seal and this node does; set the same `security` on both",
        Mismatch::Sealed => "seals and this node does not; set the same `security` on both",
        Mismatch::Group => {
            "has another key, or one of the two has none; give both nodes the same key file, or none"
        }
    };
    let detail = format!("{}: {from} {why}", nic.as_deref().unwrap_or("?"));
    Entry { what: "stranger".to_owned(), link: Some(link.into()), nic, detail, ..Entry::default() }
}

fn refused(refusal: Refusal) -> String {
    match refusal {
        Refusal::Workers { ours, theirs } => {
            format!("it runs {theirs} workers and this node {ours}; set the same `workers` on both")
        }
        Refusal::Version { ours, theirs } => {
            format!(
                "it speaks version {theirs} of the wire format and this node version {ours}; upgrade the older one"
            )
        }
        Refusal::Full => "the bundle has as many peers as it can have".to_owned(),
        Refusal::NotAllowed { key: Some(key) } => format!("its key is not in allow: {}", public(&key)),
        Refusal::NotAllowed { key: None } => {
            "it has no key of its own, and this node lets in only the keys in allow".to_owned()
        }
        Refusal::OtherKey { key } => {
            let key = key.map_or_else(|| "none".to_owned(), |key| public(&key));
            format!("another node uses its name with another key: {key}")
        }
        Refusal::Cipher { theirs } => {
            format!(
                "it seals with cipher {theirs}, which this version does not know; set another `cipher` there, or upgrade this node"
            )
        }
        Refusal::Seals => {
            "its cells are sealed and this node's are not; set the same `security` on both".to_owned()
        }
    }
}

fn expired(expiry: Expiry) -> String {
    match expiry {
        Expiry::KeyDropped => "it did not take to a group key that is accepted".to_owned(),
        Expiry::RolledBack => {
            "it knows more than this node has said: this machine goes on from a snapshot".to_owned()
        }
        Expiry::Unrenewed { age } => format!("its keys could not be renewed for {} s", age.as_secs()),
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use tabane_proto::Name;

    use super::*;

    /// What users read about events.
    const PAGE: &str = include_str!("../../../docs/events.md");

    /// What the core says in the examples of the page, in their order.
    fn exemplified() -> Vec<Event> {
        let peer = NodeId::new([2, 0, 0, 1, 1, 2], 7420);
        let down = |link, direction, signal| Event::LinkDown { peer, link, direction, signal };
        let (sending, receiving) = (Direction::Sending, Direction::Receiving);
        let micros = Duration::from_micros;
        vec![
            Event::PeerJoined { peer, name: Name::new("hostb"), sealed: true },
            Event::Stranger {
                link: 0,
                from: "[fe80::2%3]:7420".parse().expect("an endpoint"),
                mismatch: Mismatch::Key,
            },
            Event::PeerExpired { peer, expiry: Expiry::KeyDropped },
            Event::LinkUp { peer, link: 1, direction: sending },
            down(1, receiving, Signal::BurstSkew { overdue: 57, waited: micros(3_100) }),
            down(1, receiving, Signal::Silence { waited: micros(42_010) }),
            down(1, sending, Signal::Report),
            down(0, sending, Signal::Carrier),
            down(0, sending, Signal::SendError),
            Event::LinkSuspect { peer, link: 1, lost: 1_460 },
            Event::PathMtu { peer, link: 1, packet: 1_400, nic: 1_500 },
            Event::RunsLost { peer, link: 1 },
            Event::LinkDrained { peer, link: 1 },
            Event::LinkResumed { peer, link: 1 },
        ]
    }

    #[test]
    fn the_examples_of_the_page_are_what_is_said() {
        let examples = PAGE.lines().filter(|line| line.starts_with('{'));
        let examples: Vec<Entry> =
            examples.map(|line| serde_json::from_str(line).expect("an entry")).collect();
        // Workers say what the core has said; the other examples are of the whole bundle.
        let of_the_core = examples.into_iter().filter(|entry| entry.worker.is_some());
        let nics = ["eth1".to_owned(), "eth2".to_owned()];
        let mut said = exemplified().into_iter();
        for example in of_the_core {
            let event = said.next().expect("a further example of the page has its event here");
            let Entry { number, at_ns, worker, .. } = example;
            let time = example.time.clone();
            assert_eq!(Entry { number, time, at_ns, worker, ..describe(&event, &nics) }, example);
        }
        assert_eq!(said.next(), None, "each event here has its example on the page");
    }

    /// Each signal once, in the order of the page's table: which one follows?
    fn following(signal: Signal) -> Option<Signal> {
        let waited = Duration::ZERO;
        Some(match signal {
            Signal::BurstSkew { .. } => Signal::Silence { waited },
            Signal::Silence { .. } => Signal::Carrier,
            Signal::Carrier => Signal::SendError,
            Signal::SendError => Signal::Report,
            Signal::Report => Signal::Removed,
            Signal::Removed => Signal::Farewell,
            Signal::Farewell => Signal::TooSmall,
            Signal::TooSmall => return None,
        })
    }

    #[test]
    fn the_table_of_the_page_has_a_row_for_each_signal_with_its_figures() {
        let table = PAGE.split("| `signal` | Figures | Meaning |").nth(1).expect("the table of signals");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let rows = rows.map(|row| {
            let mut cells = row.split('|').map(str::trim).skip(1);
            [cells.next(), cells.next()].map(|cell| cell.unwrap_or_default().replace('`', ""))
        });
        let first = Signal::BurstSkew { overdue: 0, waited: Duration::ZERO };
        let known = std::iter::successors(Some(first), |signal| following(*signal)).map(|signal| {
            let said = with_signal(Entry::default(), signal);
            let figures = [said.overdue.map(|_| "overdue"), said.waited_us.map(|_| "waited_us")];
            let figures: Vec<&str> = figures.into_iter().flatten().collect();
            [said.signal.unwrap_or_default(), figures.join(", ")]
        });
        let [rows, known] = [rows.collect::<Vec<_>>(), known.collect()];
        assert_eq!(rows, known, "a row for each signal in docs/events.md, with its figures");
    }
}
