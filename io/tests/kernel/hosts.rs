//! Hosts of the tests: network namespaces that vanish with their last descriptor.

use std::fs;
use std::io;
use std::net::Ipv6Addr;
use std::time::Duration;

use tabane_io::netlink;
use tabane_io::netns::Namespace;
use tabane_io::trial::wait_for;

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
