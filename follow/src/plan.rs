//! What has to change of a running bundle so that it is as the fleet is.
//!
//! Link *i* greets the endpoint *i* of each node, or the first where a node has fewer: as links of two nodes are paired.
//! Only peers that this program has added are removed. What fleet and bundle agree upon is no step, so a plan that was
//! carried out is empty.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tabane_api::{AskError, InForce, Request, in_force, status_of};
use tabane_config::key::public;
use tabane_config::{LinkConfig, Peer, link_name};

use crate::fleet::{Fleet, group};

/// What of a fleet is taken besides peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    pub keys: bool,
    pub allow: bool,
}

/// A peer of a link that this program has named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Named {
    /// The link as a request names it.
    pub link: String,
    /// Where the peer listens.
    pub peer: SocketAddr,
}

/// One change.
#[derive(Clone, PartialEq, Eq)]
pub enum Step {
    Keys(Vec<String>),
    /// Let in the nodes with these keys.
    Allow(Vec<String>),
    Add(Named),
    Remove(Named),
}

/// The steps, in their order: who is trusted comes before who is greeted.
pub fn plan(
    running: &Running,
    fleet: &Fleet,
    named: &BTreeSet<Named>,
    wishes: Wishes,
    own: &str,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let groups: Vec<String> = fleet.keys.iter().filter_map(|key| group(key)).collect();
    if wishes.keys && !groups.is_empty() && groups != running.groups {
        steps.push(Step::Keys(fleet.keys.clone()));
    }
    let allowed: BTreeSet<String> = fleet.allow.values().cloned().collect();
    if wishes.allow && !allowed.is_empty() && running.allow.as_ref() != Some(&allowed) {
        steps.push(Step::Allow(allowed.into_iter().collect()));
    }
    let mine: BTreeSet<SocketAddr> = running.links.iter().filter_map(Link::endpoint).collect();
    for (place, link) in running.links.iter().enumerate().filter(|(_, link)| link.takes_peers()) {
        let (name, wanted) = (link.name(), wanted(fleet, place, link, own));
        let to = |peer: SocketAddr| Named { link: name.clone(), peer };
        let missing = wanted.iter().filter(|peer| !mine.contains(peer) && !link.has(**peer));
        steps.extend(missing.map(|peer| Step::Add(to(*peer))));
        let gone = named.iter().filter(|named| named.link == name && !wanted.contains(&named.peer));
        steps.extend(gone.filter(|named| link.has(named.peer)).map(|named| Step::Remove(named.clone())));
    }
    steps
}

fn wanted(fleet: &Fleet, place: usize, link: &Link, own: &str) -> BTreeSet<SocketAddr> {
    let reaches = |endpoint: &SocketAddr| link.config.reaches(endpoint.ip());
    let others = fleet.nodes.iter().filter(|(name, _)| *name != own);
    let of_node = others.filter_map(|(_, node)| match node.endpoints.get(place) {
        Some(endpoint) => endpoint.filter(reaches),
        None => node.endpoints.iter().flatten().copied().find(reaches),
    });
    let of_name =
        ["", &link.config.nic].into_iter().filter_map(|nic| fleet.named.get(nic)).flatten().copied();
    of_node.chain(of_name.filter(reaches)).collect()
}

impl Step {
    pub fn request(&self) -> Request {
        match self {
            Step::Keys(keys) => Request::Keys { keys: keys.clone() },
            Step::Allow(keys) => Request::Allow { allow: Some(keys.clone()) },
            Step::Add(named) => Request::PeerAdd { link: named.link.clone(), peer: named.peer.to_string() },
            Step::Remove(named) => {
                Request::PeerRemove { link: named.link.clone(), peer: named.peer.to_string() }
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Keys(keys) => {
                let groups: Vec<_> = keys.iter().filter_map(|key| group(key)).collect();
                write!(f, "keys of the groups {}", groups.join(", "))
            }
            Step::Allow(keys) => write!(f, "{} node keys allowed", keys.len()),
            Step::Add(Named { link, peer }) => write!(f, "link {link} greets {peer}"),
            Step::Remove(Named { link, peer }) => write!(f, "link {link} greets {peer} no longer"),
        }
    }
}

/// Keeps the keys out of logs.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

// A running bundle as its control socket shows it: links with their peers, and which nodes it trusts.

/// What a fleet has to do with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Its links in their order.
    pub links: Vec<Link>,
    /// The numbers of its group keys, first the one that it sends with.
    pub groups: Vec<String>,
    /// Public keys of those that it lets in; `None`: all of the group.
    pub allow: Option<BTreeSet<String>>,
    pub node_key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// As it was stated.
    pub config: LinkConfig,
    pub port: u16,
}

impl Running {
    /// Asks the bundle `name`.
    pub fn ask(name: &str) -> Result<Running, AskError> {
        let strange = |reason: String| AskError::Failed { name: name.to_owned(), reason };
        let InForce { told, groups, .. } = in_force(name)?;
        let config = told.understood().map_err(strange)?;
        let node_key = status_of(name)?.node_key;
        let ports = config.ports();
        let link = |config: LinkConfig| Link { port: config.first_port(ports), config };
        Ok(Running {
            allow: config.live.allow.as_ref().map(|keys| keys.iter().map(public).collect()),
            links: config.links.into_iter().map(link).collect(),
            groups,
            node_key,
        })
    }
}

impl Link {
    pub fn name(&self) -> String {
        link_name(&self.config)
    }

    pub fn has(&self, peer: SocketAddr) -> bool {
        self.config.peers.contains(&Peer::Address(peer))
    }

