//! How the facts are gathered: what is counted, before and after; TCP several times between.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tabane_api::status::{KernelTraffic, PathState, PathStatus, PeerStatus};
use tabane_api::{Status, status_of};
use tabane_io::netlink::{self, NicDetail, SocketState};
use tabane_proto::{Nature, PolicyKind};

use super::facts::{Drops, Facts, Flow, Path, Worker};
use crate::usage::Usage;

/// How long a bundle is watched, and how often TCP is looked at meanwhile.
const WATCH: Duration = Duration::from_millis(1_500);
const LOOKS: u32 = 10;
/// Bytes of Ethernet, IPv6 and UDP before a cell.
const HEADERS: u64 = 14 + 40 + 8;

/// Everything that is read at one moment.
struct Moment {
    at: Instant,
    status: Status,
    nics: Vec<NicDetail>,
    usage: Usage,
}

impl Moment {
    fn now(name: &str) -> anyhow::Result<Self> {
        let status = status_of(name)?;
        let usage = Usage::now(Some(status.pid));
        Ok(Self { at: Instant::now(), nics: netlink::nic_details()?, usage, status })
    }

    fn nic(&self, name: &str) -> Option<&NicDetail> {
        self.nics.iter().find(|detail| detail.nic.name == name)
    }

    /// Bytes that the device `name` has sent and received; it does not count what programs took off it or gave to it.
    fn bytes(&self, name: &str) -> [u64; 2] {
        let counted = self.nic(name).map(|detail| [detail.statistics.tx_bytes, detail.statistics.rx_bytes]);
        let paths = self.status.peers.iter().flat_map(|peer| &peer.paths);
        let programs =
            paths.filter_map(|path| path.kernel).map(|kernel| [kernel.bytes_sent, kernel.bytes_received]);
        let add = |sum: [u64; 2], more: [u64; 2]| [sum[0] + more[0], sum[1] + more[1]];
        counted.into_iter().chain(programs).fold([0; 2], add)
    }
}

/// Watches the bundle `name`.
pub(super) fn gather(name: &str) -> anyhow::Result<Facts> {
    let before = Moment::now(name)?;
    let mut looks = vec![Look { tcp: tcp(), status: before.status.clone() }];
    for _ in 0..LOOKS {
        std::thread::sleep(WATCH / LOOKS);
        looks.push(Look { tcp: tcp(), status: status_of(name)? });
    }
    let after = Moment::now(name)?;
    Ok(between(name, &before, &after, &looks))
}

/// What is looked at several times, for it changes from moment to moment.
struct Look {
    tcp: Vec<SocketState>,
    status: Status,
}

/// The connections of TCP. A kernel that does not tell of them has none here.
fn tcp() -> Vec<SocketState> {
    netlink::tcp_sockets().unwrap_or_default()
}

