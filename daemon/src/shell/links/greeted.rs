//! The endpoints that links greet: those that are stated, and those of names as far as they are known.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use tabane_config::{LinkConfig, Peer};
use tabane_process::locked;

use super::{Links, Member, numbered};
use crate::machine::Machine;
use crate::worker::Command;

/// The addresses of the names of peers, as they were resolved last.
pub(crate) type Addresses = BTreeMap<String, Vec<IpAddr>>;

impl<M: Machine> Links<M> {
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let members = locked(&self.members);
        members.iter().flatten().flat_map(|member| member.link.names()).map(str::to_owned).collect()
    }

    /// The names over whose addresses a peer is received.
    pub(crate) fn reached(&self) -> BTreeSet<String> {
        let received: Vec<(u8, SocketAddr)> =
            self.workers.ask(Command::Received).into_iter().flatten().collect();
        let (members, addresses) = (locked(&self.members), locked(&self.addresses));
        let is_reached = |number: u8, peer: &Peer, name: &str| {
            let ends = endpoints(peer, addresses.get(name).map_or(&[][..], Vec::as_slice));
            ends.into_iter().any(|end| received.contains(&(number, end)))
        };
        numbered(&members)
            .flat_map(|(number, member)| member.link.peers.iter().map(move |peer| (number, peer)))
            .filter_map(|(number, peer)| Some((number, peer, peer.host()?)))
            .filter(|(number, peer, name)| is_reached(*number, peer, name))
            .map(|(_, _, name)| name.to_owned())
            .collect()
    }

    /// A name has these addresses now: the workers greet them on the links of the peers that it names.
    pub(crate) fn set_addresses(&self, name: &str, found: Vec<IpAddr>) {
        let members = locked(&self.members);
        let mut addresses = locked(&self.addresses);
        addresses.insert(name.to_owned(), found);
        let named = |member: &Member| member.link.names().any(|other| other == name);
        for (link, member) in numbered(&members).filter(|(_, member)| named(member)) {
            let greeted = greeted(&member.link, &addresses);
            self.workers.send(|| Command::Greet { link, endpoints: greeted.clone() });
        }
    }
}

/// The endpoints that are greeted on a link: those that are stated, and those of names as far as they are known and the
/// link's socket reaches them. Each once.
pub(super) fn greeted(link: &LinkConfig, addresses: &Addresses) -> Vec<SocketAddr> {
    let known = |peer: &Peer| peer.host().and_then(|name| addresses.get(name)).map_or(&[][..], Vec::as_slice);
    let all = link.peers.iter().flat_map(|peer| endpoints(peer, known(peer)));
    let mut greeted: Vec<SocketAddr> = Vec::new();
    for endpoint in all.filter(|endpoint| link.reaches(endpoint.ip())) {
        if !greeted.contains(&endpoint) {
            greeted.push(endpoint);
        }
    }
    greeted
}

fn endpoints(peer: &Peer, addresses: &[IpAddr]) -> Vec<SocketAddr> {
    match peer {
        Peer::Address(endpoint) => vec![*endpoint],
        Peer::Name { port, .. } => addresses.iter().map(|address| SocketAddr::new(*address, *port)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use tabane_config::Ports;

    use super::*;
    use crate::machine::sockets::of_worker;

    fn link(local: Option<&str>, peers: &[&str]) -> LinkConfig {
        let local = local.map(|local| format!(",local={local}")).unwrap_or_default();
        let peers: String = peers.iter().map(|peer| format!(",peer={peer}")).collect();
        let ports = Ports { first: 7420, workers: 1 };
        tabane_config::parse_link(&format!("wan0{local}{peers}"), ports).expect("a link")
    }

    #[test]
    fn what_a_name_has_is_greeted_as_far_as_the_socket_reaches_it() {
        let mut addresses = Addresses::new();
        let greeted = |link: &LinkConfig, addresses: &Addresses| -> Vec<String> {
            super::greeted(link, addresses).iter().map(ToString::to_string).collect()
        };
        let both = link(None, &["office:9", "192.0.2.1:9", "[2001:db8::2]:9"]);
        assert_eq!(
            greeted(&both, &addresses),
            ["192.0.2.1:9", "[2001:db8::2]:9"],
            "nobody knows the name yet"
        );
        let found = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().expect("an address"));
        addresses.insert("office".to_owned(), found.to_vec());
        assert_eq!(greeted(&both, &addresses), ["192.0.2.1:9", "[2001:db8::1]:9", "[2001:db8::2]:9"]);
        let ipv4 = link(Some("192.0.2.7"), &["office"]);
        assert_eq!(greeted(&ipv4, &addresses), ["192.0.2.1:7420"]);
        let ipv6 = link(Some("::"), &["office", "cottage"]);
        assert_eq!(greeted(&ipv6, &addresses), ["[2001:db8::1]:7420"]);
        let second = of_worker(super::greeted(&ipv6, &addresses), 1);
        assert_eq!(second, ["[2001:db8::1]:7421".parse().expect("an endpoint")]);
        let last: SocketAddr = "192.0.2.1:65535".parse().expect("an endpoint");
        assert_eq!(of_worker(vec![last], 0), [last]);
        assert_eq!(of_worker(vec![last], 1), [], "there is no port behind it");
    }
}
