//! agg-tunnel, of Aggligator: it runs in user space and carries connections to a port of one host's loopback address over
//! all links to the same port of the other host's.
//!
//! Who measures it connects to that address, so its ports have to be known beforehand. It carries TCP only.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;

use tabane_kit::prerequisites::{Missing, is_installed};
use tabane_kit::process::Process;
use tabane_kit::topology::{Topology, address};
use tabane_kit::workload::wait_until_listening;

/// The program.
const PROGRAM: &str = "agg-tunnel";
/// Where it listens for its other half.
const LISTENS: u16 = 5800;
/// Most connections at once; each has a port of its own.
pub(super) const CONNECTIONS_MAX: u16 = 16;
/// The first of these ports.
const FIRST_PORT: u16 = 7001;

/// Both ends of a tunnel; they end with the value.
#[derive(Debug)]
pub(super) struct Tunnel {
    ends: [Process; 2],
}

/// Checks that the program is there; no Debian package holds it.
pub(super) fn require() -> Result<(), Missing> {
    if is_installed(PROGRAM) {
        return Ok(());
    }
    Err(Missing::new(format!("{PROGRAM} not found: install it with `cargo install aggligator-util`")))
}

/// Where connection `number`, below [`CONNECTIONS_MAX`], is carried: on the client where it goes to, on the server where it arrives.
pub(super) fn at(number: usize) -> SocketAddr {
    let number = u16::try_from(number).unwrap_or(0);
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), FIRST_PORT + number)
}

impl Tunnel {
    /// Starts both ends, and waits until they take connections.
    pub(super) fn start(topology: &Topology) -> Result<Tunnel> {
        let ports = || (0..CONNECTIONS_MAX).map(|number| FIRST_PORT + number);
        let (client, server) = (topology.host(0), topology.host(1));

        let mut serve = server.command(PROGRAM);
        serve.args(["server", "--no-monitor", "--tcp", &LISTENS.to_string()]);
        serve.args(ports().map(|port| format!("--port={port}")));

        let mut connect = client.command(PROGRAM);
        connect.args(["client", "--ipv4", "--no-monitor"]);
        connect.args(ports().map(|port| format!("--port={port}:{port}")));
        for link in 0..topology.nics().len() {
            connect.args(["--tcp", &format!("{}:{LISTENS}", address(link, 1))]);
        }
        let ends = [Process::start(serve)?, Process::start(connect)?];
        wait_until_listening(server, LISTENS, PROGRAM)?;
        wait_until_listening(client, FIRST_PORT, PROGRAM)?;
        Ok(Tunnel { ends })
    }

    /// Ends both.
    pub(super) fn stop(self) -> Result<()> {
        self.ends.into_iter().try_for_each(|end| end.stop().map(drop))
    }
}