fn between(name: &str, before: &Moment, after: &Moment, looks: &[Look]) -> Facts {
    let millis = u64::try_from((after.at - before.at).as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = |bytes: u64| bytes.saturating_mul(8_000) / millis;
    let [sent, received] = grown(before.bytes(name), after.bytes(name));
    let sends = sent >= received;
    let policy = after.status.policy.parse().ok();
    let peer = busiest(before, after, sends);
    let used = after.usage.since(&before.usage);
    Facts {
        millis,
        sends,
        rate: rate(sent.max(received)),
        policy: after.status.policy.clone(),
        binds: policy.is_some_and(|policy: PolicyKind| policy.nature() == Nature::Binds),
        peer: peer.map_or(String::new(), |(_, peer)| {
            if peer.name.is_empty() { peer.node.clone() } else { peer.name.clone() }
        }),
        data_path: data_path(&after.status, peer.map(|(_, peer)| peer)),
        paths: peer.map_or(Vec::new(), |(earlier, peer)| {
            let path = |path: &PathStatus| {
                let earlier =
                    earlier.and_then(|peer| peer.paths.iter().find(|other| other.link == path.link));
                let looks: Vec<&PathStatus> =
                    looks.iter().filter_map(|look| look.status.path(&peer.node, path.link)).collect();
                let waiting =
                    looks.iter().filter(|look| look.queued_bytes > 0).count() * 100 / looks.len().max(1);
                let behind = median(looks.iter().map(|look| look.queue_behind_us).collect());
                let mut path = path_between(earlier.unwrap_or(path), path, sends, millis);
                (path.waited_us, path.reports) = (behind, path.reports * 1_000 / millis);
                path.waiting = waiting as u64;
                if peer.kernel_path { path.by_programs() } else { path }
            };
            peer.paths.iter().map(path).collect()
        }),
        workers: workers(before, after, &used, millis),
        processors: used.processors.iter().map(|processor| processor.busy_percent()).collect(),
        flows: flows(looks, &addresses(after, name), sends, millis),
        drops: drops(before, after, sends),
    }
}

/// How frames to the peer travel, where that is worth a line.
fn data_path(status: &Status, peer: Option<&PeerStatus>) -> String {
    match (&status.cells_because, peer) {
        (Some(why), _) => format!("frames travel in cells: {why}"),
        (None, Some(PeerStatus { cells_because: Some(why), .. })) => format!("frames travel in cells: {why}"),
        (None, Some(PeerStatus { kernel_path: true, .. })) => "frames take the kernel path".to_owned(),
        _ => String::new(),
    }
}

fn grown(before: [u64; 2], after: [u64; 2]) -> [u64; 2] {
    [after[0].saturating_sub(before[0]), after[1].saturating_sub(before[1])]
}

/// The peer with which most cells and frames were exchanged, before and after.
fn busiest<'a>(
    before: &'a Moment,
    after: &'a Moment,
    sends: bool,
) -> Option<(Option<&'a PeerStatus>, &'a PeerStatus)> {
    let cells = |peer: &PeerStatus| {
        let count = |path: &PathStatus| {
            let kernel = path.kernel.unwrap_or_default();
            let [cells, frames] = if sends {
                [path.cells_sent, kernel.frames_sent]
            } else {
                [path.cells_received, kernel.frames_received]
            };
            cells + frames
        };
        peer.paths.iter().map(count).sum::<u64>()
    };
    let peers = after.status.peers.iter().map(|peer| {
        let earlier = before.status.peers.iter().find(|other| other.node == peer.node);
        (cells(peer).saturating_sub(earlier.map_or(0, cells)), earlier, peer)
    });
    peers.max_by_key(|(cells, ..)| *cells).map(|(_, earlier, peer)| (earlier, peer))
}

fn path_between(before: &PathStatus, path: &PathStatus, sends: bool, millis: u64) -> Path {
    let grew = |now: u64, then: u64| now.saturating_sub(then);
    let lost = grew(path.cells_lost, before.cells_lost);
    let arrived = grew(path.cells_received, before.cells_received);
    let reports = grew(path.reports, before.reports);
    let kernel = |of: fn(&KernelTraffic) -> u64| {
        let count = |path: &PathStatus| path.kernel.as_ref().map_or(0, of);
        grew(count(path), count(before))
    };
    // A superframe has one header of ours for each packet that becomes of it, which nobody counts.
    let by_kernel = kernel(if sends { |kernel| kernel.bytes_sent } else { |kernel| kernel.bytes_received });
    let (bytes, cells) = if sends {
        (grew(path.bytes_sent, before.bytes_sent), grew(path.cells_sent, before.cells_sent))
    } else {
        (grew(path.bytes_received, before.bytes_received), arrived)
    };
    Path {
        nic: path.nic.clone(),
        state: if sends { path.tx } else { path.rx },
        carried: (bytes + HEADERS * cells + by_kernel).saturating_mul(8_000) / millis,
        can: path.rate_bps.filter(|_| path.tx != PathState::Down),
        skew_us: path.skew_us.unwrap_or(0),
        variation_us: path.variation_us.unwrap_or(0),
        loss: if sends { path.loss_percent } else { lost as f64 * 100.0 / (lost + arrived).max(1) as f64 },
        reports,
        behind: grew(path.reports_behind, before.reports_behind) * 100 / reports.max(1),
        waited_us: path.queue_behind_us,
        waiting: 0,
        queued: path.queued_bytes,
    }
}

