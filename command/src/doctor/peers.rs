//! Who greets this node, and why nobody of them is a peer: another key, not sealed, another port, or nobody.

mod overheard;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use overheard::{Ears, Overheard};

use super::report::{Area, Finding, listed, open_port};
use super::subject::{Bundle, Medium, Subject};

/// What is known of those who greet.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Names of the peers.
    peers: Vec<String>,
    /// Why nodes are refused, in the words of the events, each reason once.
    refused: BTreeSet<String>,
    /// The same of strangers, whose key or security is another.
    strangers: BTreeSet<String>,
    /// NICs at whose wires greetings for this bundle's port arrived, and those of other ports, while it was watched; `None`:
    /// nobody could look.
    heard: Option<Heard>,
    /// NICs of links that find their peers by multicast, and over which something may pass.
    nics: Vec<String>,
}

/// Greetings that arrived at the wires of NICs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    own_port: BTreeMap<String, u16>,
    other_ports: BTreeSet<u16>,
}

impl Facts {
    /// What the bundle, and the wires while it was watched, show. `explained`: NICs over which nothing passes.
    pub(super) fn of(
        subject: &Subject,
        bundle: &Bundle,
        heard: Option<&Overheard>,
        explained: &BTreeSet<String>,
    ) -> Self {
        let told = |what: &str| {
            let troubles = bundle.troubles.iter().filter(|trouble| trouble.what == what);
            troubles.map(|trouble| trouble.detail.clone()).collect()
        };
        let links = subject.links.iter().filter(|link| link.medium == Medium::Multicast);
        let links: Vec<_> = links.filter(|link| !explained.contains(&link.nic)).collect();
        Self {
            peers: bundle.peers.iter().map(|peer| peer.name.clone()).collect(),
            refused: told("peer-refused"),
            strangers: told("stranger"),
            heard: heard.map(|heard| heard.greetings(&links, bundle.workers)),
            nics: links.iter().map(|link| link.nic.clone()).collect(),
        }
    }
}

pub(super) fn judge(facts: &Facts) -> Area {
    let verb = if facts.peers.len() == 1 { "is" } else { "are" };
    let mut area = Area::new("peers", format!("{} {verb} there", listed(&facts.peers)));
    for why in &facts.refused {
        let (what, mend) = said(why);
        let what = format!("a node is refused: {what}");
        area.find(Finding::new("peer-refused", what, "that node is no peer", mend));
    }
    if facts.peers.is_empty() && area.findings.is_empty() {
        area.find(why_nobody(facts));
        if facts.heard.is_none() {
            area.miss("what arrives at the wires: that wants root or CAP_NET_RAW");
        }
    }
    area
}

/// What is so and what mends it, in the sentence of an event.
fn said(sentence: &str) -> (&str, &str) {
    sentence.split_once("; ").unwrap_or((sentence, "tabane events (shows which node it is)"))
}

/// Why there is no peer.
fn why_nobody(facts: &Facts) -> Finding {
    let costs = "there is no peer, and nothing passes";
    if let Some(stranger) = facts.strangers.first() {
        let (what, mend) = said(stranger);
        return Finding::new("stranger", what, costs, mend);
    }
    let heard = facts.heard.clone().unwrap_or_default();
    if let Some((nic, port)) = heard.own_port.first_key_value() {
        let what =
            "greetings arrive at its wire and do not reach the daemon: a firewall of this machine stops them";
        let mend = open_port("input iifname", nic, *port);
        return Finding::new("greetings-blocked", what, costs, mend).about(nic).likely();
    }
    if let Some(port) = heard.other_ports.first() {
        let what = format!("a node greets on UDP port {port}, which is not this bundle's");
        let mend = format!("start both with the same port: `--port {port}` here");
        return Finding::new("other-port", what, costs, mend);
    }
    nobody(facts, costs)
}

fn nobody(facts: &Facts, costs: &str) -> Finding {
    let listens = if facts.heard.is_some() && !facts.nics.is_empty() {
        format!("no greeting arrives at {}", listed(&facts.nics))
    } else {
        "no peer answers".to_owned()
    };
    let what = format!(
        "{listens}: no other node runs there, the wires lead elsewhere, or something between stops UDP"
    );
    let mend = "tabane doctor (on the other machine)";
    Finding::new("nobody", what, costs, mend).likely()
}
