//! What bundles say of themselves, asked over their control sockets as any command asks.
//!
//! A question may take seconds where a bundle hangs, so these functions are called off the server's thread.

use serde::Serialize;
use tabane::metrics::{Asked, Format, page};
use tabane_api::{AskError, Status, status_of};

/// These bundles, each with its status or the reason why there is none.
pub fn all(names: Vec<String>) -> Vec<(String, Result<Status, AskError>)> {
    let ask = |name: String| {
        let status = status_of(&name);
        (name, status)
    };
    names.into_iter().map(ask).collect()
}

/// What a scrape gets whose request has this `Accept`: its media type, and the figures of all bundles that are up, those that do
/// not answer among them.
pub fn figures(
    bundles: Vec<(String, Result<Status, AskError>)>,
    accept: Option<&str>,
) -> (&'static str, String) {
    let format = Format::accepted(accept);
    let asked = bundles.into_iter().map(|(name, status)| Asked { name, status: status.ok() });
    (format.content_type(), page(&asked.collect::<Vec<_>>(), format))
}

// What the page says about a status beyond its figures: the words and rates that `tabane status` and `tabane top` show.
//
// The judgement is the daemon's library's alone; the page repeats it.

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shown {
    /// How it is, in a word: `healthy`, `DEGRADED`, `NO PEER`.
    word: &'static str,
    /// Its paths, in the order of the status.
    paths: Vec<ShownPath>,
}

/// The words about a path.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ShownPath {
    peer: String,
    link: u32,
    /// `up`, `down`, `drained`, ….
    state: &'static str,
    /// Cells to the peer now, in bits per second; `null`: not known yet.
    sent_bps: Option<u64>,
    received_bps: Option<u64>,
    /// Its part of all that goes to the peer, in percent; `null` while nothing goes.
    share_percent: Option<u64>,
    /// What keeps it from more, or why it does not work; `-` for nothing.
    limited_by: String,
}

/// The words about `status`; rates are those since `earlier`.
pub(crate) fn shown(status: &Status, earlier: Option<&Status>) -> Shown {
    let paths = status.peers.iter().flat_map(|peer| {
        let rates = |path: &tabane_api::status::PathStatus| path.rates(&peer.node, earlier?, status);
        let all: u64 = peer.paths.iter().filter_map(rates).map(|rates| rates.sent).sum();
        peer.paths.iter().map(move |path| {
            let now = rates(path);
            ShownPath {
                peer: peer.node.clone(),
                link: path.link,
                state: path.state(),
                sent_bps: now.map(|rates| rates.sent),
                received_bps: now.map(|rates| rates.received),
                share_percent: now.filter(|_| all > 0).map(|rates| rates.sent * 100 / all),
                limited_by: status.limit(peer, path, now.map_or(0, |rates| rates.sent)),
            }
        })
    });
    Shown { word: status.health.word(), paths: paths.collect() }
}

#[cfg(test)]
mod tests {
    use tabane_api::status::PathState;

    use super::*;

    const STATUS: &str = r#"{
        "health": { "state": "degraded", "redundancy_lost": true, "since": null, "summary": "redundancy lost: eth2 is down" },
        "name": "tb0", "pid": 4711, "node": "02:00:00:00:00:01/7420", "policy": "adaptive", "receive": "adaptive", "fragments": "auto",
        "security": "sealed", "node_key": null, "allow": null, "mtu": 1500, "cell_bytes": 1452, "workers": 1, "now_ns": 1000000000,
        "links": [], "counters": {}, "troubles": [], "events": [],
        "peers": [ { "node": "02:00:00:00:00:02/7420", "name": "hostb", "node_key": null, "reorder_timeout_us": null, "sealed": null, "paths": [
            { "link": 0, "peer_link": 0, "nic": "eth1", "endpoint": "[fe80::2%3]:7420", "tx": "up", "rx": "up", "rtt_us": 85, "mtu": 1400,
              "mtu_of_nics": 1500, "skew_us": 3, "rate_bps": 1000000000, "congested": false, "queued_bytes": 0, "bytes_sent": 0,
              "bytes_received": 0, "cells_sent": 0, "cells_received": 0, "loss_percent": 0.0, "cells_lost": 0, "queue_behind_us": 0,
              "reports": 0, "reports_behind": 0 } ] } ] }"#;

    /// A status of two links, and the same a second later: eth1 has carried 120 MB, eth2 is down.
    fn pair() -> (Status, Status) {
        let mut earlier: Status = serde_json::from_str(STATUS).expect("a status");
        let paths = &mut earlier.peers[0].paths;
        paths.push(tabane_api::status::PathStatus { link: 1, nic: "eth2".to_owned(), ..paths[0].clone() });
        let mut later = earlier.clone();
        later.now_ns += 1_000_000_000;
        later.peers[0].paths[0].bytes_sent += 120_000_000;
        (later.peers[0].paths[1].tx, later.peers[0].paths[1].rx) = (PathState::Down, PathState::Down);
        (earlier, later)
    }

    #[test]
    fn words_and_rates_are_those_of_the_status_screen() {
        let (earlier, later) = pair();
        let Shown { word, paths } = shown(&later, Some(&earlier));
        assert_eq!((word, paths.len()), ("DEGRADED", 2));
        assert_eq!((paths[0].sent_bps, paths[0].share_percent), (Some(960_000_000), Some(100)));
        assert_eq!((paths[0].state, paths[0].limited_by.as_str()), ("up", "its rate, 1.00 Gbit/s"));
        assert_eq!((paths[1].state, paths[1].sent_bps), ("down", Some(0)));
        let screen = tabane::screen::screen(&later, Some(&earlier), false, None);
        assert!(screen.contains(word) && screen.contains(&paths[0].limited_by), "{screen}");
    }

    #[test]
    fn one_status_has_no_rates() {
        let (earlier, _) = pair();
        let shown = shown(&earlier, None);
        assert!(shown.paths.iter().all(|path| path.sent_bps.is_none() && path.share_percent.is_none()));
    }
}
