//! A worker's state at one moment, and how one status is made of all workers' snapshots.

use std::collections::BTreeMap;

use tabane_api::counters::{COPIED, OF_DEVICE};
use tabane_api::status::{CompletionStatus, LinkStatus, PathState, PathStatus, PeerStatus, SealStatus};
use tabane_config::key::public;
use tabane_engine::fragments::Fragments;
use tabane_engine::receive::{self, Receive};
use tabane_engine::reclaim;
use tabane_io::{AnyLink, Bounce};
use tabane_proto::{Bundle, Counters};

use crate::machine::device::Device;

#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) worker: u16,
    pub(crate) node: String,
    pub(crate) counters: Counters,
    pub(crate) waits: receive::Counters,
    /// Which pieces of frames are copied, and how many were.
    pub(crate) fragments: Fragments,
    pub(crate) copied: u64,
    /// Bytes of a full cell.
    pub(crate) cell_bytes: u32,
    /// The links of this node, without their carrier.
    pub(crate) links: Vec<LinkStatus>,
    pub(crate) peers: Vec<PeerStatus>,
}

impl Snapshot {
    /// The snapshot of a worker now.
    pub(crate) fn of<'a>(
        worker: u16,
        bundle: &Bundle,
        engine: &Receive,
        bounce: &Bounce,
        links: impl Iterator<Item = (u32, &'a str, &'a AnyLink)>,
    ) -> Self {
        let should: Vec<_> = bundle.links().collect();
        let link = |(number, nic, link): (u32, &str, &AnyLink)| {
            let should = should.iter().find(|should| u32::from(should.link) == number);
            LinkStatus {
                stated_bps: should.and_then(|should| should.stated),
                speed_bps: should.and_then(|should| should.speed),
                drained: should.is_some_and(|should| should.drained),
                ..link_status(number, nic, link)
            }
        };
        let links: Vec<LinkStatus> = links.map(link).collect();
        Self {
            worker,
            node: bundle.node().to_string(),
            counters: *bundle.counters(),
            waits: engine.counters(),
            fragments: bounce.fragments().clone(),
            copied: bounce.copied(),
            cell_bytes: u32::try_from(bundle.cell_max()).unwrap_or(u32::MAX),
            peers: known(bundle, &links),
            links,
        }
    }
}

pub(crate) fn known(bundle: &Bundle, links: &[LinkStatus]) -> Vec<PeerStatus> {
    let peers = bundle.peers().map(|(peer, paths)| PeerStatus {
        node: peer.node.to_string(),
        name: peer.name.as_str().to_owned(),
        node_key: peer.key.as_ref().map(public),
        reorder_timeout_us: peer.reorder_timeout.map(micros),
        reorder_cells: peer.reorder_cells as u64,
        sealed: peer.sealed.map(|keys| SealStatus {
            epoch: keys.epoch,
            cells_sealed: keys.cells_sealed,
            cells_opened: keys.cells_opened,
            age_s: keys.age.as_secs(),
            cipher_sent: keys.cipher_sent.to_owned(),
            cipher_received: keys.cipher_received.to_owned(),
        }),
        kernel_path: false,
        cells_because: None,
        paths: paths.map(|path| path_status(&path, links)).collect(),
    });
    peers.collect()
}

pub(crate) fn sum<'a>(workers: impl Iterator<Item = &'a Snapshot>, device: &Device) -> BTreeMap<String, u64> {
    let names = OF_DEVICE.map(|(name, _)| name.to_owned());
    let mut total: BTreeMap<String, u64> = names.into_iter().zip(device.counts()).collect();
    let counted = |worker: &'a Snapshot| {
        let copied = [(COPIED.0, worker.copied)];
        worker.counters.named().chain(worker.waits.named()).chain(copied)
    };
    for (name, value) in workers.flat_map(counted) {
        *total.entry(name.to_owned()).or_default() += value;
    }
    total
}

/// The peers as the first worker sees them, with what all workers have counted on their links.
pub(crate) fn peers(workers: &[Snapshot]) -> Vec<PeerStatus> {
    let Some((first, others)) = workers.split_first() else { return Vec::new() };
    let mut peers = first.peers.clone();
    for other in others.iter().flat_map(|worker| &worker.peers) {
        if let Some(peer) = peers.iter_mut().find(|peer| peer.node == other.node) {
            peer.add(other);
        }
    }
    peers
}

fn link_status(number: u32, nic: &str, link: &AnyLink) -> LinkStatus {
    let kind = match link {
        AnyLink::Udp(_) => "udp",
        AnyLink::Ether(link) => link.engine(),
        AnyLink::Mem(_) => "mem",
    };
    let (carrier, mtu, gso, gro) = match link {
        AnyLink::Udp(link) => (link.nic().carrier, link.nic().mtu, link.gso(), link.gro()),
        AnyLink::Ether(link) => (link.nic().carrier, link.nic().mtu, false, false),
        AnyLink::Mem(link) => (link.has_carrier(), link.unit(), true, true),
    };
    let completion = if let AnyLink::Ether(link) = link { link.completion() } else { None };
    LinkStatus {
        link: number,
        nic: nic.to_owned(),
        kind: kind.to_owned(),
        local: link.local_addr().to_string(),
        carrier,
        mtu,
        link_local: None,
        stated_bps: None,
        speed_bps: None,
        drained: false,
        gso,
        gro,
        completion: completion.map(|(method, counted)| completion_status(method, &counted)),
    }
}

fn completion_status(method: reclaim::Method, counted: &reclaim::Counters) -> CompletionStatus {
    CompletionStatus {
        method: method.name().to_owned(),
        reclaimed_at_sends: counted.reclaimed_at_sends,
        reclaimed_by_interrupts: counted.reclaimed_by_interrupts,
        interrupts: counted.interrupts,
        to_interrupts: counted.to_interrupts,
        to_lazy: counted.to_lazy,
        refused: counted.refused,
    }
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn path_status(path: &tabane_proto::PathStatus, links: &[LinkStatus]) -> PathStatus {
    let state = |up: bool| if up { PathState::Up } else { PathState::Down };
    let link = links.iter().find(|link| link.link == u32::from(path.socket));
    PathStatus {
        link: path.link.into(),
        socket: Some(path.socket).filter(|socket| *socket != path.link).map(u32::from),
        peer_link: path.peer_link.map(u32::from),
        nic: link.map_or(String::new(), |link| link.nic.clone()),
        endpoint: path.endpoint.to_string(),
        tx: match () {
            () if path.sending && path.drained => PathState::Drained,
            () if path.sending && path.suspect => PathState::Suspect,
            () => state(path.sending),
        },
        rx: state(path.receiving),
        rtt_us: path.round_trip.map(micros),
        mtu: path.packets.map(|(packet, _)| packet),
        mtu_of_nics: path.packets.map(|(_, nics)| nics),
        skew_us: Some(micros(path.skew)),
        variation_us: path.variation.map(micros),
        rate_bps: path.rate,
        congested: path.congested,
        queued_bytes: path.queued,
        bytes_sent: path.bytes_sent,
        bytes_received: path.bytes_received,
        cells_sent: path.cells_sent,
        cells_received: path.cells_received,
        loss_percent: f64::from(path.lost) / 100.0,
        cells_lost: path.cells_missed,
        queue_behind_us: micros(path.queue_behind),
        reports: path.reports,
        reports_behind: path.reports_behind,
        kernel: None,
    }
}
