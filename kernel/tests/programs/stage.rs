//! A kernel path at loopback, with one peer on two paths, and how a program is run with a frame.

use std::time::Duration;

use anyhow::{Context, Result};
use libbpf_rs::ProgramInput;
use tabane_kernel::{KernelPath, Link, Plan};
use tabane_proto::{Choosing, KernelEnd, KernelOrder, KernelPath as PeerPath, KernelPeer, NodeId};

/// Loopback, the only interface that a program is run at without saying so.
pub(crate) const LOOPBACK: u32 = 1;
pub(crate) const PORT: u16 = 4790;
/// Largest packet of links.
pub(crate) const MTU: u32 = 1500;
/// MAC addresses of the peer's device and of this host's.
pub(crate) const PEER_MAC: [u8; 6] = [2, 0xbb, 0, 0, 0, 2];
pub(crate) const OWN_MAC: [u8; 6] = [2, 0xbb, 0, 0, 0, 1];
/// What a program returns: left to the next one or the stack, gone, redirected.
pub(crate) const NEXT: u32 = u32::MAX;
pub(crate) const DROP: u32 = 2;
pub(crate) const REDIRECT: u32 = 7;

/// Where this host receives on a link (1), or the peer (2). Loopback's MAC address is 0.
pub(crate) fn end(link: u16, host: u16) -> KernelEnd {
    let address = [0xfe80, 0, 0, 0, 0, 0, link, host].into();
    KernelEnd { mac: [0; 6], address, port: PORT, orders: false }
}

pub(crate) fn link(number: u16) -> Link {
    Link { ifindex: LOOPBACK, mtu: MTU, end: end(number, 1) }
}

/// The kernel path, without peers.
pub(crate) fn attach() -> Result<KernelPath, tabane_kernel::Error> {
    KernelPath::attach(&Plan { device: LOOPBACK, mac: Some(OWN_MAC), port: PORT, peers: 2 }, None)
}

/// The kernel path with peer 0 on links 0 and 1.
pub(crate) fn with_peer() -> Result<KernelPath, tabane_kernel::Error> {
    let mut kernel_path = attach()?;
    (0..2).try_for_each(|number| kernel_path.add_link(number.into(), link(number)))?;
    kernel_path.set_peer(0, &peer(), true)?;
    kernel_path.learn(PEER_MAC, 0)?;
    Ok(kernel_path)
}

pub(crate) fn peer() -> KernelPeer {
    let path = |link: u8| {
        let delay = Duration::ZERO;
        PeerPath { link, end: end(link.into(), 2), open: true, up: true, speed: 0, delay }
    };
    KernelPeer {
        node: NodeId::new(PEER_MAC, 1),
        paths: [0, 1].map(path).to_vec(),
        choosing: Choosing::Hash,
        order: KernelOrder { hold: Duration::ZERO, links: 0, incarnation: 0 },
        needs_cells: None,
    }
}

/// The same with another choice of links, and so many bytes per second on each.
pub(crate) fn peer_by(choosing: Choosing, speeds: [u64; 2]) -> KernelPeer {
    let mut peer = KernelPeer { choosing, ..peer() };
    peer.paths.iter_mut().zip(speeds).for_each(|(path, speed)| path.speed = speed);
    peer
}

/// The same, of which no flow may have a link.
pub(crate) fn without(mut peer: KernelPeer, link: usize) -> KernelPeer {
    peer.paths[link].open = false;
    peer
}

/// Which of the two programs.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    Send,
    Receive,
}

/// Runs a program with a frame: what it returns, and the frame afterwards.
pub(crate) fn run(kernel_path: &KernelPath, which: Which, frame: &[u8]) -> Result<(u32, Vec<u8>)> {
    run_superframe(kernel_path, which, frame, 0)
}

/// The same with a superframe of segments with so many bytes of payload; 0: it is none.
pub(crate) fn run_superframe(
    kernel_path: &KernelPath,
    which: Which,
    frame: &[u8],
    segment: u32,
) -> Result<(u32, Vec<u8>)> {
    // `struct __sk_buff` of Linux 6.18; `gso_size` stands here.
    let mut context = [0; 192];
    context[176..180].copy_from_slice(&segment.to_ne_bytes());
    let programs = kernel_path.programs();
    let program = programs.program(match which {
        Which::Send => "send",
        Which::Receive => "receive",
    });
    let mut after = vec![0; 4096];
    let (data_in, data_out, context_in) = (Some(frame), Some(&mut after[..]), Some(&mut context[..]));
    let input = ProgramInput { data_in, data_out, context_in, ..ProgramInput::default() };
    let output = program.context("no program")?.test_run(input)?;
    Ok((output.return_value, output.data.context("no frame")?.to_vec()))
}

