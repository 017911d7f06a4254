//! What is said of a bundle, a link, a peer and a path: a row for each metric.
//!
//! Names end with their unit; times are seconds, rates bytes per second, shares parts of 1. What is not known has no sample.

use tabane_api::status::health::is_up;
use tabane_api::status::{Fault, KernelTraffic, LinkStatus, PathStatus, PeerStatus, REASONS, State};
use tabane_api::{KINDS, Status};

use super::exposition::{Labels, Number};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    Counter,
    /// One of several states is 1, and the label that names it is called as the metric.
    States,
    Info,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::States => "stateset",
            Kind::Info => "info",
        }
    }
}

/// What is said: a sample for each set of further labels' values.
type Said = Vec<(Vec<String>, Number)>;

/// A metric: name without prefix, type, further labels, meaning, and what it says of a subject.
pub(super) struct Row<F>(
    pub(super) &'static str,
    pub(super) Kind,
    pub(super) &'static [&'static str],
    pub(super) &'static str,
    pub(super) F,
);

/// A link of a bundle.
pub(super) struct Link<'a> {
    link: &'a LinkStatus,
    /// Why it is not well.
    reason: Option<&'static str>,
}

/// A path of a bundle.
pub(super) struct Path<'a>(pub(super) &'a PathStatus);

