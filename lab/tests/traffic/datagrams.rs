//! UDP over IPv4 and IPv6: every datagram arrives once, in order, with every byte as sent; and who is asked for by ARP and neighbour
//! discovery is found.
//!
//! Fragments have no ports, so IP's fragmented datagrams are another flow than whole ones, here as on any NIC with
//! several queues. Each kind keeps its own order.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::traffic::stage::*;

/// Payloads that fit an MTU of 1500 over IPv6 too.
pub(crate) const WHOLE: [usize; 5] = [12, 64, 500, 1000, 1452];
/// Payloads that IP cuts into fragments.
pub(crate) const FRAGMENTED: [usize; 3] = [1473, 9000, 60_000];
const COUNT: u64 = 200;
/// Most that is on the way at once: what a default receive buffer holds without loss.
const AHEAD: (u64, usize) = (32, 48 << 10);
/// A datagram that takes longer is lost.
const LOST_AFTER: Duration = Duration::from_secs(3);

pub(crate) fn cases() -> Vec<Case> {
    let links = [
        ("udp_over_2_equal_links", vec![FAST; 2]),
        ("udp_over_3_equal_links", vec![FAST; 3]),
        ("udp_over_4_equal_links", vec![FAST; 4]),
        ("udp_over_2_links_10_to_1", vec![FAST, SLOW]),
    ];
    let links = links.map(|(name, rates)| Case::alone(name, DAEMON, move || udp(&rates)));
    links.into_iter().chain([Case::new("arp_and_nd_resolve_afresh", DAEMON, resolve)]).collect()
}

fn udp(rates: &[Bitrate]) -> Result<()> {
    with_bundles(plan(rates), &options()?, |topology, _| {
        let (first, second) = (topology.host(0), topology.host(1));
        for sizes in [&WHOLE[..], &FRAGMENTED] {
            exchange(first, second, address(1), sizes, COUNT)?;
            exchange(first, second, address_v6(1), sizes, COUNT)?;
            exchange(second, first, address(0), sizes, COUNT)?;
        }
        Ok(())
    })
}

fn resolve() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, _| {
        let (first, second) = (topology.host(0), topology.host(1));
        let mac = mac(second, DEVICE)?;
        for at in [address(1), address_v6(1)] {
            for host in [first, second] {
                host.ip(&format!("neighbour flush dev {DEVICE}"))?;
            }
            exchange(first, second, at, &[64], 3)?;
            let entry = first.ip(&format!("neighbour show {at} dev {DEVICE}"))?;
            ensure!(entry.contains(&format!("lladdr {mac}")), "{at} resolved to `{entry}` instead of {mac}");
        }
        Ok(())
    })
}

pub(crate) fn mac(host: &Namespace, nic: &str) -> Result<String> {
    let line = host.ip(&format!("-oneline link show {nic}"))?;
    let after = line.split_once("link/ether ").with_context(|| format!("no MAC address in `{line}`"))?.1;
    Ok(after.split_whitespace().next().unwrap_or_default().to_string())
}

/// Sends `count` datagrams whose sizes go round in `sizes` and checks each of them at the other end.
pub(crate) fn exchange(
    from: &Namespace,
    to: &Namespace,
    at: IpAddr,
    sizes: &[usize],
    count: u64,
) -> Result<()> {
    let receiver = to.enter(|| UdpSocket::bind((at, 0)))?.with_context(|| format!("binding to {at}"))?;
    receiver.set_read_timeout(Some(LOST_AFTER))?;
    let at = receiver.local_addr()?;
    let seen = Arc::new(AtomicU64::new(0));
    let (counter, expected) = (Arc::clone(&seen), sizes.to_vec());
    let checking = to.spawn("receiver", move || check_all(&receiver, &expected, count, &counter))?;
    let sent = from.enter(|| send_all(at, sizes, count, &seen))?;
    joined(checking).with_context(|| format!("receiving at {at}"))?;
    sent
}

fn send_all(at: SocketAddr, sizes: &[usize], count: u64, seen: &AtomicU64) -> Result<()> {
    let any =
        if at.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind((any, 0))?;
    for number in 0..count {
        wait_for(&format!("arrival of what precedes datagram {number}"), LOST_AFTER, || {
            Ok(may_go(seen.load(Ordering::Acquire), number, sizes).then_some(()))
        })?;
        socket.send_to(&datagram(number, sizes), at)?;
    }
    Ok(())
}

/// Whether datagram `number` may go when `seen` have arrived: alone, or within [`AHEAD`].
///
/// The first goes alone: while the kernel resolves the neighbour it holds packets back, and lets them go beside what
/// the sender goes on to send, on another CPU.
fn may_go(seen: u64, number: u64, sizes: &[usize]) -> bool {
    let bytes: usize = (seen..=number).map(|each| size(each, sizes)).sum();
    seen == number || (seen > 0 && number - seen < AHEAD.0 && bytes <= AHEAD.1)
}

fn check_all(socket: &UdpSocket, sizes: &[usize], count: u64, seen: &AtomicU64) -> Result<()> {
    let mut buffer = vec![0; 1 << 16];
    for number in 0..count {
        let length = socket.recv(&mut buffer).with_context(|| format!("datagram {number} is lost"))?;
        let expected = datagram(number, sizes);
        ensure!(length == expected.len(), "datagram {number}: {length} bytes instead of {}", expected.len());
        ensure!(buffer[..length] == expected, "datagram {number} differs from what was sent");
        seen.store(number + 1, Ordering::Release);
    }
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    ensure!(socket.recv(&mut buffer).is_err(), "more datagrams arrived than were sent");
    Ok(())
}

fn datagram(number: u64, sizes: &[usize]) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while bytes.len() < size(number, sizes) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_be_bytes());
    }
    bytes.truncate(size(number, sizes));
    bytes
}

fn size(number: u64, sizes: &[usize]) -> usize {
    sizes[usize::try_from(number).unwrap_or(0) % sizes.len()]
}
