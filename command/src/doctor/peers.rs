//! Who greets this node, and why nobody of them is a peer: another key, not sealed, another port, or nobody.

mod overheard;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use overheard::{Ears, Overheard};

use super::report::{Area, Finding, listed, open_port};
use super::subject::{Bundle, Medium, Subject};

/// What is known of those who greet.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn alone() -> Facts {
        Facts { heard: Some(Heard::default()), nics: vec!["eth1".into(), "eth2".into()], ..Facts::default() }
    }

    fn checks(facts: &Facts) -> Vec<&'static str> {
        judge(facts).findings.iter().map(|finding| finding.check).collect()
    }

    #[test]
    fn a_peer_is_a_line() {
        let area = judge(&Facts { peers: vec!["hostb".into()], strangers: strangers(), ..alone() });
        assert_eq!(
            (area.summary.as_str(), area.findings.len()),
            ("hostb is there", 0),
            "others may greet on the wire"
        );
    }

    #[test]
    fn the_first_reason_that_shows_is_told() {
        let heard = |own: &[&str], others: &[u16]| {
            let own_port = own.iter().map(|nic| (nic.to_string(), 7420)).collect();
            Some(Heard { own_port, other_ports: others.iter().copied().collect() })
        };
        let both = Facts { strangers: strangers(), heard: heard(&["eth1"], &[]), ..alone() };
        let stranger = judge(&both).findings.remove(0);
        assert_eq!(
            (stranger.check, stranger.what.as_str()),
            ("stranger", "eth1: [fe80::2%3]:7420 has another key")
        );
        assert_eq!(stranger.mend, "give both nodes the same key file");
        assert_eq!(checks(&Facts { heard: heard(&["eth1"], &[7421]), ..alone() }), ["greetings-blocked"]);
        assert_eq!(checks(&Facts { heard: heard(&[], &[7421]), ..alone() }), ["other-port"]);
        assert_eq!(checks(&alone()), ["nobody"]);
        let blind = judge(&Facts { heard: None, ..alone() });
        assert_eq!((blind.findings[0].check, blind.unseen.len()), ("nobody", 1));
    }

    #[test]
    fn a_refusal_is_told_in_its_own_words() {
        let why = "it runs 2 workers and this node 1; set the same `workers` on both".to_owned();
        let refused = judge(&Facts { refused: [why].into(), ..alone() }).findings.remove(0);
        assert_eq!(refused.what, "a node is refused: it runs 2 workers and this node 1");
        assert_eq!(refused.mend, "set the same `workers` on both");
    }

    fn strangers() -> BTreeSet<String> {
        ["eth1: [fe80::2%3]:7420 has another key; give both nodes the same key file".to_owned()].into()
    }
}
