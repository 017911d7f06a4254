//! What there is to see of a bundle at one moment, as figures: the view only draws them.

use std::net::SocketAddr;

use tabane_api::status::{LinkStatus, PathState, PathStatus, PeerStatus};
use tabane_api::{Entry, Status};
use tabane_config::problem::one_line;

use super::figures::UNKNOWN;
use super::flows::Flows;
use super::history::{Both, History};
use super::style::Level;

/// A bundle at one moment.
pub(super) struct Picture {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) security: String,
    pub(super) verdict: (Level, String),
    /// Bits per second of frames.
    pub(super) device: Option<Both>,
    /// A row for each link, over all its paths.
    pub(super) links: Vec<Row>,
    pub(super) paths: Vec<Row>,
    pub(super) peers: Vec<Peer>,
    pub(super) flows: Flows,
    pub(super) health: Vec<Sign>,
    pub(super) events: Vec<Event>,
}

/// A link or a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) link: u32,
    pub(super) nic: String,
    /// What the link is called in requests.
    pub(super) request: String,
    pub(super) peer: String,
    pub(super) state: String,
    pub(super) level: Level,
    /// Bits per second.
    pub(super) rate: Option<Both>,
    /// Of what is sent over all links, in percent; of a path, to its peer.
    pub(super) share: Option<f64>,
    pub(super) rtt_us: Option<u64>,
    pub(super) skew_us: Option<u64>,
    pub(super) loss_percent: f64,
    pub(super) queued_bytes: Option<u64>,
    /// What arrives, and what the NICs take, in bytes.
    pub(super) mtu: Option<[u16; 2]>,
    pub(super) limit: String,
    /// What is wrong with it, or where it leads.
    pub(super) sentence: String,
    /// What the link carried, a point per second.
    pub(super) curve: Vec<Both>,
}

/// Another node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) seal: String,
    /// Paths that work both ways, and all.
    pub(super) paths: [usize; 2],
    pub(super) rate: Option<Both>,
    pub(super) rtt_us: Option<u64>,
    pub(super) skew_us: Option<u64>,
    /// How long gaps among its cells are waited for.
    pub(super) reorder_us: Option<u64>,
}

/// A figure about the health of the bundle.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sign {
    pub(super) what: &'static str,
    /// Since the start.
    pub(super) count: u64,
    pub(super) per_second: Option<u64>,
    pub(super) level: Level,
    pub(super) meaning: &'static str,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) ago_ns: u64,
    pub(super) what: String,
    pub(super) level: Level,
    pub(super) sentence: String,
}

impl Picture {
    /// The picture that a status and those before it give.
    pub(super) fn of(status: &Status, history: &History, flows: Flows) -> Picture {
        let paths: Vec<Row> = status.peers.iter().flat_map(|peer| rows(status, peer, history)).collect();
        let mut links: Vec<Row> =
            status.links.iter().map(|link| link_row(link, status, &paths, history)).collect();
        share(&mut links);
        Picture {
            name: one_line(&status.name),
            policy: one_line(&status.policy),
            security: one_line(&status.security),
            verdict: (
                status.health.level(),
                format!("{}: {}", status.health.word(), one_line(&status.health.summary)),
            ),
            device: history.device(),
            peers: status.peers.iter().map(|peer| peer_row(peer, history)).collect(),
            links,
            paths,
            flows,
            health: health(status, history),
            events: status.events.iter().rev().map(|event| happened(event, status.now_ns)).collect(),
        }
    }
}

fn rows(status: &Status, peer: &PeerStatus, history: &History) -> Vec<Row> {
    let mut rows: Vec<Row> = peer.paths.iter().map(|path| path_row(status, peer, path, history)).collect();
    share(&mut rows);
    rows
}

