//! A kernel path at loopback, with one peer on two paths, and how a program is run with a frame.

use std::error::Error;

use libbpf_rs::ProgramInput;
use tabane_kernel::{Address, KernelPath, Link, Pace, PathState, Plan};

/// Loopback, the only interface that a program is run at without saying so.
pub(crate) const LOOPBACK: u32 = 1;
/// UDP port of the bundle.
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

/// Addresses of this host and of the peer on a link. Loopback's MAC address is 0.
pub(crate) fn path(link: u16) -> PathState {
    let address = |host| Address { mac: [0; 6], ip: [0xfe80, 0, 0, 0, 0, 0, link, host].into() };
    PathState { local: address(1), remote: address(2), remote_port: PORT, is_up: true, pace: Pace::default() }
}

/// A link at loopback.
pub(crate) fn link() -> Link {
    Link { ifindex: LOOPBACK, mtu: MTU, weight: 1, is_up: true }
}

/// The kernel path, without peers.
pub(crate) fn attach() -> Result<KernelPath, tabane_kernel::Error> {
    KernelPath::attach(&Plan { device: LOOPBACK, port: PORT, peers: 2 }, None)
}

/// The kernel path with peer 0 on links 0 and 1.
pub(crate) fn with_peer() -> Result<KernelPath, tabane_kernel::Error> {
    let mut kernel_path = attach()?;
    kernel_path.set_own(OWN_MAC)?;
    kernel_path.set_peer(0, Some((Some(PEER_MAC), true)))?;
    for number in 0..2 {
        kernel_path.set_link(number.into(), Some(link()))?;
        kernel_path.set_path(0, number.into(), Some(path(number)))?;
    }
    Ok(kernel_path)
}

/// Which of the two programs.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    Send,
    Receive,
}

/// Runs a program with a frame: what it returns, and the frame afterwards.
pub(crate) fn run(
    kernel_path: &KernelPath,
    which: Which,
    frame: &[u8],
) -> Result<(u32, Vec<u8>), Box<dyn Error>> {
    run_superframe(kernel_path, which, frame, 0)
}

/// The same with a superframe of segments with so many bytes of payload; 0: it is none.
pub(crate) fn run_superframe(
    kernel_path: &KernelPath,
    which: Which,
    frame: &[u8],
    segment: u32,
) -> Result<(u32, Vec<u8>), Box<dyn Error>> {
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
    let output = program.ok_or("no program")?.test_run(input)?;
    Ok((output.return_value, output.data.ok_or("no frame")?.to_vec()))
}

/// Counters that differ between two readings.
pub(crate) fn counted(
    kernel_path: &KernelPath,
    work: impl FnOnce() -> Result<(), Box<dyn Error>>,
) -> Result<Vec<(&'static str, u64)>, Box<dyn Error>> {
    let before = kernel_path.counts();
    work()?;
    let after = kernel_path.counts();
    Ok(after.iter().zip(before.iter()).map(|(a, b)| (a.0, a.1 - b.1)).filter(|count| count.1 > 0).collect())
}
