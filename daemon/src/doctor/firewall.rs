//! Firewall rules of this machine that stop the bundle's datagrams. Those of other machines show only in what they let pass:
//! the areas of peers and paths tell of it.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use super::nft::{Datagram, Fate, Ruleset};
use super::report::{Area, Finding};
use super::subject::{Medium, Subject};
use crate::worker::GROUP;

/// Addresses of some neighbour, where none is known.
const NEIGHBOUR: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const NEIGHBOUR_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

#[derive(Debug)]
pub(super) struct Facts {
    /// What the rules do with the greetings at each link.
    fates: Vec<(Datagram, Fate)>,
    /// Why rules could not be read.
    unseen: Vec<String>,
}

pub(super) fn gather(subject: &Subject) -> Facts {
    let mut unseen = Vec::new();
    let fates = match rules() {
        Ok(rules) => greetings(subject)
            .map(|greeting| {
                let fate = rules.fate(&greeting);
                (greeting, fate)
            })
            .collect(),
        Err(why) => {
            unseen.push(format!("the rules of nftables: {why}"));
            Vec::new()
        }
    };
    let old = ["ip", "ip6"].map(|family| fs::read_to_string(format!("/proc/net/{family}_tables_names")));
    if old.into_iter().any(|names| names.is_ok_and(|names| names.contains("filter"))) {
        unseen.push("the rules of iptables-legacy: iptables-legacy-save shows them".to_owned());
    }
    Facts { fates, unseen }
}

/// A greeting as it arrives at each link over IP.
fn greetings(subject: &Subject) -> impl Iterator<Item = Datagram> {
    subject.links.iter().filter(|link| link.is_udp()).map(|link| {
        let (from, to) = match link.medium {
            Medium::Addresses(Some(IpAddr::V4(own))) => (IpAddr::from(NEIGHBOUR_V4), own.into()),
            Medium::Addresses(Some(own)) => (NEIGHBOUR.into(), own),
            Medium::Addresses(None) | Medium::Multicast | Medium::Frames => (NEIGHBOUR.into(), GROUP.into()),
        };
        Datagram { nic: link.nic.clone(), from, to, port: link.port }
    })
}

fn rules() -> Result<Ruleset, String> {
    let answer = Command::new("nft").args(["--json", "list", "ruleset"]).output();
    let answer = answer.map_err(|error| match error.kind() {
        ErrorKind::NotFound => "nft is not installed".to_owned(),
        _ => format!("nft cannot be started: {error}"),
    })?;
    if !answer.status.success() {
        let complaint = String::from_utf8_lossy(&answer.stderr);
        return Err(complaint.lines().next().unwrap_or("nft fails without a word").to_owned());
    }
    Ruleset::parse(&String::from_utf8_lossy(&answer.stdout))
        .ok_or_else(|| "nft answers in another form".to_owned())
}

pub(super) fn judge(facts: &Facts) -> Area {
    let mut area = Area::new("firewall", "no rule of this machine stops the bundle's port");
    for (Datagram { nic, port, .. }, fate) in &facts.fates {
        match fate {
            Fate::Passes => {}
            Fate::Unclear => area.miss(format!(
                "whether rules let UDP port {port} pass at {nic}: some are of a kind unknown here"
            )),
            Fate::Stopped { family, table, chain, by } => {
                let what =
                    format!("UDP port {port} is stopped by {by} in chain {chain} of table {family} {table}");
                let mend = format!(
                    "nft insert rule {family} {table} {chain} iifname \"{nic}\" udp dport {port} accept"
                );
                let costs =
                    "this node does not receive the link: peers are not found there, or only send one way";
                area.find(Finding::new("firewall", what, costs, mend).about(nic).blocking());
            }
        }
    }
    facts.unseen.iter().for_each(|why| area.miss(why.clone()));
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_the_port_is_named_with_the_rule_that_opens_it() {
        let greeting = Datagram { nic: "eth2".into(), from: NEIGHBOUR.into(), to: GROUP.into(), port: 7420 };
        let stopped = Fate::Stopped {
            family: "inet".into(),
            table: "filter".into(),
            chain: "input".into(),
            by: "its policy".into(),
        };
        let facts = |fate| Facts { fates: vec![(greeting.clone(), fate)], unseen: Vec::new() };
        let area = judge(&facts(stopped));
        assert_eq!(
            area.findings[0].mend,
            "nft insert rule inet filter input iifname \"eth2\" udp dport 7420 accept"
        );
        assert!(area.findings[0].blocks);
        assert_eq!(
            judge(&facts(Fate::Passes)),
            Area::new("firewall", "no rule of this machine stops the bundle's port")
        );
        assert_eq!(judge(&facts(Fate::Unclear)).unseen.len(), 1);
    }
}
