//! A daemon that is killed and started again: its host, which has a new device and knows nobody's address any more, can
//! connect soon.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tabane_lab::bundle::address;
use tabane_lab::clock::wait_for;

use crate::stage::{FAST, options, plan, with_bundles};
use crate::{Case, Need};

/// Times that the daemon is killed.
const ROUNDS: usize = 3;
/// From its start to a connection, in the middle of all rounds: half of what a lost ARP request costs.
const CONNECTS_WITHIN: Duration = Duration::from_millis(500);
/// How long any connection may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("a_restarted_daemon_lets_its_host_connect_within_500_ms", Need::Daemon, restart)]
}

fn restart() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, bundles| {
        let listener = topology.host(0).enter(|| TcpListener::bind(SocketAddr::new(address(0), 0)))??;
        let to = listener.local_addr()?;
        let mut spans = Vec::new();
        for _ in 0..ROUNDS {
            bundles[1].kill()?;
            bundles[1].start_again()?;
            let started = Instant::now();
            // There is no way to the address before the device is there.
            let connect = || Ok(topology.host(1).enter(|| TcpStream::connect_timeout(&to, PATIENCE))?.ok());
            wait_for("a connection", PATIENCE, connect)?;
            spans.push(started.elapsed());
        }
        spans.sort_unstable();
        ensure!(spans[ROUNDS / 2] <= CONNECTS_WITHIN, "after {spans:?}");
        Ok(())
    })
}
