//! What `tabane status --json` says, as far as the lab asks for it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One bundle at one moment.
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    /// Process id, in the lab's own PID namespace.
    pub pid: u32,
    /// Identity of this node: the MAC address of its device.
    pub node: String,
    /// How cells are spread over the links.
    #[serde(default)]
    pub policy: String,
    /// How its workers wait for what comes.
    #[serde(default)]
    pub receive: String,
    /// Which pieces of frames are copied before its device takes them.
    #[serde(default)]
    pub fragments: String,
    /// Bytes of the largest cell that is sent.
    #[serde(default)]
    pub cell_bytes: u64,
    /// MTU of its device, in bytes.
    #[serde(default)]
    pub mtu: u32,
    /// Its workers.
    #[serde(default)]
    pub workers: u32,
    /// The public part of the key of this node alone.
    #[serde(default)]
    pub node_key: Option<String>,
    /// Keys of the nodes that it lets in; `None`: all of the group.
    #[serde(default)]
    pub allow: Option<Vec<String>>,
    /// Its configuration file.
    #[serde(default)]
    pub file: Option<String>,
    /// What is in force and not in that file, a sentence each.
    #[serde(default)]
    pub changed_by_hand: Vec<String>,
    /// Why all frames travel in cells, where more is asked for.
    #[serde(default)]
    pub cells_because: Option<String>,
    /// The links of this node.
    #[serde(default)]
    pub links: Vec<Link>,
    /// The other nodes.
    pub peers: Vec<Peer>,
    /// Named counters since the start.
    pub counters: BTreeMap<String, u64>,
    /// The latest changes of state, oldest first.
    pub events: Vec<Event>,
}

/// A link of this node.
#[derive(Clone, Debug, Deserialize)]
pub struct Link {
    /// Whether the NIC has carrier; of a link through memory, whether another node is there.
    pub carrier: bool,
    /// What moves its cells, for example `udp` or `ether/packet`.
    #[serde(default)]
    pub kind: String,
    /// Where its first worker listens.
    #[serde(default)]
    pub local: String,
    /// How frames come back that AF_XDP has sent.
    #[serde(default)]
    pub completion: Option<Completion>,
    /// Whether one call sends many cells.
    #[serde(default)]
    pub gso: bool,
    /// The speed of its NIC, bit/s.
    #[serde(default)]
    pub speed_bps: Option<u64>,
}

/// How frames came back that were sent.
#[derive(Clone, Debug, Deserialize)]
pub struct Completion {
    /// What was asked for.
    #[serde(default)]
    pub method: String,
    /// When something else was sent.
    pub reclaimed_at_sends: u64,
    /// By an interrupt.
    pub reclaimed_by_interrupts: u64,
}

impl Completion {
    /// Share of the frames that came back by an interrupt.
    #[must_use]
    pub fn by_interrupt(&self) -> f64 {
        let all = self.reclaimed_at_sends + self.reclaimed_by_interrupts;
        if all == 0 { 0.0 } else { self.reclaimed_by_interrupts as f64 / all as f64 }
    }
}

/// Another node.
#[derive(Clone, Debug, Deserialize)]
pub struct Peer {
    /// Identity of the peer.
    pub node: String,
    /// The key of its own that it has proven.
    #[serde(default)]
    pub node_key: Option<String>,
    /// The keys that its cells are sealed with.
    #[serde(default)]
    pub sealed: Option<Sealed>,
    /// Whether frames to it take the kernel path.
    #[serde(default)]
    pub kernel_path: bool,
    /// Why they travel in cells.
    #[serde(default)]
    pub cells_because: Option<String>,
    /// The paths to it.
    pub paths: Vec<Path>,
}

/// The keys of a session.
#[derive(Clone, Debug, Deserialize)]
pub struct Sealed {
    /// Cipher of the cells to the peer.
    pub cipher_sent: String,
}

/// One path to a peer.
#[derive(Clone, Debug, Deserialize)]
pub struct Path {
    /// Number of the link, from 0, in the order given to `tabane up`.
    pub link: usize,
    /// Name of the NIC.
    pub nic: String,
    /// Where the peer is on it.
    #[serde(default)]
    pub endpoint: String,
    /// State towards the peer: `up` when usable.
    pub tx: String,
    /// State from the peer.
    pub rx: String,
    /// The largest packet that is known to arrive, in bytes.
    #[serde(default)]
    pub mtu: Option<u16>,
    /// Its rate, stated or measured, in bits per second.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// Cells sent on it.
    pub cells_sent: u64,
    /// Cells that arrived on it.
    pub cells_received: u64,
    /// Cells of the peer that never arrived on it.
    pub cells_lost: u64,
    /// Share of the cells to the peer that was lost lately, in percent.
    #[serde(default)]
    pub loss_percent: f64,
    /// What programs carried.
    #[serde(default)]
    pub kernel: Option<KernelTraffic>,
}

