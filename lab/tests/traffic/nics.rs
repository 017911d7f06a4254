//! NICs that change under a connection: another MTU, another address, another speed. The connection lives, the file is whole. And
//! flows that go where others leave room.

use std::net::UdpSocket;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;

use tabane_io::ethtool;
use tabane_kit::topology;

use crate::traffic::faults::carry;
use crate::traffic::stage::*;

/// Headers of UDP and IPv6 around a cell.
const HEADERS: u32 = 48;
/// A link so fast that cells wait for each other, and leave together, on any machine.
const QUICK: Bitrate = Bitrate::gbit(10);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("another_mtu_and_address_of_a_nic_are_followed_under_a_connection", DAEMON, || {
            changes(LINKS)
        }),
        Case::new("another_mtu_of_the_only_nic_is_followed", DAEMON, || changes(1)),
        Case::new("what_a_nic_loses_when_it_segments_leaves_cell_by_cell", [Daemon, Tool(NFT)], segments),
        Case::new("nics_that_swap_names_stay_what_they_are", DAEMON, swap),
        Case::light("the_speed_of_a_nic_is_followed", DAEMON, speed),
        Case::light("tlb_leaves_a_nic_to_others_who_send_over_it", DAEMON, others_send),
    ]
}

fn changes(links: usize) -> Result<()> {
    with_bundles(plan(&vec![FAST; links]), &options()?, |topology, bundles| {
        let meanwhile = || {
            carry(topology, links - 1)?;
            follow_mtu(topology, bundles, links - 1, HEADERS)?;
            if links > 1 { readdress(topology, bundles, links - 1) } else { Ok(()) }
        };
        under_a_file(topology, FILE, meanwhile).map(drop)
    })
}

