//! Whether a bundle is well: the first line of `tabane status`, and what monitoring asks for.
//!
//! A pure judgement of the rest of the status. A link is well when every path over it is up in both directions, and carries
//! about what was stated ([`super::speed`]).

use serde::{Deserialize, Serialize};

use super::speed::{is_below_expected, slow};
use super::{LinkStatus, PathState, PathStatus, PeerStatus, Status};
use crate::entry::Entry;

// The bounds of all who judge: status, `top`, `why`, `doctor`, metrics and the page.

/// A path carries all that it can from this part of its rate on, in percent.
pub const FULL_PERCENT: u64 = 80;
/// Lost cells, in percent: from here on the figure is marked, and names what limits a path that is not full.
pub const LOSS_MARKED: f64 = 1.0;
/// From here on `doctor` finds the loss, and `why` names it where nothing else limits: less may be noise of a moment.
pub const LOSS_FOUND: f64 = 2.0;
/// From here on the link is not well: what is sent again costs the others more than it carries.
pub const LOSS_HEAVY: f64 = 5.0;

/// The judgement of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Health {
    /// In one word.
    pub state: State,
    /// Whether some peer is reached over one link or none, although the bundle has several.
    pub redundancy_lost: bool,
    /// Whether the links carry clearly less to some peer than they should together.
    #[serde(default)]
    pub below_expected_speed: bool,
    /// Since when it is not well, RFC 3339, UTC; `null` while it is well, or when that is not known any more.
    pub since: Option<String>,
    /// What is well or not, for people; its wording may change.
    pub summary: String,
}

/// How a bundle is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// All links work, to all peers.
    Healthy,
    /// Some link does not work, or loses much.
    Degraded,
    /// Nobody is at the other end.
    #[default]
    NoPeer,
}

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth a look.
    Warning,
    /// Something is lost or fails.
    Bad,
}

impl Health {
    /// How good it is.
    pub fn level(&self) -> Level {
        match self.state {
            State::Healthy => Level::Good,
            State::Degraded if !self.redundancy_lost => Level::Warning,
            State::Degraded | State::NoPeer => Level::Bad,
        }
    }

    /// The state in one word for people, loud where somebody should look.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.state {
            State::Healthy => "healthy",
            State::Degraded => "DEGRADED",
            State::NoPeer => "NO PEER",
        }
    }
}

/// Why a link is not well: each reason in one word, and its meaning. The signals are those of `link-down`.
pub const REASONS: [(&str, &str); 12] = [
    ("nic-gone", "the NIC was deleted"),
    ("no-carrier", "the NIC has no carrier"),
    ("not-reached", "no peer was reached over it yet"),
    ("burst-skew", "cells vanish on a path although its carrier is up: a black hole"),
    ("silence", "nothing arrives on a path"),
    ("carrier", "the NIC lost its carrier"),
    ("send-error", "the kernel refuses to send"),
    ("report", "a peer receives nothing over it"),
    ("too-small", "the MTU at one end is too small for cells"),
    ("loss", "a path loses so much that data avoids it"),
    ("slow", "a path carries less than half of the stated rate"),
    ("down", "a path is down, and the event that told why is not known any more"),
];

/// What is wrong with a link.
#[derive(Clone, Debug)]
pub struct Fault<'a> {
    /// Number of the link.
    pub link: u32,
    /// One of [`REASONS`].
    pub reason: &'static str,
    /// In words.
    pub what: String,
    /// The event that told of it.
    pub since: Option<&'a Entry>,
}

impl Status {
    /// What is wrong with the links, at most one fault for each.
    pub fn faults(&self) -> Vec<Fault<'_>> {
        self.links.iter().filter_map(|link| fault(self, link)).collect()
    }

    /// The status with its judgement.
    pub fn judged(self) -> Status {
        Status { health: judge(&self), ..self }
    }
}

