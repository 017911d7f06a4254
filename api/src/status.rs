//! The status of a running bundle: these types are the schema of `tabane status --json`, published as `docs/status.schema.json`.
//!
//! From one version to the next fields may be added; none loses its name, its type or its meaning without a new MINOR version and
//! a line in the changelog. A field that is not known yet is `null`. Times are nanoseconds of CLOCK_MONOTONIC on the bundle's node.

pub mod figures;
pub mod health;
#[cfg(feature = "ask")]
mod limit;
mod speed;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::entry::Entry;
pub use health::{FULL_PERCENT, Fault, Health, LOSS_FOUND, LOSS_HEAVY, LOSS_MARKED, Level, REASONS, State};

/// A bundle, at the moment of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    /// Whether all is well, and what is not.
    pub health: Health,
    /// Name of the bundle and its device.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// The node's identity: the device's MAC address.
    pub node: String,
    /// How cells are spread over the links.
    pub policy: String,
    /// The workers' receive engine.
    pub receive: String,
    /// Which pieces of a frame are copied into one before the device takes it, and what `auto` has measured: at which
    /// lengths of frames, and how many of the first pieces.
    pub fragments: String,
    /// What carries frames, as the configuration asks for it: `auto`, `kernel` or `user`.
    #[serde(default)]
    pub data_path: String,
    /// Why all frames travel in cells, although more is asked for; `null`: programs in the kernel are there, or nobody asks.
    #[serde(default)]
    pub cells_because: Option<String>,
    /// How cells are protected.
    pub security: String,
    /// The public part of this node's own key; `null` when it has none.
    pub node_key: Option<String>,
    /// Keys of the nodes that are let in; `null`: every node of the group is.
    pub allow: Option<Vec<String>>,
    /// The configuration file that the bundle was started with, or has taken to; `null`: none.
    #[serde(default)]
    pub file: Option<String>,
    /// What is in force and not in the file as it was read last, a short sentence each.
    #[serde(default)]
    pub changed_by_hand: Vec<String>,
    /// MTU of the device, in bytes.
    pub mtu: u32,
    /// Length of a full cell, header included, in bytes.
    pub cell_bytes: u32,
    /// Workers, and queues of the device.
    pub workers: u32,
    /// When the answer was made.
    pub now_ns: u64,
    /// The links, in the order of their numbers.
    pub links: Vec<LinkStatus>,
    /// The other nodes.
    pub peers: Vec<PeerStatus>,
    /// Counters since the start, by name.
    pub counters: BTreeMap<String, u64>,
    /// Events whose state lasts, oldest first: links that are dead or lose much, NICs that are gone, strangers that greet.
    pub troubles: Vec<Entry>,
    /// How many events there were since the start of the process, by what happened.
    #[serde(default)]
    pub event_counts: BTreeMap<String, u64>,
    /// The latest events, oldest first.
    pub events: Vec<Entry>,
}

/// One link of this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkStatus {
    /// Its number: the place in the configuration, or the first free one when it joined.
    pub link: u32,
    /// Network interface; of a link through memory, `mem:` and the path.
    pub nic: String,
    /// What its cells are: `udp`, `ether/packet`, `ether/xdp-copy` and the like, or `mem`.
    pub kind: String,
    /// Local endpoint of the first worker.
    pub local: String,
    /// Whether the NIC has carrier; of a link through memory, whether another node is there.
    pub carrier: bool,
    /// MTU of the NIC, in bytes; of a link through memory, the size of a unit.
    pub mtu: u32,
    /// The rate that this node keeps to on it as the user states it, in bits per second; `null`: measured.
    #[serde(default)]
    pub stated_bps: Option<u64>,
    /// Speed of its NIC, as that says, in bits per second.
    #[serde(default)]
    pub speed_bps: Option<u64>,
    /// Whether this node drains it.
    #[serde(default)]
    pub drained: bool,
    /// Its IPv6 link-local address, once no other node has it; links without stated addresses need it.
    pub link_local: Option<String>,
    /// Whether one call sends many cells.
    pub gso: bool,
    /// Whether one call receives many cells.
    pub gro: bool,
    /// How the kernel gives back frames that AF_XDP has sent, for the first worker; `null` without AF_XDP.
    pub completion: Option<CompletionStatus>,
}

