//! Whether the links are links of their own: one NIC below two of them, or one switch between them.
//!
//! One NIC below two links is seen in this machine. One segment is seen by a frame that one NIC sends to all and that arrives
//! at another. That it does not arrive proves no more than that: a switch may keep its ports apart.

use std::collections::BTreeSet;

use super::nics::{self, Nic, State};
use super::report::{Area, Finding};

#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) nics: nics::Facts,
    /// The pairs of NICs, by their places, of which one received what the other sent; `None`: this user may not look.
    pub(super) shared: Option<BTreeSet<(usize, usize)>>,
}

pub(super) fn judge(facts: &Facts) -> Area {
    let nics = &facts.nics.nics;
    let mut area = Area::new("wiring", summary(nics.len()));
    let pairs = (0..nics.len()).flat_map(|one| (one + 1..nics.len()).map(move |other| (one, other)));
    for (one, other) in pairs {
        let names = format!("{} and {}", nics[one].name, nics[other].name);
        if let Some(common) = common_nic(&nics[one], &nics[other]) {
            let what = format!("both send over {common}");
            let costs = "no rate is added, and both die together";
            let mend = format!(
                "take one of them out of the bundle, or move it to a NIC of its own: tabane link remove {}",
                nics[other].name
            );
            area.find(Finding::new("same-nic", what, costs, mend).about(&names));
        } else if facts.shared.as_ref().is_some_and(|shared| shared.contains(&(one, other))) {
            let what = "what one sends to all arrives at the other: they are on one switch, or on switches that are joined";
            let costs = "that switch is the end of both when it dies; the rates still add up";
            let mend = format!(
                "plug {} into a switch of its own (or a VLAN of its own for rate alone)",
                nics[other].name
            );
            area.find(Finding::new("one-switch", what, costs, mend).about(&names));
        }
    }
    if facts.shared.is_none() && nics.len() > 1 {
        area.miss("whether the links share a switch: that wants root or CAP_NET_RAW");
    }
    area
}

fn summary(links: usize) -> &'static str {
    match links {
        0 => "no link has a NIC",
        1 => "one link",
        _ => "a NIC for each link, and no switch in common was seen",
    }
}

fn common_nic(one: &Nic, other: &Nic) -> Option<String> {
    let (one_state, other_state) = (one.state.as_ref()?, other.state.as_ref()?);
    let chain = |nic: &Nic, state: &State| -> Vec<String> {
        std::iter::once(nic.name.clone()).chain(state.stands_on.iter().cloned()).collect()
    };
    let (one_chain, other_chain) = (chain(one, one_state), chain(other, other_state));
    if let Some(common) = one_chain.iter().find(|name| other_chain.contains(name)) {
        return Some(common.clone());
    }
    // Two ports of a card have numbers of their own on the bus; two devices of one number are one port.
    let bus = one_state.bus_name.as_ref().filter(|bus| other_state.bus_name.as_ref() == Some(bus))?;
    Some(format!("the hardware {bus}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(name: &str, stands_on: &[&str], bus: Option<&str>) -> Nic {
        let state = State {
            stands_on: stands_on.iter().map(ToString::to_string).collect(),
            bus_name: bus.map(str::to_owned),
            ..State::default()
        };
        Nic { name: name.to_owned(), state: Some(state), ..Nic::default() }
    }

    fn found(nics: Vec<Nic>, shared: &[(usize, usize)]) -> Vec<(&'static str, String)> {
        let facts = Facts { nics: nics::Facts { nics }, shared: Some(shared.iter().copied().collect()) };
        let findings = judge(&facts).findings;
        findings.into_iter().map(|finding| (finding.check, finding.about.unwrap_or_default())).collect()
    }

    #[test]
    fn links_of_their_own_are_sound() {
        let nics = vec![nic("eth1", &[], Some("0000:01:00.0")), nic("eth2", &[], Some("0000:01:00.1"))];
        assert_eq!(found(nics, &[]), []);
    }

    #[test]
    fn one_nic_below_two_links_is_found_in_each_way() {
        let both = "eth1 and eth2".to_owned();
        let of = |one, other| found(vec![one, other], &[(0, 1)]);
        // The segment that they share then, too, is no finding of its own.
        assert_eq!(
            of(nic("eth1", &["eno1"], None), nic("eth2", &["eno1"], None)),
            [("same-nic", both.clone())]
        );
        assert_eq!(of(nic("eth1", &[], None), nic("eth2", &["eth1"], None)), [("same-nic", both.clone())]);
        let bus = Some("0000:01:00.0");
        assert_eq!(of(nic("eth1", &[], bus), nic("eth2", &[], bus)), [("same-nic", both)]);
    }

    #[test]
    fn one_switch_is_found_and_nothing_is_said_where_nobody_may_look() {
        let nics = || vec![nic("eth1", &[], None), nic("eth2", &[], None), nic("eth3", &[], None)];
        assert_eq!(found(nics(), &[(0, 2)]), [("one-switch", "eth1 and eth3".to_owned())]);
        let blind = judge(&Facts { nics: nics::Facts { nics: nics() }, shared: None });
        assert_eq!((blind.findings.len(), blind.unseen.len()), (0, 1));
    }
}
