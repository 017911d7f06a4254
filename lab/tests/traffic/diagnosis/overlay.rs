//! Faults of a NIC that veth cannot have: one link runs over a VXLAN, which stands on no NIC that the kernel shows, has offloads of
//! its own, and counts errors.
//!
//! ```text
//!   h1.eth1 ───────────────────────── eth1.h2
//!   h1.eth9 ~~ UDP over eth2, IPv4 ~~ eth9.h2
//! ```

use std::net::{Ipv4Addr, UdpSocket};

use socket2::SockRef;
use tabane_kit::topology::address;

use super::bundle::Deed::{Do, Run};
use super::bundle::{BROKEN, Fault, ethtool, of_table, one_by_one, renew};
use super::{Group, Way};
use crate::traffic::stage::*;

const OVERLAY: &str = "eth9";
/// What stands below it carries so much: its headers and packets of 1500 bytes.
const BELOW: u32 = 1_600;
const PORT: u16 = 4_789;
const NETWORK: u8 = 9;
/// Packets that go wrong: a few more than a doctor forgives.
const WRONG: usize = 30;
/// A machine that is not there, and the way to it, which is not there either.
const NOBODY: &str = "02:00:00:00:00:99";
const NOWHERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

const FAULTS: [Fault; 5] = [
    ("GRO off at a NIC", "nic-gro-off", Run("ethtool -K eth9 gro off"), Run("ethtool -K eth9 gro on")),
    ("GSO off at a NIC", "nic-gso-off", Run("ethtool -K eth9 gso off"), Run("ethtool -K eth9 gso on")),
    (
        "checksums off at a NIC",
        "nic-checksum-off",
        Do(without_checksums),
        Run("ethtool -K eth9 tx on gso on"),
    ),
    ("a NIC that receives damaged packets", "receive-errors", Do(receive_wrong), Do(lay_anew)),
    ("a NIC that cannot send", "send-errors", Do(send_wrong), Do(lay_anew)),
];

pub(super) fn groups() -> Vec<Group> {
    vec![of_table("offloads_and_errors_of_nics", &FAULTS, run)]
}

fn run(way: Way) -> Result<()> {
    let below = LinkPlan { mtu: BELOW, ..LinkPlan::shaped(FAST) };
    let topology = Topology::build(Plan::two_hosts(vec![LinkPlan::shaped(FAST), below]))?;
    (0..2).try_for_each(|host| lay(&topology, host))?;
    one_by_one(&FAULTS, way, &topology, &[nic(0), OVERLAY.to_owned()])
}

/// The end of the overlay at a host. It learns nobody: all goes to the other host.
fn lay(topology: &Topology, host: usize) -> Result<()> {
    let (own, other) = (address(BROKEN, host), address(BROKEN, 1 - host));
    topology.host(host).ip(&format!(
        "link add {OVERLAY} address 02:00:00:09:00:0{} type vxlan id {NETWORK} local {own} remote {other} dstport {PORT}",
        host + 1
    ))?;
    topology.host(host).ip(&format!("link set {OVERLAY} mtu 1500 up")).map(drop)
}

/// What it has counted is gone with it.
fn lay_anew(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    let since_ns = monotonic_ns()?;
    topology.host(0).ip(&format!("link delete {OVERLAY}"))?;
    lay(topology, 0)?;
    renew(bundles, since_ns)
}

/// The kernel refuses runs of cells there from then on, which is no finding of its own.
fn without_checksums(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    ethtool(topology.host(0), &format!("-K {OVERLAY} tx off"))?;
    if bundles[0].status()?.peers[0].kernel_path {
        return Ok(());
    }
    send_both_ways(topology, 1 << 20)
}

/// Packets that say outside that a router was busy, and inside that nobody there understands that (RFC 6040): the kernel counts
/// an error for each.
fn receive_wrong(topology: &Topology, _: &mut [Bundle<'_>]) -> Result<()> {
    const CONGESTED: u32 = 3;
    // Flags and network number; two addresses of Ethernet and the type IPv4; an empty packet of IPv4.
    let mut packet = vec![8, 0, 0, 0, 0, 0, NETWORK, 0];
    packet.extend([0x02, 0, 0, 9, 0, 1, 0x02, 0, 0, 9, 0, 2, 0x08, 0x00]);
    packet.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    let sent = topology.host(1).enter(|| -> Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        SockRef::from(&socket).set_tos_v4(CONGESTED)?;
        let to = (address(BROKEN, 0), PORT);
        (0..WRONG).try_for_each(|_| Ok(socket.send_to(&packet, to).map(drop)?))
    })?;
    sent?;
    counted(topology, |counts| counts.rx_errors)
}

fn send_wrong(topology: &Topology, _: &mut [Bundle<'_>]) -> Result<()> {
    let (host, neighbour) = (topology.host(0), Ipv4Addr::new(192, 0, 2, 99));
    host.ip(&format!("address add 192.0.2.1/24 dev {OVERLAY}"))?;
    host.ip(&format!("neighbour add {neighbour} lladdr {NOBODY} dev {OVERLAY} nud permanent"))?;
    let mut forward = host.command("bridge");
    forward.args(["fdb", "add", NOBODY, "dev", OVERLAY, "dst", &NOWHERE.to_string(), "self"]);
    tabane_kit::process::run(&mut forward)?;
    host.enter(|| -> Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        (0..WRONG).for_each(|_| drop(socket.send_to(&[0], (neighbour, PORT))));
        Ok(())
    })??;
    counted(topology, |counts| counts.tx_errors)
}

fn counted(topology: &Topology, of: fn(&tabane_io::netlink::NicStatistics) -> u64) -> Result<()> {
    wait_for("errors of the NIC", std::time::Duration::from_secs(5), || {
        let details = topology.host(0).enter(tabane_io::netlink::nic_details)??;
        let overlay = details.iter().find(|detail| detail.nic.name == OVERLAY);
        ensure!(overlay.is_some(), "{OVERLAY} is gone");
        Ok(overlay.filter(|overlay| of(&overlay.statistics) >= WRONG as u64).map(drop))
    })
}