fn judge(status: &Status) -> Health {
    if status.peers.is_empty() {
        return Health { summary: alone(status), ..Health::default() };
    }
    let faults = status.faults();
    let peers = counted(status.peers.len(), "peer");
    let links = status.links.len();
    if faults.is_empty() {
        let drained = drained(status);
        let summary = format!("{links} of {}, {peers}{drained}", counted(links, "link"));
        return Health { state: State::Healthy, summary, ..Health::default() };
    }
    let below_expected_speed = is_below_expected(status);
    let usable = |peer: &PeerStatus| peer.paths.iter().filter(|path| is_up(path)).count();
    let redundancy_lost = links > 1 && status.peers.iter().any(|peer| usable(peer) < 2);
    let since = faults.iter().filter_map(|fault| fault.since).min_by_key(|entry| entry.at_ns);
    let what: Vec<&str> = faults.iter().map(|fault| fault.what.as_str()).collect();
    let lost = status.peers.iter().find(|peer| usable(peer) == 0);
    let lost = lost.map(|peer| format!("{} is not reached", peer.name));
    let lost = lost.or_else(|| redundancy_lost.then(|| "redundancy lost".to_owned()));
    let lost = lost.or_else(|| below_expected_speed.then(|| "below the expected speed".to_owned()));
    let begun = since.map(|entry| format!(" since {}", clock(&entry.time))).unwrap_or_default();
    let summary = match lost {
        Some(lost) => format!("{lost}{begun}: {}", what.join("; ")),
        None => format!("{}{begun}", what.join("; ")),
    };
    let since = since.map(|entry| entry.time.clone());
    Health { state: State::Degraded, redundancy_lost, below_expected_speed, since, summary }
}

/// Why there may be no peer.
fn alone(status: &Status) -> String {
    let dark: Vec<&str> =
        status.links.iter().filter(|link| !link.carrier).map(|link| link.nic.as_str()).collect();
    if dark.len() == status.links.len() {
        return format!("{} without carrier", dark.join(", "));
    }
    let mute =
        |link: &&LinkStatus| link.carrier && link.local.starts_with("[::]") && link.link_local.is_none();
    let mute: Vec<&str> = status.links.iter().filter(mute).map(|link| link.nic.as_str()).collect();
    if mute.len() + dark.len() == status.links.len() {
        let nics = mute.join(", ");
        return format!(
            "{nics} without an IPv6 link-local address: Linux checks a new one for some seconds; if it stays so, IPv6 is off there"
        );
    }
    if let Some(met) = status.troubles.iter().rev().find(|trouble| trouble.what == "stranger") {
        return met.detail.clone();
    }
    if let Some(refused) = status.troubles.iter().rev().find(|trouble| trouble.what == "peer-refused") {
        return format!("{}: {}", refused.peer.as_deref().unwrap_or("a peer"), refused.detail);
    }
    let port = status.node.rsplit('/').next().unwrap_or("7420");
    let left = status.events.iter().rev().find(|event| event.what.starts_with("peer-"));
    match left.filter(|event| event.what == "peer-left" || event.what == "peer-expired") {
        Some(left) => format!("the last one has left at {}", clock(&left.time)),
        None => format!(
            "no greeting has come: is the other node up, on the same port, and does a firewall let UDP port {port} in?"
        ),
    }
}

fn fault<'a>(status: &'a Status, link: &LinkStatus) -> Option<Fault<'a>> {
    let nic = &link.nic;
    let found = |reason, what, since| Some(Fault { link: link.link, reason, what, since });
    let gone =
        status.troubles.iter().find(|trouble| trouble.what == "nic-gone" && trouble.link == Some(link.link));
    if gone.is_some() {
        return found("nic-gone", format!("{nic} is gone"), gone);
    }
    let mut paths = status
        .peers
        .iter()
        .flat_map(|peer| peer.paths.iter().map(move |path| (peer, path)))
        .filter(|(_, path)| path.link == link.link)
        .peekable();
    let is_used = paths.peek().is_some();
    let bad = paths.find(|(_, path)| !is_up(path));
    let why = bad.and_then(|(peer, path)| reason(status, peer, path));
    if !link.carrier {
        return found("no-carrier", format!("{nic} has no carrier"), why);
    }
    if !is_used {
        return found("not-reached", format!("{nic} has not reached a peer yet"), None);
    }
    let Some((peer, _)) = bad else {
        let here = status.peers.iter().flat_map(|peer| &peer.paths).filter(|path| path.link == link.link);
        let lost = here.map(|path| path.loss_percent).fold(0.0, f64::max);
        if lost >= LOSS_HEAVY {
            return found("loss", format!("{nic} loses {lost:.1} % of its cells"), None);
        }
        let (peer, what) = slow(status, link)?;
        return found("slow", what + &towards(status, peer), None);
    };
    let what = why.map_or_else(|| format!("{nic} is down"), |why| described(nic, why));
    found(why.map_or("down", signalled), what + &towards(status, peer), why)
}

