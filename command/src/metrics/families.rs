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

pub(super) const OF_BUNDLE: &[Row<OfBundle>] = &[
    Row(
        "bundle_info",
        Kind::Info,
        &["node", "policy", "receive", "security"],
        "What the bundle is: its identity, its policy, its receive engine, and how cells are protected.",
        |status| {
            let Status { node, policy, receive, security, .. } = status;
            info([node, policy, receive, security])
        },
    ),
    Row("health", Kind::States, &[], "How the bundle is, in one word.", |status| {
        let word = match status.health.state {
            State::Healthy => "healthy",
            State::Degraded => "degraded",
            State::NoPeer => "no-peer",
        };
        states(["healthy", "degraded", "no-peer"], Some(word))
    }),
    Row(
        "redundancy_lost",
        Kind::Gauge,
        &[],
        "Whether some peer is reached over one link or none, although the bundle has several.",
        |status| flag(status.health.redundancy_lost),
    ),
    Row(
        "below_expected_speed",
        Kind::Gauge,
        &[],
        "Whether the links carry less than 80 % of what they should together to some peer.",
        |status| flag(status.health.below_expected_speed),
    ),
    Row("links", Kind::Gauge, &[], "Links of this node.", |status| count(status.links.len())),
    Row("peers", Kind::Gauge, &[], "Peers that have joined.", |status| count(status.peers.len())),
    Row("workers", Kind::Gauge, &[], "Workers, and queues of the device.", |status| {
        whole(status.workers.into())
    }),
    Row("device_mtu_bytes", Kind::Gauge, &[], "MTU of the device.", |status| whole(status.mtu.into())),
    Row("cell_bytes", Kind::Gauge, &[], "Length of a full cell, header included.", |status| {
        whole(status.cell_bytes.into())
    }),
    Row(
        "changes_by_hand",
        Kind::Gauge,
        &[],
        "How many things are in force and not in the configuration file.",
        |status| count(status.changed_by_hand.len()),
    ),
    Row("troubles", Kind::Gauge, &["event"], "Events whose state lasts, by their kind.", |status| {
        let lasts = |kind: &str| status.troubles.iter().filter(|trouble| trouble.what == kind).count();
        let kinds = ["link-down", "link-suspect", "nic-gone", "stranger", "peer-refused"];
        kinds.iter().flat_map(|kind| labelled(kind, lasts(kind) as u64)).collect()
    }),
    Row("events_total", Kind::Counter, &["event"], "Events, by what happened.", |status| {
        let counted = |kind: &str| status.event_counts.get(kind).copied().unwrap_or(0);
        let kinds = KINDS.iter().map(|(kind, _)| kind).filter(|kind| **kind != "skipped");
        kinds.flat_map(|kind| labelled(kind, counted(kind))).collect()
    }),
];

pub(super) const OF_LINK: &[Row<OfLink>] = &[
    Row(
        "link_info",
        Kind::Info,
        &["kind", "local"],
        "What moves the cells of the link, and where its first worker listens.",
        |of| info([&of.link.kind, &of.link.local]),
    ),
    Row("link_carrier", Kind::Gauge, &[], "Whether the NIC has a carrier.", |of| flag(of.link.carrier)),
    Row("link_drained", Kind::Gauge, &[], "Whether this node drains the link.", |of| flag(of.link.drained)),
    Row("link_fault", Kind::States, &[], "Why the link is not well; all are 0 while it is.", |of| {
        states(REASONS.map(|(reason, _)| reason), of.reason)
    }),
    Row("link_mtu_bytes", Kind::Gauge, &[], "MTU of the NIC.", |of| whole(of.link.mtu.into())),
    Row(
        "link_stated_rate_bytes_per_second",
        Kind::Gauge,
        &[],
        "The rate that the user states for what this node sends over the link.",
        |of| known(of.link.stated_bps, 8),
    ),
    Row("link_nic_speed_bytes_per_second", Kind::Gauge, &[], "Speed of the NIC, as it says.", |of| {
        known(of.link.speed_bps, 8)
    }),
    Row(
        "link_reclaimed_frames_total",
        Kind::Counter,
        &["by"],
        "Frames sent by AF_XDP that the kernel gave back, at the next send or by an interrupt.",
        |of| {
            let Some(counted) = &of.link.completion else { return Vec::new() };
            let ways =
                [("sends", counted.reclaimed_at_sends), ("interrupts", counted.reclaimed_by_interrupts)];
            ways.into_iter().flat_map(|(way, frames)| labelled(way, frames)).collect()
        },
    ),
    Row(
        "link_reclaim_refused_total",
        Kind::Counter,
        &[],
        "Runs of frames for which AF_XDP had no room.",
        |of| of.link.completion.as_ref().map_or_else(Vec::new, |counted| whole(counted.refused)),
    ),
];

