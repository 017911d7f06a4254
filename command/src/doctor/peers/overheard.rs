//! Listens at the wires of the links, before any firewall.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tabane_config::address::GROUP;
use tabane_io::netlink;
use tabane_io::overhear::{self, Ear};

use super::Heard;
use crate::doctor::subject::{Link, Subject};

/// An ear at each NIC.
pub(in crate::doctor) struct Ears(BTreeMap<String, Ear>);

/// What they heard.
#[derive(Clone, Debug, Default)]
pub(in crate::doctor) struct Overheard {
    heard: BTreeMap<String, BTreeSet<overhear::Heard>>,
    /// Addresses of this machine: what it says itself comes back where NICs share a segment.
    own: BTreeSet<IpAddr>,
}

impl Ears {
    /// Listens at the NICs of a running bundle; `None`: there is none, or this user may not.
    pub(in crate::doctor) fn open(subject: &Subject) -> Option<Self> {
        subject.bundle.as_ref()?;
        let ears: BTreeMap<_, _> =
            subject.nics().into_iter().filter_map(|nic| Some((nic.clone(), Ear::open(&nic).ok()?))).collect();
        (!ears.is_empty()).then_some(Self(ears))
    }

    pub(in crate::doctor) fn heard(self) -> Overheard {
        let details = netlink::nic_details().unwrap_or_default();
        let own = details.iter().flat_map(|detail| &detail.addresses).map(|own| own.address).collect();
        let heard = self.0.iter().map(|(nic, ear)| (nic.clone(), ear.heard().into_keys().collect()));
        Overheard { heard: heard.collect(), own }
    }
}

impl Overheard {
    pub(super) fn greetings(&self, links: &[&Link], workers: u32) -> Heard {
        let mut found = Heard::default();
        for link in links {
            let heard = self.heard.get(&link.nic).into_iter().flatten();
            for greeting in
                heard.filter(|heard| heard.to == IpAddr::V6(GROUP) && !self.own.contains(&heard.from))
            {
                let port = u32::from(link.port);
                if (port..port + workers.max(1)).contains(&greeting.port.into()) {
                    found.own_port.insert(link.nic.clone(), link.port);
                } else {
                    found.other_ports.insert(greeting.port);
                }
            }
        }
        found
    }

    /// Whether another machine sent to this link's port there, to the group or to this node.
    pub(in crate::doctor) fn reaches(&self, link: &Link, workers: u32) -> bool {
        self.hears(link, workers, false)
    }

    /// Whether another machine refused by ICMP what this node sent over this link.
    pub(in crate::doctor) fn refuses(&self, link: &Link, workers: u32) -> bool {
        self.hears(link, workers, true)
    }

    fn hears(&self, link: &Link, workers: u32, refusals: bool) -> bool {
        let port = u32::from(link.port);
        let ports = port..port + workers.max(1);
        let heard = self.heard.get(&link.nic).into_iter().flatten();
        let others = heard.filter(|heard| heard.is_refusal == refusals && !self.own.contains(&heard.from));
        others.map(|heard| u32::from(heard.port)).any(|port| ports.contains(&port))
    }
}
