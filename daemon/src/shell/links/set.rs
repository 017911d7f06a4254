//! What changes of a link that stays: whether it is drained, its rate, its weight, its peers.

use tabane_config::difference::{Difference, link_differences};
use tabane_config::limits::{NAMES, PEERS};
use tabane_config::links::print_peers;
use tabane_config::{LinkChange, LinkConfig, Peer};
use tabane_process::locked;

use super::greeted::greeted;
use super::{Links, Member, find};
use crate::machine::Machine;
use crate::machine::sockets::spec;
use crate::shell::{Refusal, silent};
use crate::worker::Command;

impl<M: Machine> Links<M> {
    /// Drains a link: data takes others. Refused when no other leads to each peer; returns its number.
    pub(crate) fn drain(&self, wanted: &LinkConfig) -> Result<u8, Refusal> {
        let mut members = locked(&self.members);
        let (number, member) = find(&mut members, wanted)?;
        let nic = &wanted.nic;
        if member.link.drained {
            return Err(Refusal::Input(format!("link {nic} is drained already")));
        }
        if !self.may_drain(1 << number)? {
            let why = "it is the last one that works, or the last way to a peer";
            return Err(Refusal::Input(format!("link {nic} carries on: {why}; resume or add another first")));
        }
        let drained = LinkConfig { drained: true, ..member.link.clone() };
        self.become_link(number, member, drained)?;
        Ok(number)
    }

    /// Ends that; returns the link's number.
    pub(crate) fn resume(&self, wanted: &LinkConfig) -> Result<u8, Refusal> {
        let mut members = locked(&self.members);
        let (number, member) = find(&mut members, wanted)?;
        if !member.link.drained {
            return Err(Refusal::Input(format!("link {} is not drained", wanted.nic)));
        }
        let resumed = LinkConfig { drained: false, ..member.link.clone() };
        self.become_link(number, member, resumed)?;
        Ok(number)
    }

    /// Whether each peer is reached over another link than these, a bit each, which is not drained.
    pub(super) fn may_drain(&self, links: u16) -> Result<bool, Refusal> {
        let may = self.workers.ask_all(|answer| Command::MayDrain { links, answer });
        may.map(|may| may.into_iter().all(|may| may)).ok_or_else(silent)
    }

    /// Changes a link; what has changed, a sentence each.
    pub(crate) fn set(&self, change: LinkChange) -> Result<Vec<String>, Refusal> {
        let LinkChange { link, rate, weight, peers } = change;
        self.alter(&link, |link| {
            let LinkConfig { rate: old_rate, weight: old_weight, .. } = *link;
            let peers = peers.unwrap_or_else(|| link.peers.clone());
            let (rate, weight) = (rate.unwrap_or(old_rate), weight.unwrap_or(old_weight));
            Ok(LinkConfig { rate, weight, peers, ..link.clone() })
        })
    }

    /// Adds the peers that `wanted` names to those of the link.
    pub(crate) fn add_peers(&self, wanted: &LinkConfig) -> Result<Vec<String>, Refusal> {
        self.alter(wanted, |link| {
            if let Some(known) = wanted.peers.iter().find(|peer| link.peers.contains(peer)) {
                return Err(Refusal::Input(format!("link {} has the peer {known} already", link.nic)));
            }
            Ok(LinkConfig { peers: [&link.peers[..], &wanted.peers].concat(), ..link.clone() })
        })
    }

    /// Takes the peers that `wanted` names from those of the link.
    pub(crate) fn remove_peers(&self, wanted: &LinkConfig) -> Result<Vec<String>, Refusal> {
        self.alter(wanted, |link| {
            if let Some(unknown) = wanted.peers.iter().find(|peer| !link.peers.contains(peer)) {
                let (nic, there) = (&link.nic, print_peers(&link.peers));
                return Err(Refusal::Input(format!("link {nic} has no peer {unknown}; there are: {there}")));
            }
            let stays = |peer: &&Peer| !wanted.peers.contains(peer);
            Ok(LinkConfig { peers: link.peers.iter().filter(stays).cloned().collect(), ..link.clone() })
        })
    }