/// The middle one; 0 of none.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// The workers' threads; what they spun is shared among them.
fn workers(before: &Moment, after: &Moment, used: &Usage, millis: u64) -> Vec<Worker> {
    let threads: Vec<_> = used.threads.iter().filter(|thread| thread.name.starts_with("worker")).collect();
    let spun_us =
        after.status.counted("receive_spun_us").saturating_sub(before.status.counted("receive_spun_us"));
    let spun_ns = spun_us * 1_000 / (threads.len() as u64).max(1);
    let percent = |ns: u64| ns / 10_000 / millis;
    let worker = |thread: &&crate::usage::Thread| Worker {
        name: thread.name.clone(),
        worked: percent(thread.ran.saturating_sub(spun_ns)),
        waited: percent(thread.waited),
    };
    threads.iter().map(worker).collect()
}

/// Addresses of the device, and of the bridge to which it belongs.
fn addresses(after: &Moment, name: &str) -> BTreeSet<IpAddr> {
    let device = after.nic(name);
    let master = device.and_then(|device| device.master);
    let holders = after.nics.iter().filter(|nic| nic.nic.name == name || Some(nic.nic.index) == master);
    holders.flat_map(|holder| &holder.addresses).map(|own| own.address).collect()
}

/// The connections over the device that were there at the first look and at the last.
fn flows(looks: &[Look], own: &BTreeSet<IpAddr>, sends: bool, millis: u64) -> Vec<Flow> {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return Vec::new() };
    let earlier: BTreeMap<u32, &SocketState> =
        first.tcp.iter().map(|socket| (socket.inode, socket)).collect();
    let over_device = last.tcp.iter().filter(|socket| own.contains(&socket.local.ip().to_canonical()));
    let mut flows: Vec<Flow> = over_device
        .filter_map(|socket| {
            let then = earlier.get(&socket.inode)?.tcp?;
            let now = socket.tcp?;
            let bytes = |tcp: &netlink::TcpState| if sends { tcp.bytes_acked } else { tcp.bytes_received };
            let carried = bytes(&now).saturating_sub(bytes(&then));
            let share = |now: Duration, then: Duration| {
                u64::try_from(now.saturating_sub(then).as_micros() / 10).unwrap_or(u64::MAX) / millis
            };
            let seen: Vec<&SocketState> = looks
                .iter()
                .filter_map(|look| look.tcp.iter().find(|other| other.inode == socket.inode))
                .collect();
            let part = |wanted: fn(&SocketState) -> bool| {
                let count = seen.iter().filter(|look| wanted(look)).count();
                (count * 100 / seen.len().max(1)) as u64
            };
            Some(Flow {
                ends: format!("{} to {}", socket.local, socket.remote),
                rate: carried.saturating_mul(8_000) / millis,
                idle: part(|look| is_all_sent(look) && !is_full(look)),
                window_limited: share(now.window_limited, then.window_limited),
                // The kernel counts no buffer that a single superframe fills.
                buffer_limited: share(now.buffer_limited, then.buffer_limited)
                    .max(part(|look| is_all_sent(look) && is_full(look))),
                window: now.send_window.into(),
                buffer: if sends { socket.send_buffer } else { socket.receive_buffer }.into(),
                unread: u64::from(socket.unread) * 100 / u64::from(socket.receive_buffer).max(1),
            })
        })
        .collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.rate));
    flows.retain(|flow| flow.rate > 0);
    flows
}

/// Whether everything has left that the program has written.
fn is_all_sent(socket: &SocketState) -> bool {
    socket.tcp.is_some_and(|tcp| tcp.not_sent == 0)
}

/// Whether what is not acknowledged fills the send buffer: the kernel counts twice its length, or more.
fn is_full(socket: &SocketState) -> bool {
    socket.unsent > 0 && u64::from(socket.unsent) * 2 >= socket.send_buffer.into()
}

/// What the device itself counts as dropped is left out: gates refuse frames there, which TCP sends again later.
fn drops(before: &Moment, after: &Moment, sends: bool) -> Drops {
    let grew = |counter: &str| after.status.counted(counter).saturating_sub(before.status.counted(counter));
    Drops {
        frames: grew(if sends { "frames_sent" } else { "frames_delivered" }),
        queue: grew("drop_queue_full"),
        cells: grew("cells_received"),
        given_up: grew("cells_given_up"),
    }
}
