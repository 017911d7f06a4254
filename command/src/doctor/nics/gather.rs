//! How the facts of the NICs are gathered: netlink, ethtool, and the bundle's status.

use std::fs;

use tabane_config::address::is_ipv6_link_local;
use tabane_io::ethtool::{self, Offloading, negotiated};
use tabane_io::netlink::{NicDetail, Parent};

use super::{Facts, Ipv6, Nic, State};
use crate::doctor::subject::{Bundle, Link, Medium, Subject};

/// Events of the last ten minutes count.
const LATELY_NS: u64 = 600 * 1_000_000_000;
/// A device stands on so many others at most.
const STOREYS: usize = 8;

impl Facts {
    /// The NICs of `subject`, as two looks at all NICs show them.
    pub(in crate::doctor) fn between(
        subject: &Subject,
        before: &[NicDetail],
        after: &[NicDetail],
        bundle: Option<&Bundle>,
    ) -> Self {
        let nics = subject.nics();
        let nic = |name: &String| {
            let mut links = subject.links.iter().filter(|link| link.nic == *name);
            let detail = after.iter().find(|detail| detail.nic.name == *name);
            let was = before.iter().find(|detail| detail.nic.name == *name);
            Nic {
                name: name.clone(),
                state: detail.map(|detail| state(detail, was, after, bundle)),
                wants_link_local: links.any(|link| link.medium == Medium::Multicast),
                batches: bundle.and_then(|bundle| batches(bundle, &subject.links, name)),
            }
        };
        Self { nics: nics.iter().map(nic).collect() }
    }
}

fn state(detail: &NicDetail, was: Option<&NicDetail>, all: &[NicDetail], bundle: Option<&Bundle>) -> State {
    let name = &detail.nic.name;
    let master = detail.master.and_then(|index| all.iter().find(|other| other.nic.index == index));
    let losses = |was: &NicDetail| detail.nic.carrier_losses.saturating_sub(was.nic.carrier_losses);
    let watched = || was.map_or(0, |was| usize::try_from(losses(was)).unwrap_or(usize::MAX));
    State {
        index: detail.nic.index,
        is_up: detail.nic.admin_up,
        has_carrier: detail.nic.carrier,
        mtu: detail.nic.mtu,
        kind: detail.kind.clone(),
        stands_on: stands_on(detail, all),
        master: master
            .map(|master| (master.nic.name.clone(), master.kind.clone().unwrap_or("device".into()))),
        bus_name: detail.bus_name.as_ref().map(|bus| port_of(bus, name)),
        cable: negotiated(name).unwrap_or_default(),
        merges: ethtool::offloads(name, Offloading::Merge),
        segments: ethtool::offloads(name, Offloading::Segment),
        checksums: ethtool::offloads(name, Offloading::Checksum),
        counted: detail.statistics,
        flaps: bundle.map_or_else(watched, |bundle| flaps(bundle, name)),
        ipv6: ipv6(detail),
    }
}

/// The place of a port: some cards have several at one place on the bus.
fn port_of(bus: &str, nic: &str) -> String {
    let port = fs::read_to_string(format!("/sys/class/net/{nic}/dev_port")).unwrap_or_default();
    format!("{bus}, port {}", if port.trim().is_empty() { "0" } else { port.trim() })
}

/// The devices below one, by name; those of another namespace by their numbers.
fn stands_on(detail: &NicDetail, all: &[NicDetail]) -> Vec<String> {
    let mut names = Vec::new();
    let mut parent = detail.parent;
    while let Some(Parent { index, namespace }) = parent.filter(|_| names.len() < STOREYS) {
        let below = all.iter().find(|other| other.nic.index == index && namespace.is_none());
        names.push(match (below, namespace) {
            (Some(below), _) => below.nic.name.clone(),
            (None, namespace) => format!("device {index} of namespace {}", namespace.unwrap_or(0)),
        });
        parent = below.and_then(|below| below.parent);
    }
    names
}

/// How often a running bundle was told that the NIC has lost its carrier. Its paths know less: as a rule they were silent before.
fn flaps(bundle: &Bundle, nic: &str) -> usize {
    let events = bundle.events.iter().filter(|event| event.what == "carrier-lost");
    let lately = events.filter(|event| bundle.now_ns.saturating_sub(event.at_ns) < LATELY_NS);
    // Each link over the NIC tells of it.
    let links = bundle.links.iter().filter(|link| link.nic == nic).count().max(1);
    lately.filter(|event| event.nic.as_deref() == Some(nic)).count() / links
}

fn ipv6(detail: &NicDetail) -> Ipv6 {
    let disabled = fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", detail.nic.name));
    // Without the file there is no IPv6 at all.
    if disabled.map_or(true, |text| text.trim() != "0") {
        return Ipv6::Disabled;
    }
    let mut own = detail.addresses.iter().filter(|own| is_ipv6_link_local(own.address));
    let Some(first) = own.clone().next() else { return Ipv6::Absent };
    match own.any(|own| !own.is_tentative && !own.is_duplicate) {
        true => Ipv6::Usable,
        false if first.is_duplicate => Ipv6::Duplicate,
        false => Ipv6::Checking,
    }
}

/// Whether all links over a NIC send and receive many cells by a call.
fn batches(bundle: &Bundle, links: &[Link], nic: &str) -> Option<(bool, bool)> {
    let links = bundle.links.iter().filter(|link| {
        let own = links.iter().find(|own| own.number == link.link);
        link.nic == nic && own.is_some_and(Link::is_udp)
    });
    let both = links.map(|link| (link.gso, link.gro));
    both.reduce(|one, other| (one.0 && other.0, one.1 && other.1))
}

#[cfg(test)]
mod tests {
    use tabane_api::Entry;

    use super::*;

    #[test]
    fn a_carrier_is_counted_when_silence_showed_its_loss_before() {
        let mut bundle = crate::screen::example();
        let nic = bundle.links[0].nic.clone();
        let at = |what: &str, at_ns| Entry {
            what: what.to_owned(),
            at_ns,
            nic: Some(nic.clone()),
            signal: (what == "link-down").then(|| "silence".to_owned()),
            ..Entry::default()
        };
        bundle.now_ns = 2 * LATELY_NS;
        let (before, lately) = (bundle.now_ns - LATELY_NS, bundle.now_ns - LATELY_NS + 1);
        let lost = [before, lately, lately].map(|at_ns| ("carrier-lost", at_ns));
        let events = [("link-down", lately)].into_iter().chain(lost);
        bundle.events = events.map(|(what, at_ns)| at(what, at_ns)).collect();
        assert_eq!((flaps(&bundle, &nic), flaps(&bundle, "another")), (2, 0));
    }
}