type OfBundle = fn(&Status) -> Said;
type OfLink = fn(&Link<'_>) -> Said;
type OfPeer = fn(&PeerStatus) -> Said;
type OfPath = fn(&PathStatus) -> Said;

/// How a path may be.
const PATH_STATES: [&str; 6] = ["up", "suspect", "drained", "in-only", "out-only", "down"];

/// A table of metrics: above each what it says; then its name without prefix, its type, further labels, and what it says of a subject.
macro_rules! families {
    ($table:ident: $of:ident; $($(#[doc = $help:literal])+ $name:ident: $kind:ident $([$($label:literal),+])?, $value:expr;)+) => {
        pub(super) const $table: &[Row<$of>] = &[$(
            Row(stringify!($name), Kind::$kind, &[$($($label),+)?], concat!($($help),+).trim_ascii(), $value),
        )+];
    };
}

families! {
    OF_BUNDLE: OfBundle;

    /// What the bundle is: its identity, its policy, its receive engine, and how cells are protected.
    bundle_info: Info ["node", "policy", "receive", "security"], |status| {
        let Status { node, policy, receive, security, .. } = status;
        info([node, policy, receive, security])
    };
    /// How the bundle is, in one word.
    health: States, |status| {
        let word = match status.health.state {
            State::Healthy => "healthy",
            State::Degraded => "degraded",
            State::NoPeer => "no-peer",
        };
        states(["healthy", "degraded", "no-peer"], Some(word))
    };
    /// Whether some peer is reached over one link or none, although the bundle has several.
    redundancy_lost: Gauge, |status| flag(status.health.redundancy_lost);
    /// Whether the links carry less than 80 % of what they should together to some peer.
    below_expected_speed: Gauge, |status| flag(status.health.below_expected_speed);
    /// Links of this node.
    links: Gauge, |status| count(status.links.len());
    /// Peers that have joined.
    peers: Gauge, |status| count(status.peers.len());
    /// Workers, and queues of the device.
    workers: Gauge, |status| whole(status.workers.into());
    /// MTU of the device.
    device_mtu_bytes: Gauge, |status| whole(status.mtu.into());
    /// Length of a full cell, header included.
    cell_bytes: Gauge, |status| whole(status.cell_bytes.into());
    /// How many things are in force and not in the configuration file.
    changes_by_hand: Gauge, |status| count(status.changed_by_hand.len());
    /// Events whose state lasts, by their kind.
    troubles: Gauge ["event"], |status| {
        let lasts = |kind: &str| status.troubles.iter().filter(|trouble| trouble.what == kind).count();
        let kinds = ["link-down", "link-suspect", "nic-gone", "stranger", "peer-refused"];
        kinds.iter().flat_map(|kind| labelled(kind, lasts(kind) as u64)).collect()
    };
    /// Events, by what happened.
    events_total: Counter ["event"], |status| {
        let counted = |kind: &str| status.event_counts.get(kind).copied().unwrap_or(0);
        let kinds = KINDS.iter().map(|(kind, _)| kind).filter(|kind| **kind != "skipped");
        kinds.flat_map(|kind| labelled(kind, counted(kind))).collect()
    };
}

families! {
    OF_LINK: OfLink;

    /// What moves the cells of the link, and where its first worker listens.
    link_info: Info ["kind", "local"], |of| info([&of.link.kind, &of.link.local]);
    /// Whether the NIC has a carrier.
    link_carrier: Gauge, |of| flag(of.link.carrier);
    /// Whether this node drains the link.
    link_drained: Gauge, |of| flag(of.link.drained);
    /// Why the link is not well; all are 0 while it is.
    link_fault: States, |of| states(REASONS.map(|(reason, _)| reason), of.reason);
    /// MTU of the NIC.
    link_mtu_bytes: Gauge, |of| whole(of.link.mtu.into());
    /// The rate that the user states for what this node sends over the link.
    link_stated_rate_bytes_per_second: Gauge, |of| known(of.link.stated_bps, 8);
    /// Speed of the NIC, as it says.
    link_nic_speed_bytes_per_second: Gauge, |of| known(of.link.speed_bps, 8);
    /// Frames sent by AF_XDP that the kernel gave back, at the next send or by an interrupt.
    link_reclaimed_frames_total: Counter ["by"], |of| {
        let Some(counted) = &of.link.completion else { return Vec::new() };
        let ways =
            [("sends", counted.reclaimed_at_sends), ("interrupts", counted.reclaimed_by_interrupts)];
        ways.into_iter().flat_map(|(way, frames)| labelled(way, frames)).collect()
    };
    /// Runs of frames for which AF_XDP had no room.
    link_reclaim_refused_total: Counter,
        |of| of.link.completion.as_ref().map_or_else(Vec::new, |counted| whole(counted.refused));
}

families! {
    OF_PEER: OfPeer;

    /// A peer that has joined, and the ciphers of both directions; none where cells are not sealed.
    peer_info: Info ["cipher_sent", "cipher_received"], |peer| {
        let sealed = peer.sealed.as_ref();
        let [sent, received] =
            [sealed.map(|seal| &seal.cipher_sent), sealed.map(|seal| &seal.cipher_received)]
                .map(|cipher| cipher.map_or("none", String::as_str));
        info([sent, received])
    };
    /// Whether frames to the peer take the kernel path.
    peer_kernel_path: Gauge, |peer| flag(peer.kernel_path);
    /// Paths to the peer.
    peer_paths: Gauge, |peer| count(peer.paths.len());
    /// Paths to the peer that work both ways.
    peer_paths_up: Gauge, |peer| count(peer.paths.iter().filter(|path| is_up(path)).count());
    /// How long the first worker waits for a gap among the peer's cells.
    peer_reorder_timeout_seconds: Gauge, |peer| known(peer.reorder_timeout_us, MICRO);
    /// Age of the session's keys, which are renewed after 120 s; the session ends at 360 s.
    peer_keys_age_seconds: Gauge, |peer| peer.sealed.as_ref().map_or_else(Vec::new, |seal| whole(seal.age_s));
    /// Epoch of the session's keys: 1 at first, one more after each change, 1 again after 255.
    peer_keys_epoch: Gauge, |peer| peer.sealed.as_ref().map_or_else(Vec::new, |seal| whole(seal.epoch.into()));
}

families! {
    OF_PATH: OfPath;

    /// How the path works, in one word.
    path_state: States, |path| {
        let state = path.state().replace(' ', "-");
        states(PATH_STATES, PATH_STATES.into_iter().find(|known| *known == state))
    };
    /// Round-trip time.
    path_rtt_seconds: Gauge, |path| known(path.rtt_us, MICRO);
    /// How much later than on the fastest path cells arrive.
    path_skew_seconds: Gauge, |path| known(path.skew_us, MICRO);
    /// By how much the path's delay varies; absent while it is taken for steady.
    path_delay_variation_seconds: Gauge, |path| known(path.variation_us, MICRO);
    /// Share of the cells to the peer that was lost lately.
    path_loss_ratio: Gauge, |path| vec![(Vec::new(), Number::Real(path.loss_percent / 100.0))];
    /// Rate of the path's bottleneck, measured or stated.
    path_rate_bytes_per_second: Gauge, |path| known(path.rate_bps, 8);
    /// Whether the window of what may be on the way held cells back within 250 ms.
    path_congested: Gauge, |path| flag(path.congested);
    /// Bytes that wait for the path's link.
    path_queue_bytes: Gauge, |path| whole(path.queued_bytes);
    /// How long cells wait behind the NIC: in a router's queue, or at the peer until it reads them.
    path_queue_behind_seconds: Gauge, |path| known(Some(path.queue_behind_us), MICRO);
    /// The largest packet that is known to arrive.
    path_mtu_bytes: Gauge, |path| known(path.mtu.map(u64::from), 1);
    /// The largest packet that the NICs at both ends take.
    path_nics_mtu_bytes: Gauge, |path| known(path.mtu_of_nics.map(u64::from), 1);
    /// Bytes of data cells sent to the peer.
    path_sent_bytes_total: Counter, |path| whole(path.bytes_sent);
    /// Bytes of data cells received from the peer.
    path_received_bytes_total: Counter, |path| whole(path.bytes_received);
    /// Bytes that the kernel path has carried, Ethernet headers included.
    path_kernel_bytes_total: Counter ["direction"],
        |path| by_direction(path, |kernel| [kernel.bytes_sent, kernel.bytes_received]);
    /// Frames that the kernel path has carried; a superframe counts once.
    path_kernel_frames_total: Counter ["direction"],
        |path| by_direction(path, |kernel| [kernel.frames_sent, kernel.frames_received]);
    /// Cells sent to the peer, of every kind.
    path_sent_cells_total: Counter, |path| whole(path.cells_sent);
    /// Cells received from the peer, of every kind.
    path_received_cells_total: Counter, |path| whole(path.cells_received);
    /// Cells of the peer that were lost on the way.
    path_lost_cells_total: Counter, |path| whole(path.cells_lost);
    /// The peer's reports about this node's cells.
    path_reports_total: Counter, |path| whole(path.reports);
    /// Reports that said that cells still waited in the peer's socket.
    path_reports_behind_total: Counter, |path| whole(path.reports_behind);
}

/// Microseconds of a second.
const MICRO: u64 = 1_000_000;

impl<'a> Link<'a> {
    /// The links of a bundle with their labels.
    pub(super) fn all(status: &'a Status) -> Vec<(Labels<'static>, Link<'a>)> {
        let faults = status.faults();
        let reason = |link: &LinkStatus| {
            faults.iter().find(|fault: &&Fault<'_>| fault.link == link.link).map(|fault| fault.reason)
        };
        let labels = |link: &LinkStatus| link_labels(status, link.link, &link.nic);
        status.links.iter().map(|link| (labels(link), Link { link, reason: reason(link) })).collect()
    }
}

impl<'a> Path<'a> {
    /// The paths of a bundle with their labels.
    pub(super) fn all(status: &'a Status) -> Vec<(Labels<'static>, Path<'a>)> {
        let paths = status.peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path)));
        let labels = |peer: &PeerStatus, path: &PathStatus| {
            let mut labels = link_labels(status, path.link, &path.nic);
            labels.extend([("peer", peer.name.clone()), ("node", peer.node.clone())]);
            labels
        };
        paths.map(|(peer, path)| (labels(peer, path), Path(path))).collect()
    }
}

fn link_labels(status: &Status, link: u32, nic: &str) -> Labels<'static> {
    vec![("bundle", status.name.clone()), ("link", link.to_string()), ("nic", nic.to_owned())]
}