/// The peer's name, where there are several.
fn towards(status: &Status, peer: &PeerStatus) -> String {
    if status.peers.len() > 1 { format!(" towards {}", peer.name) } else { String::new() }
}

/// The reason that an event gives.
fn signalled(why: &Entry) -> &'static str {
    let signal = why.signal.as_deref().or(why.lost_ppm.map(|_| "loss"));
    let known = REASONS.iter().find(|(reason, _)| Some(*reason) == signal);
    known.map_or("down", |(reason, _)| reason)
}

/// A drained path works: it carries data when no other does.
pub fn is_up(path: &PathStatus) -> bool {
    matches!(path.tx, PathState::Up | PathState::Drained) && path.rx == PathState::Up
}

/// The links that are drained at one end.
fn drained(status: &Status) -> String {
    let paths = || status.peers.iter().flat_map(|peer| &peer.paths);
    let is_drained =
        |link: &&LinkStatus| paths().any(|path| path.link == link.link && path.tx == PathState::Drained);
    let nics: Vec<&str> = status.links.iter().filter(is_drained).map(|link| link.nic.as_str()).collect();
    if nics.is_empty() { String::new() } else { format!(", {} drained", nics.join(" and ")) }
}

/// The oldest event that says why the path is not up.
pub fn reason<'a>(status: &'a Status, peer: &PeerStatus, path: &PathStatus) -> Option<&'a Entry> {
    status.troubles.iter().find(|trouble| {
        let link =
            if trouble.direction.as_deref() == Some("sending") { Some(path.link) } else { path.peer_link };
        trouble.peer.as_deref() == Some(&peer.node) && trouble.link.is_some() && trouble.link == link
    })
}

/// What an event says of a NIC, in the field's words.
pub fn described(nic: &str, why: &Entry) -> String {
    match why.signal.as_deref() {
        Some("burst-skew") => format!("{nic} is a black hole"),
        Some("silence") => format!("{nic} is silent"),
        Some("carrier") => format!("{nic} lost its carrier"),
        Some("send-error") => format!("the kernel refuses to send over {nic}"),
        Some("report") => format!("the peer receives nothing over {nic}"),
        Some("too-small") => format!("the MTU of {nic} is too small for cells at one end"),
        _ => match why.lost_ppm {
            Some(lost) => format!("{nic} loses {:.1} % of its cells", f64::from(lost) / 1e4),
            None => format!("{nic} is down"),
        },
    }
}

