//! The NICs of the links: state, speed and duplex, offloads, MTU, errors, and the addresses that links of IPv6 need.

mod gather;
#[cfg(test)]
mod tests;

use tabane_io::ethtool::Negotiated;
use tabane_io::netlink::NicStatistics;

use super::report::{Area, Finding, listed};

/// Damaged or lost packets, one of so many, are a finding.
const ERRORS_ONE_OF: u64 = 10_000;
/// Fewer are none.
const ERRORS_LEAST: u64 = 20;
/// A carrier that was lost so often within ten minutes flaps.
const FLAPS: usize = 3;

/// The NICs, in the order of their links.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) nics: Vec<Nic>,
}

/// A NIC of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Nic {
    pub(super) name: String,
    /// What the kernel shows; `None`: it is not there.
    pub(super) state: Option<State>,
    /// Whether its link finds peers by multicast, which wants an IPv6 link-local address.
    pub(super) wants_link_local: bool,
    /// Whether one call sends many cells, and receives many; `None`: no bundle runs, or its kind of link has no such thing.
    pub(super) batches: Option<(bool, bool)>,
}

/// A NIC as the kernel shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) index: u32,
    pub(super) is_up: bool,
    pub(super) has_carrier: bool,
    pub(super) mtu: u32,
    /// `veth`, `vlan` and so on; `None`: hardware.
    pub(super) kind: Option<String>,
    /// Names of the devices that it stands on, the nearest first, with the namespace of those in another one.
    pub(super) stands_on: Vec<String>,
    /// The bridge, bond or the like to which it belongs, with its kind.
    pub(super) master: Option<(String, String)>,
    /// Where its hardware is on its bus.
    pub(super) bus_name: Option<String>,
    pub(super) cable: Negotiated,
    /// Whether the kernel merges what it receives, segments what it sends, and computes checksums.
    pub(super) merges: Option<bool>,
    pub(super) segments: Option<bool>,
    pub(super) checksums: Option<bool>,
    /// What it counted while it was watched, and before that.
    pub(super) counted: NicStatistics,
    /// How often its carrier was lost: in the last ten minutes, as the bundle tells, or else while it was watched.
    pub(super) flaps: usize,
    pub(super) ipv6: Ipv6,
}

/// What keeps a NIC from having an IPv6 link-local address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ipv6 {
    /// It has one.
    #[default]
    Usable,
    /// IPv6 is switched off there.
    Disabled,
    /// The kernel still looks whether another machine has it.
    Checking,
    /// Another machine has it.
    Duplicate,
    /// None was given.
    Absent,
}

pub(super) fn judge(facts: &Facts) -> Area {
    let mut area = Area::new("nics", facts.nics.iter().map(Nic::describe).collect::<Vec<_>>().join("; "));
    for nic in &facts.nics {
        let Some(state) = &nic.state else {
            let mend = "ip link (shows the NICs that there are)";
            area.find(
                Finding::new("nic-missing", "is not there", "the whole link", mend)
                    .about(&nic.name)
                    .blocking(),
            );
            continue;
        };
        area.find(judge_state(&nic.name, state));
        if state.is_up && state.has_carrier {
            area.find(judge_master(&nic.name, state));
            area.find(judge_ipv6(nic, state));
            area.find(judge_duplex(&nic.name, state));
            area.find(judge_speed(&nic.name, state));
        }
        judge_offloads(nic, state, &mut area);
        judge_counts(&nic.name, state, &mut area);
    }
    area.find(judge_mtu(facts));
    area
}

impl Nic {
    fn describe(&self) -> String {
        let Some(state) = &self.state else { return format!("{} is missing", self.name) };
        let speed = state.cable.speed.map(|speed| format!(" {speed} Mbit/s")).unwrap_or_default();
        format!("{} up{speed}, MTU {}", self.name, state.mtu)
    }
}

fn judge_state(name: &str, state: &State) -> Option<Finding> {
    let found = if !state.is_up {
        Finding::new("nic-down", "is down", "the whole link", format!("ip link set {name} up"))
    } else if !state.has_carrier {
        let mend = format!(
            "plug the cable in, or switch the other end on (`ip link show {name}` shows LOWER_UP then)"
        );
        Finding::new("no-carrier", "is up and sees no signal on its cable", "the whole link", mend)
    } else {
        return None;
    };
    Some(found.about(name).blocking())
}