/// What programs in the kernel carried over a path, in frames and bytes as on the device; a superframe is one frame.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct KernelTraffic {
    /// To the peer.
    pub frames_sent: u64,
    /// To the peer.
    pub bytes_sent: u64,
    /// From the peer.
    pub frames_received: u64,
    /// From the peer.
    pub bytes_received: u64,
}

/// A change of state.
#[derive(Clone, Debug, Deserialize)]
pub struct Event {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Which kind, for example `link-down`.
    pub what: String,
    /// The link it is about.
    #[serde(default)]
    pub link: Option<usize>,
    /// The reason, for people.
    #[serde(default)]
    pub detail: String,
}

/// A link is up.
pub const LINK_UP: &str = "link-up";
/// A link is not used any more.
pub const LINK_DOWN: &str = "link-down";
/// A link loses so much that it is avoided.
pub const LINK_SUSPECT: &str = "link-suspect";
/// What a path carries was found.
pub const PATH_MTU: &str = "path-mtu";

impl Status {
    /// Whether `peers` peers are known, each over `links` links that are up both ways.
    #[must_use]
    pub fn is_ready(&self, peers: usize, links: usize) -> bool {
        self.peers.len() == peers && self.peers.iter().all(|peer| peer.paths_up() == links)
    }

    /// The events of this kind on `link` at or after `since_ns`, oldest first.
    pub fn events_of(
        &self,
        what: &str,
        link: usize,
        since_ns: u64,
    ) -> impl DoubleEndedIterator<Item = &Event> {
        self.events
            .iter()
            .filter(move |event| event.what == what && event.link == Some(link) && event.at_ns >= since_ns)
    }

    /// The first of [`Status::events_of`].
    #[must_use]
    pub fn first_event(&self, what: &str, link: usize, since_ns: u64) -> Option<&Event> {
        self.events_of(what, link, since_ns).next()
    }

    /// The counter `name`; zero when the daemon has none of that name.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

impl Peer {
    /// Number of paths that are up in both directions.
    #[must_use]
    pub fn paths_up(&self) -> usize {
        self.paths.iter().filter(|path| path.tx == "up" && path.rx == "up").count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = r#"{ "name": "tb0", "pid": 4711, "node": "02:00:00:00:00:01", "mtu": 1500,
        "links": [{ "link": 0, "nic": "eth1", "carrier": true }],
        "peers": [{ "node": "02:00:00:00:00:02", "name": "hostb", "paths": [
            { "link": 0, "nic": "eth1", "endpoint": "[fe80::2%3]:7420", "tx": "up", "rx": "up", "rtt_us": 85,
              "cells_sent": 10, "cells_received": 12, "loss_percent": 0.0, "cells_lost": 0 },
            { "link": 1, "nic": "eth2", "endpoint": "[fe80::2%4]:7420", "tx": "down", "rx": "up", "rtt_us": 85,
              "cells_sent": 57, "cells_received": 12, "loss_percent": 0.0, "cells_lost": 3 }]}],
        "counters": { "frames_sent": 1 },
        "events": [{ "at_ns": 5, "what": "peer-up", "peer": "02:00:00:00:00:02" },
                   { "at_ns": 70, "what": "link-down", "link": 1, "detail": "burst skew" }]}"#;

    #[test]
    fn a_status_is_read_with_what_it_has_besides() {
        let status: Status = serde_json::from_str(STATUS).unwrap();
        assert_eq!((status.pid, status.counter("frames_sent"), status.counter("absent")), (4711, 1, 0));
        assert_eq!((status.peers[0].paths_up(), status.links[0].carrier), (1, true));
        assert!(status.is_ready(1, 1) && !status.is_ready(1, 2) && !status.is_ready(2, 1));
    }

    #[test]
    fn events_are_found_by_kind_link_and_time() {
        let status: Status = serde_json::from_str(STATUS).unwrap();
        assert_eq!(status.first_event(LINK_DOWN, 1, 70).unwrap().detail, "burst skew");
        assert!(status.first_event(LINK_DOWN, 1, 71).is_none());
        assert!(status.first_event(LINK_UP, 1, 0).is_none());
    }
}
