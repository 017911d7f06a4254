//! How the facts of the paths are gathered: two statuses, and a knock where a path is down.

use std::collections::BTreeSet;
use std::time::Duration;

use tabane_api::status::{PathState, PathStatus};
use tabane_io::knock::{Knock, knock};

use super::{Facts, Path, Silent};
use crate::doctor::Explained;
use crate::doctor::peers::Overheard;
use crate::doctor::subject::{Bundle, Link, Subject, endpoint};

/// How long a refusal may take.
const KNOCK: Duration = Duration::from_millis(200);

/// The paths that two looks at the bundle show, without those whose silence is `explained`: nothing passes over their NICs anyway.
pub(in crate::doctor) fn gather(
    subject: &Subject,
    before: &Bundle,
    after: &Bundle,
    heard: Option<&Overheard>,
    explained: &Explained,
) -> Facts {
    let link_of = |number: u32| subject.links.iter().find(|link| link.number == number);
    let arrives = |link: &Link| heard.is_some_and(|heard| heard.reaches(link, after.workers));
    let mut paths = Vec::new();
    for peer in &after.peers {
        for path in &peer.paths {
            let earlier = before.path(&peer.node, path.link);
            let Some(link) = link_of(path.own_link()) else { continue };
            let mut facts = between(earlier.unwrap_or(path), path, &peer.name, after);
            (facts.arrives, facts.port) = (arrives(link), link.port);
            facts.is_explained = explained.loss.contains(&path.nic);
            if explained.silence.contains(&path.nic) && !facts.is_up() {
                continue;
            }
            if !facts.is_up() && link.is_udp() {
                let refused = heard.is_some_and(|heard| heard.refuses(link, after.workers));
                facts.knock = if refused { Some(Knock::Refused) } else { refusal(path) };
            }
            paths.push(facts);
        }
    }
    let seen: BTreeSet<u32> =
        after.peers.iter().flat_map(|peer| &peer.paths).map(PathStatus::own_link).collect();
    let silent = subject
        .links
        .iter()
        .filter(|link| !seen.contains(&link.number) && !explained.silence.contains(&link.nic));
    let silent = silent.filter(|_| !after.peers.is_empty());
    Facts {
        paths,
        silent: silent
            .map(|link| Silent { nic: link.nic.clone(), port: link.port, arrives: arrives(link) })
            .collect(),
        links: after.links.len(),
    }
}

fn between(before: &PathStatus, path: &PathStatus, peer: &str, bundle: &Bundle) -> Path {
    // What is down at one look alone is on its way up or down.
    let both = |one: PathState, other: PathState| {
        if one == PathState::Down && other != PathState::Down { other } else { one }
    };
    let mut events = bundle.events.iter().rev().filter(|event| event.what == "link-down");
    let last_words = events.find(|event| event.nic.as_deref() == Some(&path.nic));
    Path {
        nic: path.nic.clone(),
        port: 0,
        peer: peer.to_owned(),
        sends: both(path.tx, before.tx),
        receives: both(path.rx, before.rx),
        knock: None,
        last_words: last_words.map(|event| event.detail.clone()),
        arrives: false,
        mtu: path.mtu,
        mtu_of_nics: path.mtu_of_nics,
        mtu_of_own: bundle.links.iter().find(|link| link.link == path.link).map_or(0, |link| link.mtu),
        loss: path.loss_percent,
        received: path.cells_received.saturating_sub(before.cells_received),
        lost: path.cells_lost.saturating_sub(before.cells_lost),
        is_explained: false,
    }
}

/// What comes back from the peer's end of a path.
fn refusal(path: &PathStatus) -> Option<Knock> {
    knock(&path.nic, endpoint(&path.endpoint)?, KNOCK).ok()
}