fn path_row(status: &Status, peer: &PeerStatus, path: &PathStatus, history: &History) -> Row {
    let link = status.links.iter().find(|link| link.link == path.link);
    let rate = history.path(&peer.node, path.link);
    let (state, level) = state(path, link);
    let limit = one_line(&status.limit(peer, path, rate.unwrap_or_default().sent));
    let sentence = status.path_fault(peer, path, link).unwrap_or_else(|| {
        let limited = if limit == UNKNOWN { String::new() } else { format!(", limited by {limit}") };
        format!("{} to {} at {}{limited}", path.nic, peer.name, path.endpoint)
    });
    Row {
        link: path.link,
        nic: one_line(&path.nic),
        request: link.map_or(String::new(), |link| in_requests(link, &status.links)),
        peer: one_line(&peer.name),
        state,
        level,
        rate,
        share: None,
        // What was measured last is not true of a path that is down.
        rtt_us: path.rtt_us.filter(|_| level < Level::Bad),
        skew_us: path.skew_us,
        loss_percent: path.loss_percent,
        queued_bytes: Some(path.queued_bytes).filter(|_| level < Level::Bad),
        mtu: path.mtu.zip(path.mtu_of_nics).map(|(here, nics)| [here, nics]),
        limit,
        sentence: one_line(&sentence),
        curve: history.curve(path.link),
    }
}

fn link_row(link: &LinkStatus, status: &Status, paths: &[Row], history: &History) -> Row {
    let here: Vec<&Row> = paths.iter().filter(|path| path.link == link.link).collect();
    let worst = here.iter().copied().max_by_key(|path| path.level);
    let (state, level) = link_state(link, &here, worst);
    Row {
        link: link.link,
        nic: one_line(&link.nic),
        request: in_requests(link, &status.links),
        peer: String::new(),
        state,
        level,
        rate: Both::total(here.iter().filter_map(|path| path.rate)),
        share: None,
        rtt_us: here.iter().filter_map(|path| path.rtt_us).min(),
        skew_us: here.iter().filter_map(|path| path.skew_us).max(),
        loss_percent: here.iter().map(|path| path.loss_percent).fold(0.0, f64::max),
        // All paths of a link wait in its one queue.
        queued_bytes: here.iter().filter_map(|path| path.queued_bytes).max(),
        mtu: here.iter().filter_map(|path| path.mtu).min(),
        limit: worst.map_or(String::new(), |worst| worst.limit.clone()),
        sentence: link_sentence(link, &here, worst),
        curve: history.curve(link.link),
    }
}

/// How a link with these paths is; `worst`: the one that is worst off.
fn link_state(link: &LinkStatus, here: &[&Row], worst: Option<&Row>) -> (String, Level) {
    let up = here.iter().filter(|path| path.level < Level::Bad).count();
    match worst {
        _ if !link.carrier => ("no carrier".to_owned(), Level::Bad),
        None => ("no peer".to_owned(), Level::Warning),
        Some(worst) if worst.level == Level::Bad && up > 0 => (format!("up {up}/{}", here.len()), Level::Bad),
        Some(worst) => (worst.state.clone(), worst.level),
    }
}

/// What is wrong with a link, or where it leads.
fn link_sentence(link: &LinkStatus, here: &[&Row], worst: Option<&Row>) -> String {
    let [nic, local] = [&link.nic, &link.local].map(|text| one_line(text));
    match worst {
        None if link.carrier => format!("{nic} listens at {local} and has found nobody"),
        None => format!("{nic} has no carrier"),
        Some(worst) if here.len() == 1 || worst.level > Level::Good => worst.sentence.clone(),
        Some(_) => format!("{nic} at {local} leads to {} peers", here.len()),
    }
}

fn state(path: &PathStatus, link: Option<&LinkStatus>) -> (String, Level) {
    let (word, level) = match path.level() {
        _ if link.is_some_and(|link| !link.carrier) => ("no carrier", Level::Bad),
        Level::Good if path.mtu < path.mtu_of_nics => (path.state(), Level::Warning),
        level => (path.state(), level),
    };
    (word.to_owned(), level)
}