    fn alter(
        &self,
        wanted: &LinkConfig,
        change: impl FnOnce(&LinkConfig) -> Result<LinkConfig, Refusal>,
    ) -> Result<Vec<String>, Refusal> {
        let mut members = locked(&self.members);
        let (number, member) = find(&mut members, wanted)?;
        let new = change(&member.link)?;
        self.check_change(&member.link, &new)?;
        self.become_link(number, member, new)
    }

    /// Checks that a link can become another while its sockets stay.
    pub(super) fn check_change(&self, old: &LinkConfig, new: &LinkConfig) -> Result<(), Refusal> {
        let nic = &new.nic;
        let refuse = |why: String| Err(Refusal::Input(why));
        if !PEERS.hold_count(new.peers.len()) || !NAMES.hold_count(new.names().count()) {
            return refuse(format!("link {nic}: too many peers; allowed: {PEERS}, {NAMES} among them"));
        }
        self.check_names(new)?;
        let is_over_ip = new.ether.is_none() && new.window.is_none();
        let reaches = |peer: &Peer| peer.address().is_none_or(|peer| new.reaches(peer.ip()));
        let same_socket = || spec(&self.fixed, old, 0) == spec(&self.fixed, new, 0);
        if is_over_ip && (!same_socket() || !new.peers.iter().all(reaches)) {
            let peers = print_peers(&new.peers);
            return refuse(format!(
                "link {nic}: its socket does not go with these peers: {peers}; remove the link and add it with them"
            ));
        }
        Ok(())
    }

