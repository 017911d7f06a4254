//! What this crate relies on of the kernel, one small test per behaviour.
//!
//! Each test runs in network namespaces that it makes. What cannot run here is reported as ignored,
//! with the reason in its name. Without root the tests try to be root of a user namespace.

#![expect(unsafe_code, reason = "socket options that no library knows, and signals")]

/// Tests of a room by what they need: the function of that name, or what stands behind it.
macro_rules! tests {
    (@ $test:ident) => { $test };
    (@ $test:ident $body:expr) => { $body };
    ($room:literal; $($need:ident: $($test:ident $(= $body:expr)?),+;)+) => {
        &[$($((Need::$need, concat!($room, "::", stringify!($test)), tests!(@ $test $($body)?) as fn())),+),+]
    };
}

mod kernel_capture;
mod kernel_ether;
mod kernel_netlink;
mod kernel_packet;
mod kernel_tap;
mod kernel_udp;
mod kernel_wires;

use std::net::UdpSocket;

use anyhow::{Result, ensure};
use libtest_mimic::{Arguments, Trial};
use nix::sched::CloneFlags;
use tabane_io::UdpSpec;
use tabane_netns::needs::{IP, TC, is_all_powerful, require, require_tun, require_xdp, trial};
use tabane_netns::{Cable, Namespace, leave_the_world};

/// What a test needs of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    /// Network namespaces and the `ip` command.
    Namespaces,
    /// The `tc` command and the discipline `tbf` besides.
    Tbf,
    /// `/dev/net/tun` besides namespaces.
    Tun,
    /// That, and the right to load programs into the kernel.
    Bpf,
    /// AF_XDP, and the rights to use it.
    Xdp,
}

impl Need {
    const ALL: [Need; 6] = [Need::Nothing, Need::Namespaces, Need::Tbf, Need::Tun, Need::Bpf, Need::Xdp];
}

/// A test: what it needs, its name and its body.
type Test = (Need, &'static str, fn());

fn main() {
    let arguments = Arguments::from_args();
    let is_root = leave_the_world(CloneFlags::empty()).is_ok();
    let missing = Need::ALL.map(|need| check(need, is_root).err().map(|missing| format!("{missing:#}")));
    let rooms = [
        kernel_netlink::TESTS,
        kernel_capture::TESTS,
        kernel_ether::TESTS,
        kernel_packet::TESTS,
        kernel_tap::TESTS,
        kernel_udp::TESTS,
        kernel_wires::TESTS,
    ];
    let run = |(need, name, body): &Test| -> Trial {
        let body = *body;
        trial(name, missing[*need as usize].as_deref(), move || {
            body();
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, rooms.into_iter().flatten().map(run).collect()).exit();
}

/// Checks that it is there.
fn check(need: Need, is_root: bool) -> Result<()> {
    if need == Need::Nothing {
        return Ok(());
    }
    ensure!(is_root, "needs root or user namespaces");
    require(&[IP])?;
    let host = Namespace::new()?;
    match need {
        Need::Nothing | Need::Namespaces => {}
        Need::Tbf => {
            require(&[TC])?;
            shape(&host, "lo")?;
        }
        Need::Tun => require_tun()?,
        Need::Bpf => {
            require_tun()?;
            ensure!(is_all_powerful(), "needs root outside of user namespaces");
        }
        Need::Xdp => require_xdp()?,
    }
    Ok(())
}

/// A UDP link at `nic` as tests ask for it.
fn udp(nic: &str) -> UdpSpec {
    UdpSpec {
        nic: nic.to_owned(),
        local: None,
        both_families: false,
        port: 7420,
        gso: true,
        gro: true,
        receive_buffer: 400_000,
        send_buffer: 400_000,
        multicast: None,
    }
}

fn sockets(cable: &Cable, ports: [u16; 2]) -> [UdpSocket; 2] {
    [
        cable.left.run(|| UdpSocket::bind(("10.0.0.1", ports[0])).unwrap()),
        cable.right.run(|| UdpSocket::bind(("10.0.0.2", ports[1])).unwrap()),
    ]
}

/// A veth pair `ethN` and `portN` whose ends are up.
fn add_veth(host: &Namespace, number: usize) {
    host.ip(&format!("link add eth{number} type veth peer name port{number}")).unwrap();
    ["eth", "port"].into_iter().for_each(|end| drop(host.ip(&format!("link set {end}{number} up")).unwrap()));
}

/// Limits what `nic` sends to 5 Mbit/s, with a burst that lets one GSO packet through whole.
fn shape(host: &Namespace, nic: &str) -> Result<()> {
    host.tc(&format!("qdisc replace dev {nic} root tbf rate 5mbit burst 80kb limit 8mb"))
}
