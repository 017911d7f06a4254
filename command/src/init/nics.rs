//! The NICs of this machine that can be links, and which of them a new bundle probably wants.
//!
//! Source: `/sys/class/net` (sysfs-class-net), `/proc/net/route`.

use std::path::Path;

use tabane_io::ethtool;
use tabane_io::netlink::{self, NetlinkError};

const SYSFS: &str = "/sys/class/net";
/// What marks devices in sysfs that are no NIC of their own: devices of tunnels and bundles, bridges and bonds and their members.
const COMPOUND: [&str; 6] = ["tun_flags", "bridge", "brport", "bonding", "bonding_slave", "master"];

/// A NIC that can be a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    name: String,
    /// In Mbit/s, if the kernel knows it.
    speed: Option<u32>,
    up: bool,
    carrier: bool,
    /// It is a device of its own, and not made by the kernel.
    physical: bool,
    default_route: bool,
}

pub(super) fn found() -> Result<Vec<Found>, NetlinkError> {
    let routes = std::fs::read_to_string("/proc/self/net/route").unwrap_or_default();
    let mut found = Vec::new();
    for name in netlink::nic_names()? {
        let has = |what: &str| Path::new(SYSFS).join(&name).join(what).exists();
        if name == "lo" || COMPOUND.iter().any(|what| has(what)) {
            continue;
        }
        let nic = netlink::nic(&name)?;
        if nic.mac.is_none_or(|mac| mac == [0; 6]) {
            continue;
        }
        found.push(Found {
            speed: ethtool::speed(&name),
            up: nic.admin_up,
            carrier: nic.carrier,
            physical: has("device"),
            default_route: has_default_route(&routes, &name),
            name,
        });
    }
    Ok(found)
}

/// The names of those that a new bundle probably wants: not the one of the default route, and none that the kernel made where
/// there are others. A NIC that is down may have a cable all the same.
pub(super) fn proposed(found: &[Found]) -> Vec<&str> {
    let any_physical = found.iter().any(|nic| nic.physical && !nic.default_route);
    let usable =
        |nic: &&Found| !nic.default_route && (nic.carrier || !nic.up) && (nic.physical || !any_physical);
    found.iter().filter(usable).map(|nic| nic.name.as_str()).collect()
}

/// The NICs for people, a line each.
pub(super) fn table(found: &[Found]) -> String {
    let line = |nic: &Found| {
        let state = if !nic.up {
            "down"
        } else if nic.carrier {
            "up"
        } else {
            "no carrier"
        };
        let speed = nic.speed.map_or_else(|| "-".to_owned(), |mbits| format!("{mbits} Mbit/s"));
        let route = if nic.default_route { "  default route" } else { "" };
        format!("  {:<15} {speed:>12}  {state}{route}\n", nic.name)
    };
    found.iter().map(line).collect()
}

fn has_default_route(routes: &str, nic: &str) -> bool {
    routes.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(nic) && words.next() == Some("00000000")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(name: &str, physical: bool, default_route: bool) -> Found {
        Found { name: name.to_owned(), speed: Some(1_000), up: true, carrier: true, physical, default_route }
    }

    #[test]
    fn idle_nics_are_proposed() {
        let found = [
            nic("eth0", true, true),
            nic("eth1", true, false),
            nic("eth2", true, false),
            nic("veth0", false, false),
        ];
        assert_eq!(proposed(&found), ["eth1", "eth2"]);
        let dark = Found { carrier: false, ..found[1].clone() };
        let down = Found { up: false, carrier: false, ..found[2].clone() };
        assert_eq!(proposed(&[dark, down]), ["eth2"], "one that is down may have a cable");
        assert_eq!(proposed(&[nic("eth0", true, true), nic("veth0", false, false)]), ["veth0"]);
        assert!(
            table(&found).contains("eth0             1000 Mbit/s  up  default route\n"),
            "{}",
            table(&found)
        );
    }

    #[test]
    fn the_default_route_is_the_one_to_everywhere() {
        let routes = "Iface Destination Gateway\neth0 00000000 0102A8C0 0003\neth1 0002A8C0 00000000 0001\n";
        assert!(has_default_route(routes, "eth0") && !has_default_route(routes, "eth1"));
    }
}