    /// A link is from now on as the user states it; what has changed, a sentence each.
    pub(super) fn become_link(
        &self,
        number: u8,
        member: &mut Member,
        new: LinkConfig,
    ) -> Result<Vec<String>, Refusal> {
        let LinkConfig { rate, weight, drained, .. } = new;
        let old = std::mem::replace(&mut member.link, new);
        let changes: Vec<_> = link_differences(&old, &member.link).iter().map(Difference::change).collect();
        if old.peers != member.link.peers {
            let endpoints = greeted(&member.link, &locked(&self.addresses));
            self.workers.send(|| Command::Greet { link: number, endpoints: endpoints.clone() });
        }
        let command = |answer| Command::State { link: number, rate, weight, drained, answer };
        let obeyed = self.workers.ask_all(command).is_some();
        let nic = &member.link.nic;
        match (old.drained, drained) {
            (false, true) => self.record("link-drained", number, nic, "drains: data takes other links"),
            (true, false) => self.record("link-resumed", number, nic, "carries data again"),
            _ if changes.is_empty() => {}
            _ => {
                let all = changes.iter().map(|change| change.split_once(": ").map_or("", |(_, what)| what));
                let all = all.collect::<Vec<_>>().join("; ");
                self.record("link-set", number, nic, &format!("has {all}"));
            }
        }
        let late = || Refusal::Failed(format!("not all workers have changed link {nic} yet"));
        obeyed.then_some(changes).ok_or_else(late)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tabane_config::{Config, LinkRate, Ports, parse_change, parse_link};

    use super::*;
    use crate::events::EventLog;
    use crate::machine::medium::Medium;
    use crate::shell::tests::simulated::Simulated;
    use crate::worker::workers::Workers;

    fn links(texts: &[&str]) -> Links<Simulated> {
        let links = texts.iter().map(|text| parse_link(text, Ports::default()).expect("a link"));
        let config = Config { links: links.collect(), ..Config::default() };
        let medium = Medium { index: 1, cell_max: 1_452, mac: None, carrier: true, carrier_losses: 0 };
        let media = vec![medium; texts.len()];
        let events = Arc::new(EventLog::new().expect("an eventfd"));
        Links::new(Simulated::default(), &config, &media, Workers::new(std::iter::empty()), events)
    }

    fn set(links: &Links<Simulated>, text: &str) -> Result<Vec<String>, String> {
        refused(links.set(parse_change(text, Ports::default()).expect("a change")))
    }

    fn refused<T>(result: Result<T, Refusal>) -> Result<T, String> {
        result.map_err(|refusal| match refusal {
            Refusal::Input(why) | Refusal::Failed(why) => why,
        })
    }

    #[test]
    fn a_link_is_as_it_was_set_last() {
        let links = links(&["eth1", "eth2,peer=198.51.100.7"]);
        let changes = set(&links, "eth1,rate=1 Gbit/s,weight=3").expect("set");
        assert_eq!(changes, ["link eth1: rate 1 Gbit/s, was measured", "link eth1: weight 3, was none"]);
        assert_eq!(set(&links, "eth1,rate=1 Gbit/s"), Ok(Vec::new()), "nothing changes");
        assert_eq!(set(&links, "eth1,weight=none").map(|changes| changes.len()), Ok(1));
        let first = &links.present()[0].config;
        let gigabit = Some(1_000_000_000);
        assert_eq!((first.rate, first.weight), (LinkRate { up: gigabit, down: gigabit }, None));
        assert_eq!(
            set(&links, "eth1,down=50 Mbit/s,up=20 Mbit/s"),
            Ok(vec!["link eth1: rate 50 Mbit/s down and 20 Mbit/s up, was 1 Gbit/s".to_owned()])
        );
        assert!(set(&links, "eth9,weight=1").is_err_and(|why| why.contains("is not in the bundle")));
    }

    #[test]
    fn peers_come_and_go_as_far_as_the_socket_goes_with_them() {
        let links = links(&["eth1", "eth2,peer=198.51.100.7"]);
        let peer = |text: &str| parse_link(text, Ports::default()).expect("a link");
        let more = links.add_peers(&peer("eth2,peer=198.51.100.8"));
        assert_eq!(
            refused(more).expect("added"),
            ["link eth2: peers 198.51.100.7:7420 198.51.100.8:7420, was 198.51.100.7:7420"]
        );
        let twice = links.add_peers(&peer("eth2,peer=198.51.100.8"));
        assert_eq!(refused(twice).expect_err("there"), "link eth2 has the peer 198.51.100.8:7420 already");
        assert!(refused(links.remove_peers(&peer("eth2,peer=198.51.100.7"))).is_ok());
        let gone = refused(links.remove_peers(&peer("eth2,peer=198.51.100.7"))).expect_err("gone");
        assert_eq!(gone, "link eth2 has no peer 198.51.100.7:7420; there are: 198.51.100.8:7420");
        for refused_change in ["eth1,peer=198.51.100.7", "eth2,peer=2001:db8::7"] {
            let why = set(&links, refused_change).expect_err("another socket");
            assert!(why.contains("its socket does not go with these peers"), "{why}");
        }
        let last = refused(links.remove_peers(&peer("eth2,peer=198.51.100.8"))).expect_err("the last");
        assert!(last.ends_with("these peers: none; remove the link and add it with them"), "{last}");
        let named = set(&links, "eth2,peer=office.example.net").expect_err("no resolver");
        assert!(named.contains("the process that resolves names"), "{named}");
    }

    #[test]
    fn what_is_drained_resumes() {
        let links = links(&["eth1", "eth2"]);
        let [first, second] = ["eth1", "eth2"].map(|nic| parse_link(nic, Ports::default()).expect("a link"));
        assert_eq!(refused(links.resume(&first)), Err("link eth1 is not drained".to_owned()));
        assert_eq!(refused(links.drain(&second)), Ok(1));
        assert_eq!(refused(links.drain(&second)), Err("link eth2 is drained already".to_owned()));
        let drained: Vec<_> = links.present().iter().map(|link| link.config.drained).collect();
        assert_eq!(drained, [false, true]);
        assert_eq!(refused(links.resume(&second)), Ok(1));
        let told: Vec<_> = links.events.latest().into_iter().map(|event| event.what).collect();
        assert_eq!(told, ["link-drained", "link-resumed"]);
    }
}