/// Counters that differ between two readings.
pub(crate) fn counted(
    kernel_path: &KernelPath,
    work: impl FnOnce() -> Result<()>,
) -> Result<Vec<(&'static str, u64)>> {
    let (before, ..) = kernel_path.counts();
    work()?;
    let (after, ..) = kernel_path.counts();
    Ok(after.iter().zip(before.iter()).map(|(a, b)| (a.0, a.1 - b.1)).filter(|count| count.1 > 0).collect())
}

// Frames as they are on the device and on a link.

/// Bytes in front of the inner Ethernet header.
pub(crate) const OUTER: usize = 14 + 40 + 8;
/// Length of an IPv4 header, and of an IPv6 header.
const IPV4: usize = 20;
const IPV6: usize = 40;

/// A UDP datagram of `payload` bytes from one device to the other, as IPv4 or IPv6.
pub(crate) fn inner(to: [u8; 6], from: [u8; 6], is_ipv4: bool, payload: usize) -> Vec<u8> {
    let mut frame = [to, from].concat();
    let udp = 8 + payload;
    if is_ipv4 {
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend(length(IPV4 + udp));
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(length(udp));
        frame.extend([17, 64]);
        frame.extend(
            [
                [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
            ]
            .concat(),
        );
    }
    frame.extend([0x30, 0x39, 0x30, 0x3a]);
    frame.extend(length(udp));
    frame.extend([0, 0]);
    frame.extend((0..payload).map(|at| u8::try_from(at % 251).unwrap_or(0)));
    debug_assert_eq!(frame.len(), 14 + if is_ipv4 { IPV4 } else { IPV6 } + udp);
    frame
}

/// A TCP segment, or a superframe of such, with `payload` from this host's device to the peer's: its sum is right where it is a single one.
pub(crate) fn tcp(is_ipv4: bool, number: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = inner(PEER_MAC, OWN_MAC, is_ipv4, 0);
    frame.truncate(frame.len() - 8);
    let bytes = 20 + payload.len();
    if is_ipv4 {
        frame[16..18].copy_from_slice(&length(IPV4 + bytes));
        frame[23] = 6;
        let sum = checksum(&frame[14..]);
        frame[24..26].copy_from_slice(&sum);
    } else {
        frame[18..20].copy_from_slice(&length(bytes));
        frame[20] = 6;
    }
    let at = frame.len();
    frame.extend([0x30, 0x39, 0x30, 0x3a]);
    frame.extend(number.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0x50, flags, 0x10, 0, 0, 0, 0, 0]);
    frame.extend(payload);
    let addresses = if is_ipv4 { 26..34 } else { 22..54 };
    let pseudo = [&frame[addresses], &[0, 6], &length(bytes), &frame[at..]].concat();
    let sum = checksum(&pseudo);
    frame[at + 16..at + 18].copy_from_slice(&sum);
    frame
}

/// What stands in a header whose words shall add up to all ones (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words =
        bytes.chunks(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])));
    // 65,536 is 1 modulo 65,535.
    let sum = words.sum::<u64>();
    (!u16::try_from(sum % 65_535).unwrap_or(0)).to_be_bytes()
}

/// What this host's send program makes of a frame from its device.
pub(crate) fn own(is_ipv4: bool, payload: usize) -> Vec<u8> {
    inner(PEER_MAC, OWN_MAC, is_ipv4, payload)
}

/// A frame as the peer's send program puts it on a link, with this flow label.
pub(crate) fn on_link(link: u16, label: u32, inner: &[u8]) -> Vec<u8> {
    let (own, peer) = (end(link, 1), end(link, 2));
    let mut frame = [own.mac, peer.mac].concat();
    frame.extend([0x86, 0xdd]);
    frame.extend((6 << 28 | label).to_be_bytes());
    frame.extend(length(8 + inner.len()));
    frame.extend([17, 255]);
    frame.extend(peer.address.octets());
    frame.extend(own.address.octets());
    frame.extend(0xc123_u16.to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend(length(8 + inner.len()));
    frame.extend([0, 0]);
    frame.extend(inner);
    frame
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).expect("frames of tests are short").to_be_bytes()
}