fn judge_master(name: &str, state: &State) -> Option<Finding> {
    let (master, kind) = state.master.as_ref()?;
    // A NIC keeps its own traffic in a VRF.
    if kind == "vrf" {
        return None;
    }
    let what = format!("belongs to the {kind} {master}, which takes what it receives");
    let mend = format!("ip link set {name} nomaster (or use {master} as the link)");
    Some(Finding::new("nic-in-bridge", what, "the whole link, as a rule", mend).about(name).blocking())
}

fn judge_ipv6(nic: &Nic, state: &State) -> Option<Finding> {
    let name = &nic.name;
    let (check, what, mend) = match state.ipv6 {
        _ if !nic.wants_link_local => return None,
        Ipv6::Usable => return None,
        Ipv6::Disabled => (
            "ipv6-disabled",
            "has IPv6 switched off",
            format!("sysctl -w net.ipv6.conf.{name}.disable_ipv6=0"),
        ),
        Ipv6::Checking => (
            "dad-running",
            "has no usable address yet: the kernel looks for a second or two whether another machine has it",
            format!("sysctl -w net.ipv6.conf.{name}.optimistic_dad=1 (or wait)"),
        ),
        Ipv6::Duplicate => (
            "dad-failed",
            "has an IPv6 address that another machine has, too",
            format!("ip link set {name} address 02:… (another one for each machine), then down and up"),
        ),
        Ipv6::Absent => (
            "no-link-local",
            "has no IPv6 link-local address",
            format!(
                "ip link set {name} addrgenmode eui64 && ip link set {name} down && ip link set {name} up"
            ),
        ),
    };
    let costs = "the whole link: peers are found and reached by IPv6 there (or name addresses of IPv4: `--link NIC,local=…,peer=…`)";
    Some(Finding::new(check, what, costs, mend).about(name).blocking())
}

fn judge_duplex(name: &str, state: &State) -> Option<Finding> {
    (state.cable.full_duplex == Some(false)).then(|| {
        let speed = state.cable.speed.map(|speed| format!("{speed} Mbit/s, ")).unwrap_or_default();
        let what = format!("runs at {speed}half duplex");
        let costs = "more than half of the link, and losses by late collisions";
        let mend = format!("ethtool -s {name} autoneg on duplex full (and the same at the switch)");
        Finding::new("half-duplex", what, costs, mend).about(name)
    })
}

fn judge_speed(name: &str, state: &State) -> Option<Finding> {
    let cable = &state.cable;
    let (speed, best) = (cable.speed?, cable.supported?);
    if speed >= best || cable.full_duplex == Some(false) {
        return None;
    }
    let share = 100 - u64::from(speed) * 100 / u64::from(best);
    let what = format!("runs at {speed} Mbit/s and can do {best}");
    let (what, mend) = match cable.partner {
        _ if !cable.autoneg => (what, format!("ethtool -s {name} autoneg on")),
        _ if cable.offered < cable.supported => (
            format!("{what}: it does not offer more"),
            format!(
                "ethtool -s {name} autoneg on advertise 0x… (all modes that `ethtool {name}` lists as supported)"
            ),
        ),
        Some(partner) if partner < best => (
            format!("{what}: the other end offers {partner}"),
            "use another port of the switch, or another switch".to_owned(),
        ),
        _ => (
            format!("{what}, which both ends offer"),
            "use another cable: gigabit takes all four pairs".to_owned(),
        ),
    };
    Some(Finding::new("low-speed", what, format!("{share} % of the link"), mend).about(name))
}

