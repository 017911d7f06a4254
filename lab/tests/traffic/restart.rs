//! A daemon that is killed and started again: its host, which has a new device and knows nobody's address any more, can
//! connect at once. Nothing that it sends before the first peer is there is lost, or ARP and TCP would try again after a second.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Result, ensure};
use tabane_kit::bundle::address;
use tabane_kit::clock::wait_for;
use tabane_kit::counters::protocol;
use tabane_kit::status::Questions;

use crate::traffic::stage::{FAST, options, plan, with_bundles};
use crate::traffic::{Case, Need};

/// Times that the daemon is killed.
const ROUNDS: usize = 7;
/// How long any connection may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("a_restarted_daemon_lets_its_host_connect_at_once", Need::Daemon, restart)]
}

fn restart() -> Result<()> {
    with_bundles(plan(&[FAST; 2]), &options()?, |topology, bundles| {
        let listener = topology.host(0).enter(|| TcpListener::bind(SocketAddr::new(address(0), 0)))??;
        let to = listener.local_addr()?;
        let tried_again = || protocol(topology.host(1), "TcpExt", "TCPSynRetrans");
        let mut again = Vec::new();
        for _ in 0..ROUNDS {
            bundles[1].kill()?;
            let before = tried_again()?;
            bundles[1].start_again()?;
            // There is no way to the address before the device is there.
            let connect = || Ok(topology.host(1).enter(|| TcpStream::connect_timeout(&to, PATIENCE))?.ok());
            wait_for("a connection", PATIENCE, connect)?;
            again.push(tried_again()? - before);
            let status = bundles[1].status()?;
            ensure!(status.counter("drop_no_peer") == 0, "frames that found nobody: {:?}", status.counters);
        }
        // A machine that stands still for a second has TCP try again, too; a frame that is lost does it in each round.
        again.sort_unstable();
        ensure!(again[ROUNDS / 2] == 0, "connections tried again: {again:?}");
        Ok(())
    })
}
