//! The paths to the peers: which are down, what they carry, what they lose.

mod gather;
#[cfg(test)]
mod tests;

pub(super) use gather::gather;
use tabane_api::status::{LOSS_FOUND, PathState};
use tabane_io::knock::Knock;

use super::report::{Area, Finding, open_port};

/// Cells that were lost on the way here, at least: fewer are noise.
const LOST_LEAST: u64 = 5;

#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    paths: Vec<Path>,
    /// Links over which no peer was ever seen, although others see some.
    silent: Vec<Silent>,
    links: usize,
}

/// A path to a peer.
#[derive(Clone, Debug, PartialEq)]
struct Path {
    nic: String,
    /// UDP port of this end.
    port: u16,
    peer: String,
    /// States at both looks agree on this: whether cells leave over it, and whether the peer's are expected.
    sends: PathState,
    receives: PathState,
    /// What knocking at the peer's port told, where the path is down.
    knock: Option<Knock>,
    /// Why it went down last, in the words of the event.
    last_words: Option<String>,
    /// Whether another machine's datagrams for the bundle arrive at the wire, where nobody receives them.
    arrives: bool,
    /// Packets: known to arrive, taken by the NICs at both ends, taken by this node's NIC.
    mtu: Option<u16>,
    mtu_of_nics: Option<u16>,
    mtu_of_own: u32,
    /// Percent of the cells to the peer that are lost.
    loss: f64,
    /// Cells of the peer, while it was watched: received and lost.
    received: u64,
    lost: u64,
    /// Whether it is a finding already that its NIC or socket loses what arrives.
    is_explained: bool,
}

/// A link over which nobody was ever seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Silent {
    nic: String,
    port: u16,
    arrives: bool,
}

pub(super) fn judge(facts: &Facts) -> Area {
    let up = facts.paths.iter().filter(|path| path.is_up()).count();
    let mut area = Area::new("paths", format!("{up} of {} up, none loses {LOSS_FOUND} %", facts.paths.len()));
    for path in &facts.paths {
        if path.is_up() {
            area.find(judge_mtu(path));
            area.find(judge_loss(path));
        } else {
            area.find(judge_down(path, facts.links));
        }
    }
    for Silent { nic, port, arrives } in &facts.silent {
        let (what, mend) = if *arrives {
            (
                "no peer was ever seen there, although another machine's datagrams arrive at the wire: a firewall of this machine \
              stops them",
                open_port("input iifname", nic, *port),
            )
        } else {
            (
                "no peer was ever seen there: the wire leads elsewhere, the peer has no link there, or something stops UDP",
                "tabane doctor (on the other machine; `ip neigh show dev NIC` shows who is on the wire)"
                    .to_owned(),
            )
        };
        area.find(Finding::new("no-path", what, "the link carries nothing", mend).about(nic).likely());
    }
    area
}

impl Path {
    fn is_up(&self) -> bool {
        self.sends != PathState::Down && self.receives != PathState::Down
    }
}

fn judge_down(path: &Path, links: usize) -> Finding {
    let (nic, port, peer) = (&path.nic, path.port, &path.peer);
    let costs =
        if links > 1 { format!("one of {links} links") } else { "all: there is no other link".to_owned() };
    let there =
        format!("nft list ruleset (on {peer}: what stops UDP there; `tabane doctor` there tells more)");
    let finding = match (path.knock, path.sends, path.receives) {
        (Some(Knock::Refused), ..) => {
            let what = format!(
                "{peer} refuses the bundle's port on this path (ICMP): a firewall there rejects, or nobody listens"
            );
            Finding::new("port-refused", what, costs, there)
        }
        (Some(Knock::Forbidden), ..) => {
            let what = format!("this machine does not let datagrams to {peer} leave");
            let mend = open_port("output oifname", nic, port);
            Finding::new("port-closed-here", what, costs, mend)
        }
        (_, PathState::Down, PathState::Down) => {
            let words = path.last_words.as_ref().map(|words| format!(" ({words})")).unwrap_or_default();
            let what = format!("nothing passes to {peer} and back although the carrier is there{words}");
            Finding::new(
                "path-dead",
                what,
                costs,
                "restart or replace the switch or cable between (or mend what drops UDP there)",
            )
            .likely()
        }
        (_, PathState::Down, _) => {
            let what = format!(
                "{peer} does not receive what this node sends, and this node receives {peer}: a firewall there stops \
                UDP, or the cable carries one way"
            );
            Finding::new("one-way-out", what, costs, there).likely()
        }
        _ if path.arrives => {
            let what = format!(
                "datagrams of {peer} arrive at the wire and not at the daemon: a firewall of this machine stops them"
            );
            let mend = open_port("input iifname", nic, port);
            Finding::new("port-closed-here", what, costs, mend)
        }
        _ => {
            let what = format!(
                "nothing of {peer} arrives, and {peer} receives this node: something between carries one way"
            );
            Finding::new("one-way-in", what, costs, "test the cable and the switch's port (`ethtool -t NIC`)")
                .likely()
        }
    };
    finding.about(nic)
}

fn judge_mtu(path: &Path) -> Option<Finding> {
    let (mtu, of_nics) = (path.mtu?, path.mtu_of_nics?);
    let (nic, peer) = (&path.nic, &path.peer);
    let more = |small: u16, large: u32| (large * 100 / u32::from(small.max(1))).saturating_sub(100);
    if mtu < of_nics {
        let what = format!(
            "the way to {peer} carries packets of {mtu} bytes, and the NICs at both ends send {of_nics}"
        );
        let costs = format!(
            "cells of all links fit the smallest way: {} % more of them, each with its headers",
            more(mtu, of_nics.into())
        );
        let mend = format!(
            "ip link set DEVICE mtu {of_nics} (at the switch, router or tunnel between; or `mtu {mtu}` at both NICs, which changes nothing but says so)"
        );
        return Some(Finding::new("path-mtu", what, costs, mend).about(nic));
    }
    if u32::from(of_nics) < path.mtu_of_own {
        let own = path.mtu_of_own;
        let what = format!("the NIC of {peer} takes packets of {of_nics} bytes, and this node's sends {own}");
        let costs = format!(
            "cells of all links fit the smallest NIC: {} % more of them, each with its headers",
            more(of_nics, own)
        );
        let mend = format!("ip link set NIC mtu {own} (on {peer}, for the NIC of this path)");
        return Some(Finding::new("peer-mtu", what, costs, mend).about(nic));
    }
    None
}

fn judge_loss(path: &Path) -> Option<Finding> {
    let (nic, peer) = (&path.nic, &path.peer);
    let lost_here = path.lost as f64 * 100.0 / (path.received + path.lost).max(1) as f64;
    let is_lost_here = !path.is_explained && path.lost >= LOST_LEAST && lost_here >= LOSS_FOUND;
    let what = match (path.loss >= LOSS_FOUND, is_lost_here) {
        (true, true) => format!(
            "loses {:.1} % of the cells to {peer} and {lost_here:.1} % of those from there",
            path.loss
        ),
        (true, false) => format!("loses {:.1} % of the cells to {peer}", path.loss),
        (false, true) => format!("loses {lost_here:.1} % of the cells from {peer}"),
        (false, false) => return None,
    };
    let costs = if path.sends == PathState::Suspect {
        "it is suspect and carries no data while another path is better"
    } else {
        "lost cells are sent again, and what comes behind them waits"
    };
    let mend =
        format!("change the cable or the port of the switch (`ethtool -S {nic}` counts what the NIC sees)");
    Some(Finding::new("loss", what, costs, mend).about(nic))
}