fn judge_offloads(nic: &Nic, state: &State, area: &mut Area) {
    let name = &nic.name;
    // What one end of a pair sends comes out of the other as it is, merged by nobody; and what is merged below a VLAN comes
    // merged to it.
    let is_lowest = state.kind.as_deref() != Some("veth") && state.stands_on.is_empty();
    let off = |what: Option<bool>| what == Some(false) && is_lowest;
    // Without checksums the kernel switches GSO off, too, and refuses UDP_SEGMENT.
    let can_segment = !off(state.checksums);
    if let Some((sends, receives)) = nic.batches {
        area.find((!sends && can_segment).then(|| {
            let mend = format!("ethtool -K {name} tx on gso on (and no `--no-gso`, no `gso = false`, no filter that drops long frames)");
            let costs = "each cell takes a system call: about three times the processor time of sending";
            Finding::new("gso-off", "the bundle sends each cell by itself", costs, mend).about(name)
        }));
        area.find((!receives).then(|| {
            let mend = "start the bundle without `--no-gro` and `gro = false`";
            let costs = "about twice the processor time of receiving";
            Finding::new("gro-off", "the bundle receives each cell by itself", costs, mend).about(name)
        }));
    }
    area.find(off(state.merges).then(|| {
        let costs = "the bundle takes each cell by itself: about twice the processor time of receiving";
        Finding::new(
            "nic-gro-off",
            "merges nothing that it receives",
            costs,
            format!("ethtool -K {name} gro on"),
        )
        .about(name)
    }));
    area.find((off(state.segments) && can_segment).then(|| {
        let costs = "runs of cells are cut early: up to twice the processor time of sending";
        Finding::new("nic-gso-off", "takes no superframes", costs, format!("ethtool -K {name} gso on"))
            .about(name)
    }));
    area.find((!can_segment).then(|| {
        let costs = "the kernel refuses UDP_SEGMENT there, or computes each checksum itself";
        Finding::new("nic-checksum-off", "computes no checksums", costs, format!("ethtool -K {name} tx on"))
            .about(name)
    }));
}

fn judge_counts(name: &str, state: &State, area: &mut Area) {
    let counted = &state.counted;
    let is_much = |errors: u64, of: u64| errors >= ERRORS_LEAST && errors * ERRORS_ONE_OF > of;
    area.find(is_much(counted.rx_errors, counted.rx_packets).then(|| {
        let what = format!("received {} damaged packets of {}", counted.rx_errors, counted.rx_packets);
        let mend = format!("change the cable or the port (`ethtool -S {name}` shows the kinds)");
        Finding::new("receive-errors", what, "each is a lost cell, sent again", mend).about(name).losing()
    }));
    area.find(is_much(counted.tx_errors + counted.collisions, counted.tx_packets).then(|| {
        let what = format!(
            "failed to send {} packets, and had {} collisions",
            counted.tx_errors, counted.collisions
        );
        let mend = format!("ethtool -s {name} autoneg on (at both ends), or another cable");
        Finding::new("send-errors", what, "each is a lost cell, sent again", mend).about(name)
    }));
    area.find(is_much(counted.rx_missed, counted.rx_packets).then(|| {
        let what = format!("had no room for {} packets in its receive ring", counted.rx_missed);
        let mend = format!("ethtool -G {name} rx 4096 (`ethtool -g {name}` shows the most)");
        Finding::new("ring-overruns", what, "each is a lost cell, sent again", mend).about(name).losing()
    }));
    area.find((state.flaps >= FLAPS).then(|| {
        let what = format!("lost its carrier {} times in the last ten minutes", state.flaps);
        let mend = "change the cable or the port of the switch";
        Finding::new("carrier-flaps", what, "each time milliseconds, and up to 32 s without the link", mend)
            .about(name)
    }));
}

/// NICs of one bundle whose MTUs differ.
fn judge_mtu(facts: &Facts) -> Option<Finding> {
    let mtus = facts.nics.iter().filter_map(|nic| Some((nic.name.as_str(), nic.state.as_ref()?.mtu)));
    let (least, most) = (mtus.clone().map(|(_, mtu)| mtu).min()?, mtus.clone().map(|(_, mtu)| mtu).max()?);
    let (small, large): (Vec<_>, Vec<_>) = mtus.partition(|(_, mtu)| *mtu == least);
    if large.is_empty() {
        return None;
    }
    let names = |nics: &[(&str, u32)]| listed(nics.iter().map(|(name, _)| *name));
    let what = format!("the MTU of {} is {least}, that of {} up to {most}", names(&small), names(&large));
    let more = (u64::from(most) * 100 / u64::from(least)).saturating_sub(100);
    let costs = format!(
        "cells of all links are as small as the smallest: {more} % more of them, each with its headers"
    );
    let first = small[0].0;
    let mend = format!("ip link set {first} mtu {most} (if the switch carries it; on the peers, too)");
    Some(Finding::new("unequal-mtu", what, costs, mend).about(first))
}