/// What a link is called: its NIC, and its address where several links use that NIC.
fn in_requests(link: &LinkStatus, all: &[LinkStatus]) -> String {
    let alone = all.iter().filter(|other| other.nic == link.nic).count() == 1;
    let address = link.local.parse().ok().map(|local: SocketAddr| local.ip());
    match address.filter(|address| !alone && !address.is_unspecified()) {
        Some(address) => format!("{},local={address}", link.nic),
        None => link.nic.clone(),
    }
}

/// Gives each row its share of what all of them send.
fn share(rows: &mut [Row]) {
    let sum: u64 = rows.iter().filter_map(|row| row.rate).map(|rate| rate.sent).sum();
    for row in rows {
        row.share = row.rate.filter(|_| sum > 0).map(|rate| rate.sent as f64 * 100.0 / sum as f64);
    }
}

fn peer_row(peer: &PeerStatus, history: &History) -> Peer {
    let rates = peer.paths.iter().filter_map(|path| history.path(&peer.node, path.link));
    let up =
        peer.paths.iter().filter(|path| path.tx != PathState::Down && path.rx != PathState::Down).count();
    let seal = peer.sealed.as_ref().map_or("not sealed".to_owned(), |seal| one_line(&seal.cipher_sent));
    Peer {
        name: one_line(&peer.name),
        node: one_line(&peer.node),
        seal,
        paths: [up, peer.paths.len()],
        rate: Both::total(rates),
        rtt_us: peer.paths.iter().filter_map(|path| path.rtt_us).min(),
        skew_us: peer.paths.iter().filter_map(|path| path.skew_us).max(),
        reorder_us: peer.reorder_timeout_us,
    }
}

/// Counters that tell how well it goes: name, words, meaning, and whether counting them now is bad.
const SIGNS: [(&str, &str, &str, Level); 10] = [
    ("cells_missed", "missed", "cells lost on the way to here", Level::Warning),
    ("cells_repaired", "repaired", "cells sent once more because they were lost", Level::Warning),
    ("cells_given_up", "given up", "cells that did not come in time", Level::Bad),
    ("records_spoiled", "spoiled", "frames lost with such a cell", Level::Bad),
    ("drop_late", "late", "cells that came after the reorder timeout", Level::Warning),
    ("frames_marked", "marked", "frames that told their flow of congestion (ECN)", Level::Good),
    ("frames_trimmed", "trimmed", "superframes cut for the same reason", Level::Good),
    ("drop_queue_late", "queue drops", "frames dropped for the same reason", Level::Good),
    ("drop_no_link", "no link", "frames for a peer without a link that is up", Level::Bad),
    ("drop_forged", "forged", "cells that no key of their session opens", Level::Bad),
];

fn health(status: &Status, history: &History) -> Vec<Sign> {
    let sign = |(name, what, meaning, level): &(&str, &'static str, &'static str, Level)| {
        let per_second = history.counter(name);
        let now = per_second.is_some_and(|count| count > 0);
        Sign {
            what,
            count: status.counted(name),
            per_second,
            level: if now { *level } else { Level::Good },
            meaning,
        }
    };
    SIGNS.iter().map(sign).collect()
}

fn happened(event: &Entry, now_ns: u64) -> Event {
    let level = match event.what.as_str() {
        "link-down" | "peer-left" | "peer-expired" | "device-gone" | "nic-gone" => Level::Bad,
        "link-suspect" | "peer-refused" | "path-mtu" | "segments-lost" | "name-failed" | "skipped" => {
            Level::Warning
        }
        _ => Level::Good,
    };
    Event {
        ago_ns: now_ns.saturating_sub(event.at_ns),
        what: one_line(&event.what),
        level,
        sentence: one_line(&event.detail),
    }
}

impl Row {
    /// MTU as a table shows it: with what the NICs take where that is more.
    pub(super) fn mtu_words(&self) -> Option<String> {
        self.mtu.map(|[here, nics]| if here < nics { format!("{here}<{nics}") } else { here.to_string() })
    }
}
