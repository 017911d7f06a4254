//! Faults around a running bundle, planted one after the other, each mended before the next.

use std::net::{SocketAddrV6, UdpSocket};

use nix::sys::signal::Signal;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::Socket;

use self::Deed::{Do, Run};
use super::{Group, Way, doctor, named};
use crate::traffic::stage::*;

pub(super) const BROKEN: usize = 1;
const PORT: u16 = 7420;

pub(super) const CLOSED: &str = "udp dport 7420 drop";

pub(super) enum Deed {
    Run(&'static str),
    Do(fn(&Topology, &mut [Bundle<'_>]) -> Result<()>),
}

/// A fault as the page calls it, what names it, how it is planted, and how it is mended.
pub(super) type Fault = (&'static str, &'static str, Deed, Deed);

/// How doctors count what is over: each event of it.
const OVER: [Fault; 1] = [("a cable that is pulled three times", "carrier-flaps", Do(flap), Do(restart))];
const SILENT: [Fault; 7] = [
    ("a NIC that is down", "nic-down", Run("ip link set eth2 down"), Run("ip link set eth2 up")),
    (
        "a cable that is pulled",
        "no-carrier",
        Do(|topology, _| topology.pull_cable(0, BROKEN).map(drop)),
        Do(|topology, _| topology.plug_cable(0, BROKEN).map(drop)),
    ),
    (
        "a switch that swallows everything",
        "path-dead",
        Do(kill),
        Do(|topology, _| topology.revive_switch(BROKEN).map(drop)),
    ),
    (
        "a switch that carries one way",
        "one-way-in",
        Do(|topology, bundles| {
            hook(topology.switch(BROKEN), "netdev", "ingress device port2", "meta l4proto udp drop")?;
            until(bundles, |path| path.rx == PathState::Down)
        }),
        Do(|topology, _| unhook(topology.switch(BROKEN), "netdev")),
    ),
    (
        "UDP port closed by nftables here",
        "port-closed-here",
        Do(|topology, bundles| close(topology, bundles, 0, CLOSED)),
        OPEN,
    ),
    (
        "UDP port closed by nftables at the peer, which drops",
        "one-way-out",
        Do(|topology, bundles| close(topology, bundles, 1, CLOSED)),
        Do(|topology, _| unhook(topology.host(1), "inet")),
    ),
    (
        "UDP port closed by nftables at the peer, which rejects",
        "port-refused",
        Do(|topology, bundles| close(topology, bundles, 1, "udp dport 7420 reject")),
        Do(|topology, _| unhook(topology.host(1), "inet")),
    ),
];
/// Opens what is closed at the first host.
const OPEN: Deed = Run("nft delete table inet filter");

const BARE: [Fault; 6] = [
    (
        "a NIC that is taken out",
        "nic-missing",
        Do(|topology, _| topology.delete_nic(0, BROKEN)),
        Do(|topology, bundles| {
            let since_ns = monotonic_ns()?;
            topology.make_nic(0, BROKEN)?;
            renew(bundles, since_ns)
        }),
    ),
    ("a NIC with IPv6 switched off", "ipv6-disabled", Run(IPV6_OFF), Run(IPV6_ON)),
    (
        "a NIC without an IPv6 address",
        "no-link-local",
        Run("ip -6 address flush dev eth2"),
        Do(|topology, _| address_anew(topology)),
    ),
    // The kernel asks so often, a second each, whether another machine has the address.
    (
        "a NIC whose address is still being checked (DAD)",
        "dad-running",
        Do(|topology, _| check_addresses(topology, "10")),
        Do(trust_addresses),
    ),
    (
        "a NIC whose address another machine has",
        "dad-failed",
        Do(|topology, _| {
            topology.host(1).ip(&format!("address add {ADDRESS}/64 dev {} nodad", nic(BROKEN)))?;
            check_addresses(topology, "1")?;
            wait_for("an address that is refused", WITHIN, || {
                let shown = topology.host(0).ip(&format!("-6 address show dev {}", nic(BROKEN)))?;
                Ok(shown.contains("dadfailed").then_some(()))
            })
        }),
        Do(|topology, bundles| {
            topology.host(1).ip(&format!("address delete {ADDRESS}/64 dev {}", nic(BROKEN)))?;
            trust_addresses(topology, bundles)
        }),
    ),
    (
        "a NIC that belongs to a bridge",
        "nic-in-bridge",
        Run("ip link add br9 type bridge && ip link set eth2 master br9"),
        Run("ip link delete br9"),
    ),
];
const IPV6_OFF: &str = "echo 1 >/proc/sys/net/ipv6/conf/eth2/disable_ipv6";
const IPV6_ON: &str = "echo 0 >/proc/sys/net/ipv6/conf/eth2/disable_ipv6";

/// The first host's address at the broken link, which follows from that of its NIC.
const ADDRESS: &str = "fe80::ff:fe01:201";

const COSTLY: [Fault; 11] = [
    (
        "unequal MTUs of the NICs",
        "unequal-mtu",
        Do(|topology, bundles| resize(topology, bundles, 0, 1_400)),
        Do(|topology, bundles| resize(topology, bundles, 0, 1_500)),
    ),
    (
        "a small MTU of the peer's NIC",
        "peer-mtu",
        Do(|topology, bundles| resize(topology, bundles, 1, 1_400)),
        Do(|topology, bundles| resize(topology, bundles, 1, 1_500)),
    ),
    (
        "a tiny receive buffer of a link",
        "receive-buffer",
        Do(|_, bundles| receive_buffer(&bundles[0], 4_096)),
        Do(|_, bundles| receive_buffer(&bundles[0], 7 << 20)),
    ),
    ("a daemon that does not read while datagrams come", "receive-drops", Do(flood), Do(restart)),
    (
        "a tiny receive buffer of TCP",
        "tcp-buffer",
        Run("echo 4096 16384 32768 >/proc/sys/net/ipv4/tcp_rmem"),
        Run("echo 4096 16384 6291456 >/proc/sys/net/ipv4/tcp_rmem"),
    ),
    (
        "a queueing discipline on the device",
        "device-qdisc",
        Run("tc qdisc replace dev tb0 root pfifo limit 100"),
        Run("tc qdisc replace dev tb0 root noqueue"),
    ),
    (
        "a device that takes no superframes",
        "device-tso-off",
        Run("ethtool -K tb0 tso off"),
        Run("ethtool -K tb0 tso on"),
    ),
    ("a device that is down", "device-down", Run("ip link set tb0 down"), Run("ip link set tb0 up")),
    (
        "a device that was moved to another network namespace",
        "device-gone",
        Do(|topology, _| {
            let other = topology.switch(0).name();
            topology.host(0).ip(&format!("link set {DEVICE} netns {other}")).map(drop)
        }),
        Do(|topology, _| {
            let own = topology.host(0).name();
            topology.switch(0).ip(&format!("link set {DEVICE} netns {own}"))?;
            topology.host(0).ip(&format!("link set {DEVICE} up"))?;
            topology.host(0).tc(&format!("qdisc replace dev {DEVICE} root noqueue"))
        }),
    ),
    (
        "UDP port closed by nftables here, to what leaves",
        "port-closed-here",
        Do(|topology, bundles| {
            let rule = format!("oifname {} udp dport {PORT} drop", nic(BROKEN));
            hook(topology.host(0), "inet", "output", &rule)?;
            until(bundles, |path| path.tx == PathState::Down)
        }),
        OPEN,
    ),
    (
        "both links on one switch",
        "one-switch",
        Do(|topology, _| join(topology)),
        Do(|topology, _| topology.switch(0).ip("link delete trunk").map(drop)),
    ),
];

pub(super) fn groups() -> Vec<Group> {
    let group = |trial, faults: &'static [Fault]| {
        of_table(trial, faults, move |way| {
            let topology = Topology::build(plan(&[FAST; LINKS]))?;
            one_by_one(faults, way, &topology, &topology.nics())
        })
    };
    vec![
        group("links_that_carry_nothing", &SILENT),
        group("a_cable_that_flaps", &OVER),
        group("nics_without_what_a_link_needs", &BARE),
        group("sizes_buffers_and_the_device", &COSTLY),
    ]
}

pub(super) fn of_table(
    trial: &str,
    faults: &'static [Fault],
    run: impl Fn(Way) -> Result<()> + Copy + Send + 'static,
) -> Group {
    Group::new("doctor", trial, faults.iter().map(|(fault, name, ..)| (*fault, *name)), Way::BOTH, run)
}

/// For each fault: plants it, asks the doctor of the first host, mends it, and waits until all links carry again.
pub(super) fn one_by_one(faults: &[Fault], way: Way, topology: &Topology, links: &[String]) -> Result<()> {
    with_links(topology, links, &way.options(&[])?, |topology, bundles| {
        way.ready(bundles, links.len())?;
        for (fault, _, plant, mend) in faults {
            plant.done(topology, bundles).with_context(|| format!("planting {fault}"))?;
            named(fault, "doctor", &doctor(topology.host(0), &[DEVICE])?)?;
            mend.done(topology, bundles).with_context(|| format!("mending {fault}"))?;
            way.ready(bundles, links.len()).with_context(|| format!("after {fault}"))?;
        }
        let said = doctor(topology.host(0), &[DEVICE])?;
        ensure!(said.names.is_empty(), "all is mended: {:#}", said.answer);
        Ok(())
    })
}

impl Deed {
    fn done(&self, topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
        match self {
            Run(line) => process::run(topology.host(0).command("sh").args(["-c", line])).map(drop),
            Do(deed) => deed(topology, bundles),
        }
    }
}

fn until(bundles: &mut [Bundle<'_>], wanted: fn(&PathStatus) -> bool) -> Result<()> {
    let seen = |status: &Status| {
        status
            .peers
            .iter()
            .any(|peer| peer.paths.iter().any(|path| path.link as usize == BROKEN && wanted(path)))
    };
    bundles[0].wait_until("the broken path", seen).map(drop)
}

fn kill(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    topology.kill_switch(BROKEN)?;
    until(bundles, |path| path.tx == PathState::Down && path.rx == PathState::Down)
}

fn flap(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    for _ in 0..3 {
        topology.pull_cable(0, BROKEN)?;
        until(bundles, |path| path.tx == PathState::Down)?;
        topology.plug_cable(0, BROKEN)?;
        until(bundles, |path| path.tx == PathState::Up && path.rx == PathState::Up)?;
    }
    Ok(())
}

/// Ends the first bundle and starts it again: what it, its sockets and its events have counted is gone.
fn restart(_: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    bundles[0].stop_for_now()?.success("a daemon told to stop")?;
    bundles[0].start_again()
}

/// The first host has another NIC at the broken link. Only another process puts programs there: this one has given up the right to.
pub(super) fn renew(bundles: &mut [Bundle<'_>], since_ns: u64) -> Result<()> {
    told(&mut bundles[..1], "nic-back", BROKEN, since_ns)?;
    if bundles[0].status()?.data_path == "kernel" { bundles[0].upgrade() } else { Ok(()) }
}

fn nft(host: &Namespace, arguments: &str) -> Result<()> {
    let mut command = host.command("nft");
    process::run(command.args(arguments.split(' '))).map(drop)
}

pub(super) fn hook(host: &Namespace, family: &str, place: &str, rule: &str) -> Result<()> {
    nft(host, &format!("add table {family} filter"))?;
    nft(host, &format!("add chain {family} filter rules {{ type filter hook {place} priority 0 ; }}"))?;
    nft(host, &format!("add rule {family} filter rules {rule}"))
}

fn unhook(host: &Namespace, family: &str) -> Result<()> {
    nft(host, &format!("delete table {family} filter"))
}

fn close(topology: &Topology, bundles: &mut [Bundle<'_>], host: usize, rule: &str) -> Result<()> {
    hook(topology.host(host), "inet", "input", &format!("iifname {} {rule}", nic(BROKEN)))?;
    until(
        bundles,
        if host == 0 { |path| path.rx == PathState::Down } else { |path| path.tx == PathState::Down },
    )
}

pub(super) fn ethtool(host: &Namespace, arguments: &str) -> Result<()> {
    let mut command = host.command("ethtool");
    process::run(command.args(arguments.split(' '))).map(drop)
}

fn setting(topology: &Topology, key: &str, value: &str) -> Result<()> {
    topology.host(0).set(&format!("net/ipv6/conf/{}/{key}", nic(BROKEN)), value)
}

/// The kernel gives the NIC an address anew.
fn address_anew(topology: &Topology) -> Result<()> {
    ["1", "0"].iter().try_for_each(|value| setting(topology, "disable_ipv6", value))
}

fn check_addresses(topology: &Topology, times: &str) -> Result<()> {
    setting(topology, "accept_dad", "1")?;
    setting(topology, "dad_transmits", times)?;
    address_anew(topology)
}

fn trust_addresses(topology: &Topology, _: &mut [Bundle<'_>]) -> Result<()> {
    setting(topology, "accept_dad", "0")?;
    address_anew(topology)
}

fn resize(topology: &Topology, bundles: &mut [Bundle<'_>], host: usize, mtu: u16) -> Result<()> {
    topology.host(host).ip(&format!("link set {} mtu {mtu}", nic(BROKEN)))?;
    until(bundles, if mtu == 1_500 { |path| path.mtu == Some(1_500) } else { |path| path.mtu == Some(1_400) })
}

fn join(topology: &Topology) -> Result<()> {
    let (one, other) = (topology.switch(0), topology.switch(1));
    one.ip(&format!("link add trunk type veth peer name trunk netns {}", other.name()))?;
    [one, other].iter().try_for_each(|switch| switch.ip("link set trunk master br0 up").map(drop))?;
    wait_for("a trunk that forwards", WITHIN, || {
        let ends = [one, other].map(|switch| switch.ip("-details link show trunk"));
        let forwarding = ends.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(forwarding.iter().all(|end| end.contains("state forwarding")).then_some(()))
    })
}

fn flood(topology: &Topology, bundles: &mut [Bundle<'_>]) -> Result<()> {
    /// The kernel counts 768 bytes or more for each.
    const DATAGRAMS: usize = 16_000;
    bundles[0].signal(Signal::SIGSTOP)?;
    let sent = topology.host(1).enter(|| -> Result<()> {
        let index = tabane_io::netlink::nic(&nic(BROKEN))?.index;
        let to = SocketAddrV6::new(ADDRESS.parse()?, PORT, 0, index);
        let socket = UdpSocket::bind("[::]:0")?;
        (0..DATAGRAMS).try_for_each(|_| socket.send_to(&[0], to).map(drop)).context("datagrams")
    })?;
    bundles[0].signal(Signal::SIGCONT)?;
    sent?;
    until(bundles, |path| path.tx == PathState::Up && path.rx == PathState::Up)
}

fn receive_buffer(bundle: &Bundle<'_>, bytes: usize) -> Result<()> {
    let pid = bundle.pid().context("it runs")?;
    let process = pidfd_open(Pid::from_raw(i32::try_from(pid)?).context("a pid")?, PidfdFlags::empty())?;
    let nic = nic(BROKEN);
    for file in fs::read_dir(PathBuf::from(format!("/proc/{pid}/fd")))? {
        let number: i32 = file?.file_name().to_string_lossy().parse()?;
        let Ok(file) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
        let socket = Socket::from(file);
        let port = socket.local_addr().ok().and_then(|local| local.as_socket()).map(|local| local.port());
        let is_bound = socket.device().is_ok_and(|device| device.as_deref() == Some(nic.as_bytes()));
        if port == Some(PORT) && is_bound {
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, bytes / 2)?;
            return Ok(());
        }
    }
    anyhow::bail!("the daemon has no socket on {nic}")
}