fn whole(number: u64) -> Said {
    vec![(Vec::new(), Number::Whole(number))]
}

fn count(number: usize) -> Said {
    whole(number as u64)
}

fn flag(is_so: bool) -> Said {
    whole(u64::from(is_so))
}

/// A count of parts, of which `scale` are one.
fn known(count: Option<u64>, scale: u64) -> Said {
    let number = |count| if scale == 1 { Number::Whole(count) } else { Number::parts(count, scale) };
    count.map_or_else(Vec::new, |count| vec![(Vec::new(), number(count))])
}

/// What the kernel path has sent and received over a path that has it.
fn by_direction(path: &PathStatus, of: impl Fn(&KernelTraffic) -> [u64; 2]) -> Said {
    let counts = path.kernel.as_ref().map(of);
    counts
        .into_iter()
        .flat_map(|counts| ["sent", "received"].into_iter().zip(counts))
        .flat_map(|(way, count)| labelled(way, count))
        .collect()
}

fn labelled(value: &str, count: u64) -> Said {
    vec![(vec![value.to_owned()], Number::Whole(count))]
}

fn info<const N: usize>(values: [&str; N]) -> Said {
    vec![(values.into_iter().map(str::to_owned).collect(), Number::Whole(1))]
}

fn states<const N: usize>(all: [&'static str; N], present: Option<&str>) -> Said {
    all.into_iter().flat_map(|state| labelled(state, u64::from(present == Some(state)))).collect()
}