    /// Whether it can greet endpoints that somebody names: one that finds its peers by multicast has a socket for that, and
    /// Ethernet frames and memory have no endpoints.
    pub fn takes_peers(&self) -> bool {
        let over_ip = self.config.ether.is_none() && self.config.window.is_none();
        over_ip && !self.config.uses_multicast()
    }

    /// Where it listens, if it was stated for one address.
    pub fn endpoint(&self) -> Option<SocketAddr> {
        let local = self.config.local.filter(|local| !local.is_unspecified() && self.takes_peers())?;
        Some(SocketAddr::new(local, self.port))
    }
}

#[cfg(test)]
mod tests {
    use tabane_config::{Ports, parse_link};

    use super::*;
    use crate::fleet::Node;

    fn running(links: &[&str]) -> Running {
        let link =
            |text: &&str| Link { config: parse_link(text, Ports::default()).expect("a link"), port: 7420 };
        Running { links: links.iter().map(link).collect(), ..Running::default() }
    }

    fn node(endpoints: &[&str]) -> Node {
        let endpoints = endpoints.iter().map(|text| text.parse().ok()).collect();
        Node { endpoints, ..Node::default() }
    }

    fn fleet(nodes: &[(&str, &[&str])]) -> Fleet {
        let nodes = nodes.iter().map(|(name, endpoints)| ((*name).to_owned(), node(endpoints)));
        Fleet { nodes: nodes.collect(), ..Fleet::default() }
    }

    fn told(running: &Running, fleet: &Fleet, named: &BTreeSet<Named>) -> Vec<String> {
        let wishes = Wishes { keys: true, allow: true };
        plan(running, fleet, named, wishes, "a").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_link_greets_its_own_endpoint_or_the_first() {
        let running = running(&["eth1,local=192.0.2.1", "eth2,local=198.51.100.1"]);
        let fleet = fleet(&[
            ("a", &["192.0.2.1:7420", "198.51.100.1:7420"]),
            ("b", &["192.0.2.2:7420", "198.51.100.2:7420"]),
            ("c", &["192.0.2.3:7420"]),
            ("d", &["192.0.2.4:7420", "null"]),
            ("e", &["[2001:db8::5]:7420"]),
        ]);
        assert_eq!(
            told(&running, &fleet, &BTreeSet::new()),
            [
                "link eth1,local=192.0.2.1 greets 192.0.2.2:7420",
                "link eth1,local=192.0.2.1 greets 192.0.2.3:7420",
                "link eth1,local=192.0.2.1 greets 192.0.2.4:7420",
                "link eth2,local=198.51.100.1 greets 192.0.2.3:7420",
                "link eth2,local=198.51.100.1 greets 198.51.100.2:7420",
            ]
        );
    }

    #[test]
    fn what_was_carried_out_is_no_step_and_what_a_person_named_stays() {
        let running = running(&["eth1,local=192.0.2.1,peer=192.0.2.2,peer=192.0.2.3,peer=192.0.2.9"]);
        let link = "eth1,local=192.0.2.1".to_owned();
        let of = |peer: &str| Named { link: link.clone(), peer: peer.parse().expect("an endpoint") };
        let named = BTreeSet::from([of("192.0.2.2:7420"), of("192.0.2.3:7420")]);
        let fleet = fleet(&[("b", &["192.0.2.2:7420"])]);
        assert_eq!(told(&running, &fleet, &named), [format!("link {link} greets 192.0.2.3:7420 no longer")]);
    }

    #[test]
    fn links_that_take_no_peers_are_left_alone() {
        let running = running(&["eth1", "ether:eth2"]);
        assert!(told(&running, &fleet(&[("b", &["192.0.2.2:7420"])]), &BTreeSet::new()).is_empty());
    }

    #[test]
    fn names_are_for_one_link_or_for_all_and_never_for_oneself() {
        let running = running(&["eth1,local=192.0.2.1", "eth2,local=198.51.100.1"]);
        let ends = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an endpoint")).collect();
        let named = [
            (String::new(), ends(&["192.0.2.1:7420", "192.0.2.2:7420"])),
            ("eth2".to_owned(), ends(&["198.51.100.2:7420"])),
        ];
        let fleet = Fleet { named: named.into(), ..Fleet::default() };
        let steps = told(&running, &fleet, &BTreeSet::new());
        assert_eq!(
            steps,
            [
                "link eth1,local=192.0.2.1 greets 192.0.2.2:7420",
                "link eth2,local=198.51.100.1 greets 192.0.2.2:7420",
                "link eth2,local=198.51.100.1 greets 198.51.100.2:7420",
            ]
        );
    }

    #[test]
    fn keys_are_compared_by_their_groups_and_in_order() {
        let (old, new) = ("01".repeat(32), "02".repeat(32));
        let groups = |keys: &[&String]| keys.iter().filter_map(|key| group(key)).collect();
        let mut running = Running { groups: groups(&[&old, &new]), ..running(&["eth1,local=192.0.2.1"]) };
        let fleet = Fleet { keys: vec![new.clone(), old.clone()], ..Fleet::default() };
        let steps = told(&running, &fleet, &BTreeSet::new());
        assert!(steps.len() == 1 && steps[0].starts_with("keys of the groups "), "{steps:?}");
        assert!(plan(&running, &fleet, &BTreeSet::new(), Wishes::default(), "a").is_empty(), "not asked for");
        running.groups = groups(&[&new, &old]);
        assert!(told(&running, &fleet, &BTreeSet::new()).is_empty());
    }
}