/// The time of day of an RFC 3339 time in UTC.
pub fn clock(time: &str) -> String {
    let of_day = time.split_once('T').map_or(time, |(_, of_day)| of_day);
    format!("{}Z", of_day.get(..8).unwrap_or(of_day))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::example;

    /// A bundle of two links to one peer, all up.
    fn pair() -> Status {
        let mut status = example();
        status.links.push(LinkStatus { link: 1, nic: "eth2".to_owned(), ..status.links[0].clone() });
        let paths = &mut status.peers[0].paths;
        paths.push(PathStatus { link: 1, peer_link: Some(1), nic: "eth2".to_owned(), ..paths[0].clone() });
        status.troubles.clear();
        status
    }

    fn summary(status: &Status) -> String {
        judge(status).summary
    }

    #[test]
    fn all_is_well() {
        let health = judge(&pair());
        assert_eq!((health.state, health.redundancy_lost), (State::Healthy, false));
        assert_eq!(health.summary, "2 of 2 links, 1 peer");
    }

    #[test]
    fn a_drained_link_is_well_and_named() {
        let mut status = pair();
        status.peers[0].paths[1].tx = PathState::Drained;
        let health = judge(&status);
        assert_eq!((health.state, health.redundancy_lost), (State::Healthy, false));
        assert_eq!(health.summary, "2 of 2 links, 1 peer, eth2 drained");
        status.peers[0].paths[1].rx = PathState::Down;
        assert_eq!(summary(&status), "redundancy lost: eth2 is down");
    }

    #[test]
    fn a_dead_link_is_named_with_what_showed_it_and_since_when() {
        let mut status = pair();
        status.peers[0].paths[1].rx = PathState::Down;
        assert_eq!(summary(&status), "redundancy lost: eth2 is down");
        status.troubles = status.events.clone();
        let health = judge(&status);
        assert_eq!(health.summary, "redundancy lost since 03:05:28Z: eth2 is a black hole");
        assert_eq!(health.since.as_deref(), Some("2026-11-21T03:05:28.000123Z"));
        assert!(health.redundancy_lost && health.below_expected_speed);
        let [fault] = &status.faults()[..] else { panic!("one fault") };
        assert_eq!((fault.link, fault.reason), (1, "burst-skew"));
        status.peers[0].paths[0].tx = PathState::Down;
        assert!(summary(&status).starts_with("hostb is not reached since"), "{}", summary(&status));
    }

    #[test]
    fn one_of_three_links_leaves_redundancy() {
        let mut status = pair();
        status.links.push(LinkStatus { link: 2, nic: "eth3".to_owned(), ..status.links[0].clone() });
        assert_eq!(summary(&status), "below the expected speed: eth3 has not reached a peer yet");
        assert!(!judge(&status).redundancy_lost);
        status.links[2].carrier = false;
        assert_eq!(summary(&status), "below the expected speed: eth3 has no carrier");
        assert!(judge(&status).below_expected_speed);
        status.links[2].speed_bps = Some(100_000_000);
        assert_eq!(summary(&status), "eth3 has no carrier", "20 of 21 parts of the speed are left");
    }

    #[test]
    fn a_slow_link_is_named() {
        let mut status = pair();
        let gigabit = Some(1_000_000_000);
        for (link, path) in status.links.iter_mut().zip(&mut status.peers[0].paths) {
            (link.stated_bps, path.rate_bps, path.congested) = (gigabit, gigabit, true);
        }
        assert_eq!(judge(&status).state, State::Healthy);
        status.peers[0].paths[1].rate_bps = Some(94_100_000);
        let health = judge(&status);
        assert_eq!((health.state, health.redundancy_lost), (State::Degraded, false));
        let want = "below the expected speed: eth2 carries 94.1 Mbit/s of the 1.00 Gbit/s that are stated";
        assert_eq!((health.below_expected_speed, &*health.summary), (true, want));
        assert_eq!(status.faults()[0].reason, "slow");
    }

    #[test]
    fn the_signals_of_the_log_are_reasons() {
        let page = include_str!("../../../docs/events.md");
        let table = page.split("| `signal` | Figures | Meaning |").nth(1).expect("the table of signals");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let signals = rows.filter_map(|row| row.split('`').nth(1));
        // Links that someone takes out are no trouble.
        let signals: Vec<_> = signals.filter(|signal| !["removed", "farewell"].contains(signal)).collect();
        assert!(signals.len() > 4, "{signals:?}");
        for signal in signals {
            let why = Entry { signal: Some(signal.to_owned()), ..Entry::default() };
            assert_eq!(signalled(&why), signal);
        }
        assert_eq!(signalled(&Entry { lost_ppm: Some(1), ..Entry::default() }), "loss");
    }

    #[test]
    fn a_link_that_loses_much_is_named_although_it_carries_on() {
        let mut status = pair();
        status.peers[0].paths[1].loss_percent = 4.9;
        assert_eq!(judge(&status).state, State::Healthy);
        status.peers[0].paths[1].loss_percent = 25.04;
        let health = judge(&status);
        assert_eq!((health.state, health.redundancy_lost), (State::Degraded, false));
        assert_eq!(health.summary, "eth2 loses 25.0 % of its cells");
    }

    #[test]
    fn a_single_link_has_no_redundancy_to_lose() {
        let mut status = example();
        status.troubles.clear();
        status.peers[0].paths[0].tx = PathState::Suspect;
        assert!(!judge(&status).redundancy_lost);
    }

    #[test]
    fn without_a_peer_it_says_what_was_heard() {
        let mut status = pair();
        status.peers.clear();
        status.events.clear();
        assert!(summary(&status).contains("UDP port 7420"), "{}", summary(&status));
        let detail = "eth1: fe80::2 has another key".to_owned();
        status.troubles.push(Entry {
            what: "stranger".to_owned(),
            detail: detail.clone(),
            ..Entry::default()
        });
        assert_eq!(summary(&status), detail);
        for link in &mut status.links {
            (link.local, link.link_local) = ("[::]:7420".to_owned(), None);
        }
        assert!(summary(&status).starts_with("eth1, eth2 without an IPv6 link-local address: "));
        status.links.iter_mut().for_each(|link| link.carrier = false);
        assert_eq!(summary(&status), "eth1, eth2 without carrier");
        assert_eq!(judge(&status).state, State::NoPeer);
    }

    #[test]
    fn the_example_of_the_schema_is_judged_so() {
        let status = example();
        assert_eq!(judge(&status), status.health);
    }
}
