//! Reverse path filters: a strict one drops what arrives at a NIC from an address to which routes lead over another.

use std::fs;
use std::net::IpAddr;

use tabane_io::netlink;

use super::report::{Area, Finding};
use super::subject::{Bundle, Medium, Subject, endpoint};

/// The value of `rp_filter` that is strict.
const STRICT: u8 = 1;

/// A path over IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    nic: String,
    index: u32,
    peer: IpAddr,
    /// The filter in force there: the larger of the NIC's and that of all NICs.
    filter: u8,
    /// Index of the NIC by which an answer to the peer would leave; `None`: there is no route.
    back: Option<u32>,
}

pub(super) fn gather(subject: &Subject, bundle: Option<&Bundle>) -> Vec<Way> {
    let mut ways = Vec::new();
    for peer in bundle.iter().flat_map(|bundle| &bundle.peers) {
        for path in &peer.paths {
            let link = subject.links.iter().find(|link| link.number == path.own_link());
            let (Some(link), Some(end)) = (link, endpoint(&path.endpoint)) else { continue };
            let (Medium::Addresses(Some(local)), IpAddr::V4(_)) = (link.medium, end.ip()) else { continue };
            let (Ok(nic), Ok(back)) = (netlink::nic(&link.nic), netlink::route_to(end.ip(), local)) else {
                continue;
            };
            let filter = filter("all").max(filter(&link.nic));
            ways.push(Way { nic: link.nic.clone(), index: nic.index, peer: end.ip(), filter, back });
        }
    }
    ways
}

fn filter(of: &str) -> u8 {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{of}/rp_filter")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

pub(super) fn judge(ways: &[Way]) -> Area {
    let mut area = Area::new("routes", "no reverse path filter is in the way");
    for way in ways {
        let is_dropped = way.filter == STRICT && way.back != Some(way.index);
        area.find(is_dropped.then(|| {
            let what = format!(
                "has a strict reverse path filter, and the route to {} leads over another NIC",
                way.peer
            );
            let costs = "the kernel drops all that arrives there from that peer";
            let mend = format!(
                "sysctl -w net.ipv4.conf.{0}.rp_filter=2 (or a rule for its address: docs/two-sites.md)",
                way.nic
            );
            Finding::new("rp-filter", what, costs, mend).about(&way.nic).blocking()
        }));
    }
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(filter: u8, back: Option<u32>) -> Way {
        Way { nic: "eth1".into(), index: 3, peer: IpAddr::from([10, 0, 0, 2]), filter, back }
    }

    #[test]
    fn a_strict_filter_wants_the_same_way_back() {
        let checks = |way| judge(&[way]).findings.len();
        assert_eq!(checks(way(1, Some(3))), 0);
        assert_eq!(checks(way(1, Some(2))), 1);
        assert_eq!(checks(way(1, None)), 1);
        assert_eq!(checks(way(2, Some(2))), 0, "a loose filter wants any way");
        assert_eq!(checks(way(0, None)), 0);
    }
}
