//! Buffers of sockets: those of the bundle's links, and the largest that TCP may take on this machine.
//!
//! The daemon has CAP_NET_ADMIN and takes what it wants beyond `net.core.rmem_max`; so what its sockets have counts, not what
//! the kernel lets others have.

use std::fs;
use std::time::Duration;

use tabane_io::RECEIVE_BUFFER;
use tabane_io::netlink::{self, SocketState};

use super::report::{Area, Finding};
use super::subject::{Bundle, Subject};

/// The least that TCP should be let have: what Linux lets it have on a small machine is more.
const TCP_LEAST: u64 = 256 << 10;
/// Datagrams that found a full buffer, one of so many, are a finding.
const DROPS_ONE_OF: u64 = 1_000;
/// Time for which a queue at the sender may hold back data, besides the round trip.
const QUEUE: Duration = Duration::from_millis(1);

/// Buffers, in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The sockets of the bundle's links; `None`: they could not be seen.
    sockets: Option<Vec<LinkSocket>>,
    /// The most that TCP may take to receive and to send; `None`: the kernel does not say.
    tcp: [Option<u64>; 2],
    /// What the bundle carries in a round trip; 0: not known.
    in_flight: u64,
    cells_received: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LinkSocket {
    nic: String,
    receive_buffer: u64,
    drops: u64,
}

pub(super) fn gather(subject: &Subject, bundle: Option<&Bundle>) -> Facts {
    let of_link = |socket: &SocketState, workers: u32| {
        let nic = subject.links.iter().find(|link| {
            let port = u32::from(link.port);
            (port..port + workers).contains(&socket.local.port().into())
                && netlink::nic(&link.nic).is_ok_and(|nic| nic.index == socket.nic)
        })?;
        let (receive_buffer, drops) = (socket.receive_buffer.into(), socket.drops.into());
        Some(LinkSocket { nic: nic.nic.clone(), receive_buffer, drops })
    };
    let sockets = bundle.and_then(|bundle| {
        let sockets = netlink::udp_sockets().ok()?;
        Some(sockets.iter().filter_map(|socket| of_link(socket, bundle.workers)).collect())
    });
    Facts {
        sockets,
        tcp: ["tcp_rmem", "tcp_wmem"].map(tcp_most),
        in_flight: bundle.map_or(0, in_flight),
        cells_received: bundle.map_or(0, |bundle| bundle.counted("cells_received")),
    }
}

/// The third figure of a setting: the most.
fn tcp_most(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    text.split_whitespace().nth(2)?.parse().ok()
}

/// Bytes that all paths to a peer carry in a round trip, of the peer to which that is most.
fn in_flight(bundle: &Bundle) -> u64 {
    let of_peer = bundle.peers.iter().map(|peer| {
        let rate: u64 = peer.paths.iter().filter_map(|path| path.rate_bps).sum();
        let trip = peer.paths.iter().filter_map(|path| path.rtt_us).min().unwrap_or(0);
        let trip = Duration::from_micros(trip) + QUEUE;
        rate / 8 * u64::try_from(trip.as_micros()).unwrap_or(u64::MAX) / 1_000_000
    });
    of_peer.max().unwrap_or(0)
}

pub(super) fn judge(facts: &Facts) -> Area {
    let mut area = Area::new("buffers", "the links' sockets and TCP have room");
    for socket in facts.sockets.iter().flatten() {
        area.find(small(socket));
        let is_much = socket.drops * DROPS_ONE_OF > facts.cells_received && socket.drops > DROPS_ONE_OF;
        area.find((is_much && small(socket).is_none()).then(|| {
            let what = format!("{} datagrams found its receive buffer full since the bundle began", socket.drops);
            let costs = "each is sent again, and what comes behind it waits";
            let mend = "add workers (`workers = 2` on all nodes), or take other load off the processors: `tabane why` tells";
            Finding::new("receive-drops", what, costs, mend).about(&socket.nic).losing()
        }));
    }
    let least = TCP_LEAST.max(facts.in_flight);
    for ((most, name), what) in facts.tcp.iter().zip(["tcp_rmem", "tcp_wmem"]).zip(["receive", "send"]) {
        let Some(most) = most.filter(|most| *most < least) else { continue };
        let what = format!(
            "a connection of TCP may {what} with {} at most, and the bundle wants {}",
            kilobytes(most),
            kilobytes(least)
        );
        let costs = "one connection waits for the other end before all links are full";
        let mend = format!("sysctl -w net.ipv4.{name}='4096 131072 {}'", (4 * least).max(4 << 20));
        area.find(Finding::new("tcp-buffer", what, costs, mend).about(name));
    }
    area
}

/// A link's socket that received less room than it wanted.
fn small(socket: &LinkSocket) -> Option<Finding> {
    let wanted = u64::try_from(RECEIVE_BUFFER).unwrap_or(u64::MAX);
    (socket.receive_buffer < wanted / 2).then(|| {
        let (has, wants) = (kilobytes(socket.receive_buffer), kilobytes(wanted));
        let what = format!("the link's receive buffer has {has}, and the daemon wants {wants}");
        let costs = "bursts are lost while the daemon does not get the processor, and are sent again";
        let mend = format!(
            "sysctl -w net.core.rmem_max={wanted} and start the bundle again, or give it CAP_NET_ADMIN"
        );
        Finding::new("receive-buffer", what, costs, mend).about(&socket.nic).losing()
    })
}

fn kilobytes(bytes: u64) -> String {
    format!("{} kB", bytes / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(receive_buffer: u64, drops: u64) -> Facts {
        Facts {
            sockets: Some(vec![LinkSocket { nic: "eth1".into(), receive_buffer, drops }]),
            tcp: [Some(6 << 20), Some(4 << 20)],
            in_flight: 1 << 20,
            cells_received: 1_000_000,
        }
    }

    fn checks(facts: &Facts) -> Vec<(&'static str, Option<String>)> {
        judge(facts).findings.iter().map(|finding| (finding.check, finding.about.clone())).collect()
    }

    #[test]
    fn small_buffers_are_found_and_large_ones_are_not() {
        assert_eq!(checks(&facts(7 << 20, 0)), []);
        assert_eq!(checks(&facts(4_608, 0)), [("receive-buffer", Some("eth1".into()))]);
        let tcp = Facts { tcp: [Some(32 << 10), Some(4 << 20)], ..facts(7 << 20, 0) };
        assert_eq!(checks(&tcp), [("tcp-buffer", Some("tcp_rmem".into()))]);
        let far = Facts { in_flight: 5 << 20, ..facts(7 << 20, 0) };
        assert_eq!(checks(&far), [("tcp-buffer", Some("tcp_wmem".into()))]);
    }

    #[test]
    fn drops_count_when_they_are_many() {
        assert_eq!(checks(&facts(7 << 20, 900)), []);
        assert_eq!(checks(&facts(7 << 20, 1_100)), [("receive-drops", Some("eth1".into()))]);
        let explained = crate::doctor::Explained::by(&[judge(&facts(7 << 20, 1_100))]);
        assert!(explained.loss.contains("eth1"), "the path's losses are no finding of their own");
    }

    #[test]
    fn a_round_trip_of_the_example_is_in_flight() {
        // 1 Gbit/s for 85 us and a queue of 1 ms.
        assert_eq!(in_flight(&crate::screen::example()), 135_625);
    }
}