/// How the kernel gives back frames that were sent, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompletionStatus {
    /// `interrupt`, `lazy` or `adaptive`.
    pub method: String,
    /// Frames that came back when something else was sent.
    pub reclaimed_at_sends: u64,
    /// Frames that came back by an interrupt, or by the poll each 50 us in place of it.
    pub reclaimed_by_interrupts: u64,
    /// Those interrupts.
    pub interrupts: u64,
    /// How often they were switched on.
    pub to_interrupts: u64,
    /// How often they were switched off.
    pub to_lazy: u64,
    /// Runs for which there was no room.
    pub refused: u64,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PeerStatus {
    /// Its identity.
    pub node: String,
    /// Its host name.
    pub name: String,
    /// The key of its own that it has proven; `null` when it has none.
    pub node_key: Option<String>,
    /// The reorder timeout, in microseconds: how long the first worker waits for a gap among its cells.
    pub reorder_timeout_us: Option<u64>,
    /// Cells of the peer that wait, at all workers, for those before them.
    #[serde(default)]
    pub reorder_cells: u64,
    /// The keys that its cells are sealed with, for the first worker; `null` when they are not.
    pub sealed: Option<SealStatus>,
    /// Whether frames to it take the kernel path; what that cannot carry travels in cells all the same.
    #[serde(default)]
    pub kernel_path: bool,
    /// Why frames to it travel in cells, where this node has the kernel path.
    #[serde(default)]
    pub cells_because: Option<String>,
    /// The paths to it, one over each link that leads there.
    pub paths: Vec<PathStatus>,
}

/// The keys of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SealStatus {
    /// Their epoch: 1 at first, one more after each change of keys, 1 again after 255.
    pub epoch: u8,
    /// For how long they have been agreed on, in seconds; they are renewed after 120.
    #[serde(default)]
    pub age_s: u64,
    /// Cells to the peer that were sealed with them.
    pub cells_sealed: u64,
    /// Cells of the peer that were opened with them.
    pub cells_opened: u64,
    /// Cipher of the cells to the peer.
    pub cipher_sent: String,
    /// Cipher of the peer's cells.
    pub cipher_received: String,
}

/// One link as it leads to one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathStatus {
    /// Number of the link of this node.
    pub link: u32,
    /// Number of the link of this node whose socket it uses, where that has another number: several links of the peer end there.
    #[serde(default)]
    pub socket: Option<u32>,
    /// Number of the peer's link at the other end.
    pub peer_link: Option<u32>,
    /// Network interface.
    pub nic: String,
    /// Where the peer is on this link.
    pub endpoint: String,
    /// Whether cells to the peer take this link.
    pub tx: PathState,
    /// Whether the peer's cells are expected on this link.
    pub rx: PathState,
    /// Round-trip time, in microseconds.
    pub rtt_us: Option<u64>,
    /// The largest packet to the peer that is known to arrive, in bytes.
    pub mtu: Option<u16>,
    /// The largest packet that the NICs at both ends take, in bytes; the way between them may carry less.
    pub mtu_of_nics: Option<u16>,
    /// How much later than on the fastest link cells arrive, in microseconds.
    pub skew_us: Option<u64>,
    /// By how much its delay varies, in microseconds; `null`: it is taken for steady. What a varying path carries is measured by what it
    /// delivers, since its delay says little.
    #[serde(default)]
    pub variation_us: Option<u64>,
    /// Rate of the path's bottleneck, measured or configured, in bits per second.
    pub rate_bps: Option<u64>,
    /// Whether the window of what may be on the way held cells back lately: the way or the receiver is the bottleneck.
    pub congested: bool,
    /// Bytes of all workers that wait for this link.
    pub queued_bytes: u64,
    /// Bytes of data that all workers have sent to the peer, in cells with their headers and tags.
    pub bytes_sent: u64,
    /// Bytes of data that all workers have received from the peer, in cells with their headers.
    pub bytes_received: u64,
    /// Cells that all workers have sent to the peer.
    pub cells_sent: u64,
    /// Cells that all workers have received from the peer.
    pub cells_received: u64,
    /// Share of the cells to the peer that was lost lately, in percent.
    pub loss_percent: f64,
    /// Cells of the peer that were lost on the way.
    pub cells_lost: u64,
    /// How long cells wait behind the NIC, in microseconds: in a router's queue, or at the peer until it reads them.
    pub queue_behind_us: u64,
    /// The peer's reports about this node's cells, of all workers.
    pub reports: u64,
    /// Of these, how many said that cells still waited in the peer's socket: it does not read as fast as they come.
    pub reports_behind: u64,
    /// What crossed the path besides cells; `null`: this node has no kernel path on the link.
    #[serde(default)]
    pub kernel: Option<KernelTraffic>,
}

