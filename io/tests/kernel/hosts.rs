//! Hosts of the tests: network namespaces that vanish with their last descriptor.

use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use libtest_mimic::Trial;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{getgid, getuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use tabane_io::netlink;
use tabane_io::netns::Namespace;
use tabane_io::trial::{trial, wait_for};

/// Longest wait for a condition.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Host(pub(crate) Namespace);

impl Host {
    /// An empty namespace with `lo` up.
    pub(crate) fn new() -> io::Result<Self> {
        Namespace::new().map(Self)
    }

    /// Runs `work` in this namespace, on a thread of its own. Sockets made there stay there.
    pub(crate) fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.0.enter(work).expect("our own namespace lets us in")
    }

    /// `ip ARGUMENTS` in this namespace.
    pub(crate) fn ip(&self, arguments: &str) {
        self.command("ip", arguments).expect("ip succeeds");
    }

    /// Limits what `nic` sends to 5 Mbit/s, with a burst that lets one GSO packet through whole.
    pub(crate) fn shape(&self, nic: &str) {
        self.try_shape(nic).expect("tc succeeds");
    }

    pub(crate) fn try_shape(&self, nic: &str) -> io::Result<()> {
        let arguments = format!("qdisc replace dev {nic} root tbf rate 5mbit burst 80kb limit 8mb");
        self.command("tc", &arguments)
    }

    fn command(&self, program: &str, arguments: &str) -> io::Result<()> {
        let output = self.0.command(program).args(arguments.split_whitespace()).output()?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(io::Error::other(format!("{program} {arguments}: {message}")))
    }
}

/// Two hosts and the cable between them.
pub(crate) struct Cable {
    /// Has the NIC `left`, 10.0.0.1.
    pub(crate) left: Host,
    /// Has the NIC `right`, 10.0.0.2.
    pub(crate) right: Host,
    /// The link-local addresses of both.
    pub(crate) link_local: [Ipv6Addr; 2],
}

impl Cable {
    /// Lays a veth pair and waits until both ends are usable.
    pub(crate) fn new() -> Self {
        let (left, right) = (Host::new().unwrap(), Host::new().unwrap());
        left.run(|| netlink::add_cable("left", "right", &right.0)).unwrap();
        let ends = [(&left, "left", 1), (&right, "right", 2)];
        for (host, nic, number) in ends {
            host.run(|| skip_address_detection(nic));
            host.ip(&format!("address add 10.0.0.{number}/24 dev {nic}"));
            host.ip(&format!("link set {nic} up"));
        }
        let link_local = ends.map(|(host, nic, _)| {
            let address = || host.run(|| netlink::nic(nic).unwrap().link_local);
            until("a link-local address", address)
        });
        Self { left, right, link_local }
    }
}

/// Saves a second per test where /proc/sys is writable; elsewhere the wait is longer.
fn skip_address_detection(nic: &str) {
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{nic}/accept_dad"), "0");
}

/// Waits until `probe` gives a value, or panics with the name of what is awaited.
pub(crate) fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let seen = wait_for(what, TIMEOUT, || io::Result::Ok(probe()));
    seen.unwrap_or_else(|missed| panic!("{missed}"))
}

// What a test needs of the machine, and whether it is there.

/// What a test needs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    Nothing,
    /// Network namespaces and the `ip` command.
    Namespaces,
    /// `/dev/net/tun` besides.
    Tun,
    /// That, and the right to load programs into the kernel.
    Bpf,
    /// The `tc` command and the discipline `tbf` besides.
    Tbf,
    /// AF_XDP, and the rights to use it.
    Xdp,
}

/// A test: what it needs, its name and its body.
pub(crate) type Test = (Need, &'static str, fn());

/// For each need, why it is not met.
#[derive(Debug)]
pub(crate) struct Needs([Option<&'static str>; 6]);

impl Needs {
    /// Probes once, before any other thread starts.
    pub(crate) fn probe() -> Self {
        if !getuid().is_root() {
            become_root_of_a_user_namespace();
        }
        let unless = |met: bool, reason| (!met).then_some(reason);
        let namespaces = unless(has("ip"), "needs the ip command (package iproute2)")
            .or_else(|| unless(Host::new().is_ok(), "needs root or user namespaces"));
        let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
        let may_load = getuid().is_root() && rights_of_init();
        let tun = namespaces.or(unless(tun.is_ok(), "needs /dev/net/tun"));
        let bpf = tun.or(unless(may_load, "needs root outside of user namespaces"));
        let tbf = || has("tc") && Host::new().is_ok_and(|host| host.try_shape("lo").is_ok());
        let tbf = namespaces.or_else(|| unless(tbf(), "needs tc and the tbf queueing discipline"));
        let xdp = bpf.or(unless(has_xdp(), "needs AF_XDP"));
        Self([None, namespaces, tun, bpf, tbf, xdp])
    }

    /// A test that passes when its body returns; ignored, with the reason, when what it needs is missing.
    pub(crate) fn trial(&self, (need, name, body): &Test) -> Trial {
        let body = *body;
        trial(name, self.0[*need as usize], move || {
            body();
            Ok(())
        })
    }
}

/// Whether this is the first user namespace, in which alone programs may be loaded.
fn rights_of_init() -> bool {
    fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Whether the kernel has such sockets. The tests show whether Tabane can open one.
fn has_xdp() -> bool {
    rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None).is_ok()
}

fn has(command: &str) -> bool {
    Command::new(command).arg("-V").output().is_ok()
}

/// Enters a user namespace where those are allowed. Else the probe of namespaces fails.
fn become_root_of_a_user_namespace() {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // SAFETY: the process has one thread, and no file descriptor is shared by the flag.
    if unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.is_ok() {
        let maps = [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("0 {user} 1")),
            ("gid_map", format!("0 {group} 1")),
        ];
        for (file, text) in maps {
            // A map that is refused leaves the process without privilege, which the probe finds.
            let _ = fs::write(format!("/proc/self/{file}"), text);
        }
    }
}
