//! What happened, for the log and for `tabane status`: one sentence each.

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, PoisonError};

use tabane_proto::{Direction, Event, Refusal, Signal};

use crate::status::EventStatus;

/// Events that are kept for those who ask.
const KEPT: usize = 256;

/// The latest events of all workers.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    kept: Mutex<VecDeque<EventStatus>>,
}

impl EventLog {
    /// Logs an event of a worker at CLOCK_MONOTONIC `at_ns`, and keeps it. `nics` name the links of this node.
    pub(crate) fn record(&self, at_ns: u64, event: &Event, nics: &[String]) {
        let status = describe(at_ns, event, nics);
        let (what, link, detail) = (&status.what, status.link, &status.detail);
        let peer = status.peer.as_deref().unwrap_or_default();
        match link {
            Some(link) => tracing::info!(peer, link, "{what}: {detail}"),
            None => tracing::info!(peer, "{what}: {detail}"),
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(status);
    }

    /// The latest events, oldest first.
    pub(crate) fn latest(&self) -> Vec<EventStatus> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn describe(at_ns: u64, event: &Event, nics: &[String]) -> EventStatus {
    let (what, peer, link, detail) = match event {
        Event::PeerJoined { peer, name } => ("peer-joined", peer, None, name.as_str().to_owned()),
        Event::PeerLeft { peer } => ("peer-left", peer, None, "silent for too long, or restarted".to_owned()),
        Event::PeerRefused { peer, refusal } => ("peer-refused", peer, None, refused(*refusal)),
        Event::LinkUp { peer, link, direction } => {
            ("link-up", peer, Some(*link), way(*direction, *link, nics))
        }
        Event::LinkDown { peer, link, direction, signal } => {
            let detail = format!("{}: {}", way(*direction, *link, nics), Shown(*signal));
            ("link-down", peer, Some(*link), detail)
        }
        Event::LinkSuspect { peer, link, lost } => {
            ("link-suspect", peer, Some(*link), losing(*lost, *link, nics))
        }
        Event::LinkTrusted { peer, link, lost } => {
            ("link-trusted", peer, Some(*link), losing(*lost, *link, nics))
        }
    };
    EventStatus {
        at_ns,
        what: what.to_owned(),
        peer: Some(peer.to_string()),
        link: link.map(u32::from),
        detail,
    }
}

fn way(direction: Direction, link: u8, nics: &[String]) -> String {
    match direction {
        Direction::Sending => {
            format!("sending over {}", nics.get(usize::from(link)).map_or("?", String::as_str))
        }
        Direction::Receiving => format!("receiving from the peer's link {link}"),
    }
}

/// `lost`: in parts of 10,000.
fn losing(lost: u32, link: u8, nics: &[String]) -> String {
    format!("{} loses {:.1} % of the cells", way(Direction::Sending, link, nics), f64::from(lost) / 100.0)
}

fn refused(refusal: Refusal) -> String {
    match refusal {
        Refusal::Workers { ours, theirs } => {
            format!("it runs {theirs} workers and this node {ours}; set the same `workers` on both")
        }
        Refusal::Full => "the bundle has as many peers as it can have".to_owned(),
    }
}

/// A signal with its figures, for people.
struct Shown(Signal);

impl Display for Shown {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Signal::BurstSkew { owed, waited } => {
                write!(out, "burst skew, {owed} cells sent and none heard for {:.1} ms", millis(waited))
            }
            Signal::Silence { waited } => write!(out, "silence, nothing heard for {:.0} ms", millis(waited)),
            Signal::Carrier => out.write_str("the NIC lost its carrier"),
            Signal::SendError => out.write_str("the kernel refuses to send"),
            Signal::Report => out.write_str("the peer does not hear it"),
        }
    }
}

fn millis(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tabane_proto::NodeId;

    use super::*;

    #[test]
    fn a_dead_link_is_told_with_its_figures() {
        let event = Event::LinkDown {
            peer: NodeId::new([2, 0, 0, 0, 0, 1], 7420),
            link: 1,
            direction: Direction::Receiving,
            signal: Signal::BurstSkew { owed: 57, waited: Duration::from_micros(3_100) },
        };
        let status = describe(5, &event, &[]);
        assert_eq!(status.what, "link-down");
        assert_eq!(
            status.detail,
            "receiving from the peer's link 1: burst skew, 57 cells sent and none heard for 3.1 ms"
        );
    }

    #[test]
    fn only_the_latest_are_kept() {
        let log = EventLog::default();
        let peer = NodeId::default();
        (0..KEPT as u64 + 5).for_each(|at| log.record(at, &Event::PeerLeft { peer }, &[]));
        let kept = log.latest();
        assert_eq!((kept.len(), kept[0].at_ns), (KEPT, 5));
    }
}
