//! Who is compared, and how each makes one path of several links.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::tunnel::{self, Tunnel};
use tabane_kit::bonding;
use tabane_kit::bundle::{self, Bundle};
use tabane_kit::clock::wait_for;
use tabane_kit::mptcp;
use tabane_kit::prerequisites::Missing;
use tabane_kit::topology::{Topology, address};
use tabane_kit::workload::{Stream, ping_pong};

/// How long a path may take to carry its first packet; LACP needs some seconds.
const CARRIES_WITHIN: Duration = Duration::from_secs(20);
/// How long one try may take.
const TRY_WITHIN: Duration = Duration::from_millis(500);
/// A port on which nobody listens: the refusal shows that packets come and go.
const NOBODY: u16 = 9;

/// What makes a path while it lives.
pub(super) enum Way<'a> {
    /// The kernel.
    Kernel,
    Bundles(Vec<Bundle<'a>>),
    Tunnel(Tunnel),
}

impl Way<'_> {
    /// Ends it.
    ///
    /// # Errors
    /// A daemon does not end as it should.
    pub(super) fn stop(self) -> Result<()> {
        let stop = |bundle: Bundle<'_>| bundle.stop()?.success("a daemon told to stop").map(drop);
        match self {
            Way::Kernel => Ok(()),
            Way::Bundles(bundles) => bundles.into_iter().try_for_each(stop),
            Way::Tunnel(tunnel) => tunnel.stop(),
        }
    }
}

/// A way to use several links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Contender {
    /// One link alone
    Single,
    /// Linux bonding, packet after packet
    BalanceRr,
    /// Linux bonding, each connection on the least loaded link
    BalanceTlb,
    /// The same, and each peer is told another link to answer to
    BalanceAlb,
    /// Linux bonding, one link at a time
    ActiveBackup,
    /// Linux bonding, each packet over all links
    Broadcast,
    /// Linux bonding with LACP, each connection on one link
    Lacp,
    /// Linux team, packet after packet
    Team,
    /// MPTCP of the kernel, a subflow per link
    Mptcp,
    /// Aggligator's tunnel for TCP ports, in user space
    Aggligator,
    /// The bundle
    Adaptive,
    /// The bundle, cell after cell
    Rr,
    /// The bundle, each flow on the least loaded link
    Tlb,
}

impl Contender {
    /// Name for people.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Contender::Single => "one link",
            Contender::BalanceRr => "balance-rr",
            Contender::BalanceTlb => "balance-tlb",
            Contender::BalanceAlb => "balance-alb",
            Contender::ActiveBackup => "active-backup",
            Contender::Broadcast => "broadcast",
            Contender::Lacp => "802.3ad",
            Contender::Team => "team roundrobin",
            Contender::Mptcp => "MPTCP",
            Contender::Aggligator => "Aggligator",
            Contender::Adaptive => "bundle adaptive",
            Contender::Rr => "bundle rr",
            Contender::Tlb => "bundle tlb",
        }
    }

    /// Name on the command line and in the file.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Contender::Single => "single",
            Contender::BalanceRr => "balance-rr",
            Contender::BalanceTlb => "balance-tlb",
            Contender::BalanceAlb => "balance-alb",
            Contender::ActiveBackup => "active-backup",
            Contender::Broadcast => "broadcast",
            Contender::Lacp => "lacp",
            Contender::Team => "team",
            Contender::Mptcp => "mptcp",
            Contender::Aggligator => "aggligator",
            Contender::Adaptive => "adaptive",
            Contender::Rr => "rr",
            Contender::Tlb => "tlb",
        }
    }

    /// Whether it is a bundle.
    pub(super) const fn is_bundle(self) -> bool {
        matches!(self, Contender::Adaptive | Contender::Rr | Contender::Tlb)
    }

    /// Whether it works with the addresses of the links themselves.
    pub(super) const fn uses_bare_links(self) -> bool {
        matches!(self, Contender::Single | Contender::Mptcp | Contender::Aggligator)
    }

    /// Whether datagrams can be sent over it.
    pub(super) const fn carries_datagrams(self) -> bool {
        !matches!(self, Contender::Mptcp | Contender::Aggligator)
    }

    /// Checks that what it needs is there, beside what all need.
    pub(super) fn require(self) -> Result<(), Missing> {
        if self == Contender::Aggligator { tunnel::require() } else { Ok(()) }
    }

    /// What carries its byte streams.
    pub(super) const fn stream(self) -> Stream {
        if matches!(self, Contender::Mptcp) { Stream::Mptcp } else { Stream::Tcp }
    }

    /// Where connection `number`, below four, of those that run at once arrives; port 0 is any.
    pub(super) fn at(self, number: usize) -> SocketAddr {
        match self {
            Contender::Aggligator => tunnel::at(number),
            _ => SocketAddr::new(self.address(1), 0),
        }
    }

    /// Address of `host` on its path.
    pub(super) fn address(self, host: usize) -> IpAddr {
        match self {
            Contender::Aggligator => Ipv4Addr::LOCALHOST.into(),
            Contender::Single | Contender::Mptcp => address(0, host).into(),
            _ if self.is_bundle() => bundle::address(host),
            _ => bonding::address(host).into(),
        }
    }

    /// Makes the path, and waits until it carries packets.
    pub(super) fn start<'a>(self, topology: &'a Topology, daemon: &Path) -> Result<Way<'a>> {
        let way = match self {
            Contender::Single => Way::Kernel,
            Contender::BalanceRr | Contender::ActiveBackup | Contender::Broadcast => {
                bonding::bond(topology, self.key()).map(|()| Way::Kernel)?
            }
            Contender::BalanceTlb | Contender::BalanceAlb => {
                bonding::balancing(topology, self.key()).map(|()| Way::Kernel)?
            }
            Contender::Lacp => bonding::lacp(topology).map(|()| Way::Kernel)?,
            Contender::Team => bonding::team(topology).map(|()| Way::Kernel)?,
            Contender::Mptcp => mptcp::announce(topology).map(|()| Way::Kernel)?,
            Contender::Aggligator => Way::Tunnel(Tunnel::start(topology)?),
            Contender::Adaptive | Contender::Rr | Contender::Tlb => {
                let arguments = vec!["--policy".to_string(), self.key().to_string()];
                let options = bundle::Options { arguments, ..bundle::Options::new(daemon) };
                Way::Bundles(Bundle::start_all(topology, &options)?)
            }
        };
        self.wait_until_it_carries(topology)?;
        Ok(way)
    }

    fn wait_until_it_carries(self, topology: &Topology) -> Result<()> {
        if self == Contender::Aggligator {
            // It takes a connection before it knows whether anybody is there on the other side.
            let [client, server] = [0, 1].map(|host| topology.host(host));
            return ping_pong::play(client, server, self.at(0), Stream::Tcp, TRY_WITHIN).map(drop);
        }
        let at = SocketAddr::new(self.address(1), NOBODY);
        wait_for("a path that carries packets", CARRIES_WITHIN, || {
            let answer = topology.host(0).enter(|| TcpStream::connect_timeout(&at, TRY_WITHIN))?;
            let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
            Ok(answer.is_err_and(refused).then_some(()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_are_named_alike_on_the_command_line_and_in_the_file() {
        for contender in Contender::value_variants() {
            let value = contender.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), contender.key());
            assert_eq!(serde_json::to_value(contender).unwrap(), contender.key());
        }
    }
}