/// So many bytes of headers are around each cell.
pub(crate) fn follow_mtu(
    topology: &Topology,
    bundles: &mut [Bundle<'_>],
    link: usize,
    headers: u32,
) -> Result<()> {
    for mtu in [1400, 1300, 1500] {
        topology.host(0).ip(&format!("link set {} mtu {mtu}", nic(link)))?;
        for bundle in &mut *bundles {
            bundle.wait_until(&format!("cells for an MTU of {mtu}"), |status| {
                status.cell_bytes == mtu - headers && status.is_ready(1, link + 1)
            })?;
        }
        carry(topology, link)?;
    }
    ensure!(bundles[0].status()?.events_of("nic-mtu", link, 0).count() == 3, "each change is told once");
    Ok(())
}

/// Two NICs change their names, as USB NICs do when they are found in another order. Each link stays on its NIC.
fn swap() -> Result<()> {
    with_bundles(plan(&[FAST; LINKS]), &options()?, |topology, bundles| {
        let (host, [one, other]) = (topology.host(0), [0, 1].map(nic));
        for step in [
            format!("{one} down"),
            format!("{other} down"),
            format!("{one} name swapped"),
            format!("{other} name {one}"),
            format!("swapped name {other}"),
            format!("{one} up"),
            format!("{other} up"),
        ] {
            host.ip(&format!("link set {step}"))?;
        }
        ready(bundles, LINKS)?;
        send_file(host, topology.host(1), address(1), FILE)?;
        ensure!(!bundles[0].status()?.event_counts.contains_key("nic-gone"), "no NIC was gone");
        Ok(())
    })
}

/// A filter drops what is longer than a packet, as NICs lose what they segment badly. The link goes on, although `status` and heartbeats
/// alone would not show what it loses.
fn segments() -> Result<()> {
    with_bundles(plan(&[QUICK; LINKS]), &options()?, |topology, bundles| {
        let host = topology.host(0);
        let meanwhile = || {
            carry(topology, LINKS - 1)?;
            for command in [
                "add table netdev long".to_owned(),
                format!(
                    "add chain netdev long out {{ type filter hook egress device {} priority 0 ; }}",
                    nic(1)
                ),
                "add rule netdev long out meta length > 1600 drop".to_owned(),
            ] {
                process::run(host.command("nft").arg(command))?;
            }
            bundles[0].wait_until("that segments are lost", |status| {
                status.events_of("segments-lost", 1, 0).count() > 0
            })?;
            carry(topology, LINKS - 1)
        };
        under_a_file(topology, FILE, meanwhile)?;
        let status = bundles[0].status()?;
        ensure!([0, 1].map(|link: usize| status.links[link].gso) == [true, false], "{:?}", status.links);
        ensure!(status.events_of("segments-lost", 0, 0).count() == 0, "the other link is sound");
        Ok(())
    })
}

fn readdress(topology: &Topology, bundles: &mut [Bundle<'_>], link: usize) -> Result<()> {
    for address in ["fe80::1234", "fe80::5678"] {
        let (host, nic) = (topology.host(0), nic(link));
        host.ip(&format!("address flush dev {nic} scope link"))?;
        host.ip(&format!("address add {address}/64 dev {nic}"))?;
        bundles[1].wait_until(address, |status| {
            let endpoint = format!("[{address}");
            status.is_ready(1, link + 1)
                && status.peers[0].paths.iter().any(|link| link.endpoint.starts_with(&endpoint))
        })?;
        carry(topology, link)?;
    }
    Ok(())
}

const TAP: &str = "tap7";
/// Datagrams of others, and how many leave at once each millisecond: 150 Mbit/s, of the 200 of a link.
const BYTES: usize = 1_250;
const AT_ONCE: u32 = 15;
const PACE: Duration = Duration::from_millis(1);
const DISCARD: u16 = 9;
/// Others have sent for so long when flows begin: the load is asked for each second.
const KNOWN_AFTER: Duration = Duration::from_millis(3_500);
const FILES: u64 = 3;
const FILE: u64 = 2 << 20;

/// A TAP says what was set last. The bundle is in its sandbox by then.
fn speed() -> Result<()> {
    with_bundles(plan(&[FAST]), &options()?, |topology, bundles| {
        let host = topology.host(0);
        host.ip(&format!("tuntap add dev {TAP} mode tap"))?;
        host.ip(&format!("address add 192.0.2.1/24 dev {TAP}"))?;
        bundles[0].ask(&["link", "add", DEVICE, &format!("{TAP},local=192.0.2.1")])?;
        for (mbits, bits) in [(100, 100_000_000), (2_500, 2_500_000_000)] {
            host.enter(|| ethtool::set_speed(TAP, mbits))??;
            bundles[0].wait_until(&format!("a speed of {mbits} Mbit/s"), |status| {
                status.links.get(1).is_some_and(|link| link.speed_bps == Some(bits))
            })?;
        }
        Ok(())
    })
}

/// Flows would take turns; they all avoid the link of which others have taken three quarters.
fn others_send() -> Result<()> {
    let topology = Topology::build(Plan { addressed: true, ..plan(&[FAST; 2]) })?;
    // Veth NICs say 10 Gbit/s, so the rate is stated.
    let links = [0, 1].map(|link| format!("{},rate={FAST}", nic(link)));
    with_links(&topology, &links, &options_with(&["--policy", "tlb"])?, |topology, bundles| {
        let others = send_past(topology.host(0), topology::address(0, 1).into())?;
        sleep(KNOWN_AFTER);
        let before = cells_sent(&bundles[0])?;
        for _ in 0..FILES {
            send_file(topology.host(0), topology.host(1), address(1), FILE)?;
        }
        let after = cells_sent(&bundles[0])?;
        let [first, second] = [0, 1].map(|link| after[link] - before[link]);
        others.end()?;
        ensure!(first * 20 < second, "{first} cells beside others, {second} on the other link");
        Ok(())
    })
}

fn send_past(from: &Namespace, to: IpAddr) -> Result<Running<()>> {
    Running::start(from, "others", move |end| {
        let socket = UdpSocket::bind("0.0.0.0:0").context("others")?;
        let mut due = Instant::now();
        while !end.load(Relaxed) {
            for _ in 0..AT_ONCE {
                // Nobody listens, and the kernel says so by an error of the next call.
                let _ = socket.send_to(&[0; BYTES], SocketAddr::new(to, DISCARD));
            }
            due += PACE;
            sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    })
}