/// What programs in the kernel have carried over a path, since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KernelTraffic {
    /// Frames sent; a superframe counts once.
    pub frames_sent: u64,
    /// Their bytes as on the device, Ethernet headers included.
    pub bytes_sent: u64,
    /// Frames received, as the device got them.
    pub frames_received: u64,
    /// Their bytes as on the device.
    pub bytes_received: u64,
}

impl Status {
    /// How much a counter has counted; 0 for one that this bundle does not know.
    pub fn counted(&self, counter: &str) -> u64 {
        self.counters.get(counter).copied().unwrap_or(0)
    }

    /// The path to the peer of this identity over a link.
    pub fn path(&self, node: &str, link: u32) -> Option<&PathStatus> {
        let peer = self.peers.iter().find(|peer| peer.node == node)?;
        peer.paths.iter().find(|path| path.link == link)
    }
}

impl PathStatus {
    /// Number of the link of this node over which it leads.
    #[must_use]
    pub fn own_link(&self) -> u32 {
        self.socket.unwrap_or(self.link)
    }

    /// Bytes of data sent, in cells and by the kernel path.
    pub fn all_sent(&self) -> u64 {
        self.bytes_sent + self.kernel.map_or(0, |kernel| kernel.bytes_sent)
    }

    /// Bytes of data received, in cells and by the kernel path.
    pub fn all_received(&self) -> u64 {
        self.bytes_received + self.kernel.map_or(0, |kernel| kernel.bytes_received)
    }

    /// How it works, in a word for people.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.tx, self.rx) {
            (PathState::Up, PathState::Up) => "up",
            (PathState::Suspect, PathState::Up) => "suspect",
            (PathState::Drained, PathState::Up) => "drained",
            (PathState::Down, PathState::Up) => "in only",
            (PathState::Up, _) => "out only",
            _ => "down",
        }
    }

    /// How good that is.
    pub fn level(&self) -> Level {
        match self.state() {
            "up" => Level::Good,
            "suspect" | "drained" => Level::Warning,
            _ => Level::Bad,
        }
    }
}

impl PeerStatus {
    /// Adds the counters of another worker's same paths.
    pub fn add(&mut self, other: &PeerStatus) {
        self.reorder_cells += other.reorder_cells;
        for path in &mut self.paths {
            for other in other.paths.iter().filter(|other| other.link == path.link) {
                path.congested |= other.congested;
                path.queued_bytes += other.queued_bytes;
                path.bytes_sent += other.bytes_sent;
                path.bytes_received += other.bytes_received;
                path.cells_sent += other.cells_sent;
                path.cells_received += other.cells_received;
                path.cells_lost += other.cells_lost;
                path.reports += other.reports;
                path.reports_behind += other.reports_behind;
            }
        }
    }
}

/// Whether a link works in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PathState {
    /// It carries cells.
    Up,
    /// It loses so many that data avoids it as long as another link is better.
    Suspect,
    /// It is drained at one end: data avoids it as long as another link is up.
    Drained,
    /// It is not used until heartbeats come again.
    Down,
}

#[cfg(test)]
pub(crate) fn example() -> Status {
    serde_json::from_str(EXAMPLE).expect("the documented example follows the schema")
}

#[cfg(test)]
const EXAMPLE: &str = include_str!("../../docs/status.example.json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_the_documented_example() {
        let written = serde_json::to_value(example()).expect("serializable");
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(EXAMPLE).expect("JSON"));
    }

    /// `TABANE_WRITE=1 cargo test -p tabane-api schema` writes the page anew.
    #[test]
    fn the_published_schema_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/status.schema.json");
        let schema = serde_json::to_value(schemars::schema_for!(Status)).expect("serializable");
        if std::env::var_os("TABANE_WRITE").is_some() {
            std::fs::write(path, format!("{schema:#}\n")).expect("written");
        }
        let published = std::fs::read_to_string(path).expect("docs/status.schema.json");
        let published: serde_json::Value = serde_json::from_str(&published).expect("JSON");
        assert_eq!(published, schema, "docs/status.schema.json");
    }
}