pub(super) const OF_PEER: &[Row<OfPeer>] = &[
    Row(
        "peer_info",
        Kind::Info,
        &["cipher_sent", "cipher_received"],
        "A peer that has joined, and the ciphers of both directions; none where cells are not sealed.",
        |peer| {
            let sealed = peer.sealed.as_ref();
            let [sent, received] =
                [sealed.map(|seal| &seal.cipher_sent), sealed.map(|seal| &seal.cipher_received)]
                    .map(|cipher| cipher.map_or("none", String::as_str));
            info([sent, received])
        },
    ),
    Row("peer_kernel_path", Kind::Gauge, &[], "Whether frames to the peer take the kernel path.", |peer| {
        flag(peer.kernel_path)
    }),
    Row("peer_paths", Kind::Gauge, &[], "Paths to the peer.", |peer| count(peer.paths.len())),
    Row("peer_paths_up", Kind::Gauge, &[], "Paths to the peer that work both ways.", |peer| {
        count(peer.paths.iter().filter(|path| is_up(path)).count())
    }),
    Row(
        "peer_reorder_timeout_seconds",
        Kind::Gauge,
        &[],
        "How long the first worker waits for a gap among the peer's cells.",
        |peer| known(peer.reorder_timeout_us, MICRO),
    ),
    Row(
        "peer_keys_age_seconds",
        Kind::Gauge,
        &[],
        "Age of the session's keys, which are renewed after 120 s; the session ends at 360 s.",
        |peer| peer.sealed.as_ref().map_or_else(Vec::new, |seal| whole(seal.age_s)),
    ),
    Row(
        "peer_keys_epoch",
        Kind::Gauge,
        &[],
        "Epoch of the session's keys: 1 at first, one more after each change, 1 again after 255.",
        |peer| peer.sealed.as_ref().map_or_else(Vec::new, |seal| whole(seal.epoch.into())),
    ),
];

pub(super) const OF_PATH: &[Row<OfPath>] = &[
    Row("path_state", Kind::States, &[], "How the path works, in one word.", |path| {
        let state = path.state().replace(' ', "-");
        states(PATH_STATES, PATH_STATES.into_iter().find(|known| *known == state))
    }),
    Row("path_rtt_seconds", Kind::Gauge, &[], "Round-trip time.", |path| known(path.rtt_us, MICRO)),
    Row(
        "path_skew_seconds",
        Kind::Gauge,
        &[],
        "How much later than on the fastest path cells arrive.",
        |path| known(path.skew_us, MICRO),
    ),
    Row(
        "path_delay_variation_seconds",
        Kind::Gauge,
        &[],
        "By how much the path's delay varies; absent while it is taken for steady.",
        |path| known(path.variation_us, MICRO),
    ),
    Row(
        "path_loss_ratio",
        Kind::Gauge,
        &[],
        "Share of the cells to the peer that was lost lately.",
        |path| vec![(Vec::new(), Number::Real(path.loss_percent / 100.0))],
    ),
    Row(
        "path_rate_bytes_per_second",
        Kind::Gauge,
        &[],
        "Rate of the path's bottleneck, measured or stated.",
        |path| known(path.rate_bps, 8),
    ),
    Row(
        "path_congested",
        Kind::Gauge,
        &[],
        "Whether the window of what may be on the way held cells back within 250 ms.",
        |path| flag(path.congested),
    ),
    Row("path_queue_bytes", Kind::Gauge, &[], "Bytes that wait for the path's link.", |path| {
        whole(path.queued_bytes)
    }),
    Row(
        "path_queue_behind_seconds",
        Kind::Gauge,
        &[],
        "How long cells wait behind the NIC: in a router's queue, or at the peer until it reads them.",
        |path| known(Some(path.queue_behind_us), MICRO),
    ),
    Row("path_mtu_bytes", Kind::Gauge, &[], "The largest packet that is known to arrive.", |path| {
        known(path.mtu.map(u64::from), 1)
    }),
    Row(
        "path_nics_mtu_bytes",
        Kind::Gauge,
        &[],
        "The largest packet that the NICs at both ends take.",
        |path| known(path.mtu_of_nics.map(u64::from), 1),
    ),
    Row("path_sent_bytes_total", Kind::Counter, &[], "Bytes of data cells sent to the peer.", |path| {
        whole(path.bytes_sent)
    }),
    Row(
        "path_received_bytes_total",
        Kind::Counter,
        &[],
        "Bytes of data cells received from the peer.",
        |path| whole(path.bytes_received),
    ),
    Row(
        "path_kernel_bytes_total",
        Kind::Counter,
        &["direction"],
        "Bytes that the kernel path has carried, Ethernet headers included.",
        |path| by_direction(path, |kernel| [kernel.bytes_sent, kernel.bytes_received]),
    ),
    Row(
        "path_kernel_frames_total",
        Kind::Counter,
        &["direction"],
        "Frames that the kernel path has carried; a superframe counts once.",
        |path| by_direction(path, |kernel| [kernel.frames_sent, kernel.frames_received]),
    ),
    Row("path_sent_cells_total", Kind::Counter, &[], "Cells sent to the peer, of every kind.", |path| {
        whole(path.cells_sent)
    }),
    Row(
        "path_received_cells_total",
        Kind::Counter,
        &[],
        "Cells received from the peer, of every kind.",
        |path| whole(path.cells_received),
    ),
    Row(
        "path_lost_cells_total",
        Kind::Counter,
        &[],
        "Cells of the peer that were lost on the way.",
        |path| whole(path.cells_lost),
    ),
    Row("path_reports_total", Kind::Counter, &[], "The peer's reports about this node's cells.", |path| {
        whole(path.reports)
    }),
    Row(
        "path_reports_behind_total",
        Kind::Counter,
        &[],
        "Reports that said that cells still waited in the peer's socket.",
        |path| whole(path.reports_behind),
    ),
];

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
